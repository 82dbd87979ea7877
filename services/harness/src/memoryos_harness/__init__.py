"""Sessions and durable agent tasks."""
