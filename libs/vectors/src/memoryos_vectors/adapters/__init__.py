"""Adapters of VectorIndex; only composition roots and storage adapters build them."""
