"""Field rules of the protos, compiled to closures per message type."""
