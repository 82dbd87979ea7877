"""The outside world behind the ports: PostgreSQL, policy, memory, HTTP, files."""
