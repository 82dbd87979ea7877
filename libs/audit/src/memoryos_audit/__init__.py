"""Append-only audit, its sealer and its verifier."""
