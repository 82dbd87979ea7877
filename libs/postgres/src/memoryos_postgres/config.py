"""Where the database is and how much of it a process may use."""

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from psycopg.conninfo import make_conninfo
from pydantic import Field

from memoryos_postgres.roles import password_file
from memoryos_postgres.secret_files import read_secret


class PostgresSection(Section):
    """PostgreSQL 15 or newer with pgvector 0.8 or newer; one password file per role."""

    section: ClassVar[str] = "postgres"

    host: str = "127.0.0.1"
    port: int = Field(default=5432, ge=1, le=65535)
    database: str = "memoryos"
    secrets_dir: ConfigPath
    sslmode: str = "prefer"
    # Pools of 4 beat 8 and 16 on every figure measured; more processes scale, more connections do not.
    pool_size: int = Field(default=4, ge=1, le=64)
    acquire_timeout_s: float = Field(default=5.0, gt=0, le=60)
    # Above the longest deadline of a call, so that only a forgotten statement meets it.
    statement_timeout_s: float = Field(default=30.0, gt=0, le=3600)
    # How long a process that stops in the middle of a transaction holds its locks.
    idle_in_transaction_timeout_s: float = Field(default=30.0, gt=0, le=3600)

    def dsn(self, role: str) -> str:
        """Connection string of `role`; it holds the password, so it is a secret."""
        return make_conninfo(
            host=self.host,
            port=self.port,
            dbname=self.database,
            user=role,
            password=read_secret(password_file(self.secrets_dir, role)),
            sslmode=self.sslmode,
            application_name=role,
        )
