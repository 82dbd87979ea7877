"""From proto to domain and back."""
