"""Measures of the services against the raw engines below them: `make bench`."""
