"""Parts of the servicer, by what they are about."""
