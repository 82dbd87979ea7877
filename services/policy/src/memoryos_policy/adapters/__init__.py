"""The ports on OPA and PostgreSQL."""
