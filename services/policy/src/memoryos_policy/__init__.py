"""Decisions by OPA, reviews and the decision log."""
