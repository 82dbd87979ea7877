"""Contract suites: one per port, run on every adapter."""
