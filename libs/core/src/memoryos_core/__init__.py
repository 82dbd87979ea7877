"""Ids, paths, scope, errors, canonical JSON, sealing and tokens: no I/O."""
