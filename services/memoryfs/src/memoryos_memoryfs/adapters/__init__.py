"""Storage behind the ports."""
