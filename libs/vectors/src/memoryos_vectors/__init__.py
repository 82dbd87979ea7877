"""VectorIndex: one port for every dense index."""
