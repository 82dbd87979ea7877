"""Adapters of the ports: PostgreSQL, procrastinate, the other services, agent files."""
