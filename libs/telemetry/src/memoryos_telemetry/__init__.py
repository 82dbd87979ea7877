"""Traces, logs and the local span file."""
