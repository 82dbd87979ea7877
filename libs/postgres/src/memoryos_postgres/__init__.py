"""Pools, scoped transactions, migrations, keyring and idempotency."""
