"""Python client of Memory OS."""
