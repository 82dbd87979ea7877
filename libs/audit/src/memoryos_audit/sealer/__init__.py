"""The sealer process: `python -m memoryos_audit.sealer`."""
