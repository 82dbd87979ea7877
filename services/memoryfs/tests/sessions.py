"""Adapters without the service around them, on a test's database."""

from __future__ import annotations

from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.token_hashes import TokenHashes
from memoryos_memoryfs.adapters.names import Names
from memoryos_memoryfs.adapters.session import Shared
from memoryos_postgres import Database
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.jobs import Jobs
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key
from memoryos_vectors.adapters.pgvector_routes import AnnRoutes
from memoryos_vectors.models import IndexedModels

from .conftest import Keys


def shared_of(database: Database, keys: Keys) -> Shared:
    """Give what a process shares, for a hash embedder of 64 dimensions."""
    keyring, clock = PostgresKeyRing(load_epoch_key(keys.epoch_key_file)), SystemClock()
    return Shared(
        keyring=keyring,
        idempotency=Idempotency(keyring),
        names=Names(),
        hashes=TokenHashes(),
        models=IndexedModels({"hash-64": 64}),
        model_id="hash-64",
        ann=AnnRoutes(),
        clock=clock,
        jobs=Jobs(database, "memoryfs", keyring, UlidSource(clock)),
    )
