"""Embedder and chat ports with their adapters."""
