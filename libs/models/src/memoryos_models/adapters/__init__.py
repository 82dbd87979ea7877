"""Adapters of the model ports; only composition roots build them."""
