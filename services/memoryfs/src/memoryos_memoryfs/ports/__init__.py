"""What operations ask of the outside: one file per capability, behaviour written down. Adapters live in adapters/."""
