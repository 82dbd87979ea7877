"""PostgreSQL for the services: pools, scoped transactions, migrations, key ring, idempotency."""

from memoryos_postgres.config import PostgresSection
from memoryos_postgres.database import Database
from memoryos_postgres.transaction import Row, Tx

__all__ = ["Database", "PostgresSection", "Row", "Tx"]
