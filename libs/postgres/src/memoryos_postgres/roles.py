"""The roles of the one database. None is a superuser, none bypasses row-level security."""

from pathlib import Path
from typing import Final

OWNER: Final = "memoryos_owner"
"""Owns every object and runs migrations; no service connects as this role."""
MEMORYFS: Final = "memoryos_memoryfs"
HARNESS: Final = "memoryos_harness"
TOOLGATEWAY: Final = "memoryos_toolgateway"
POLICY: Final = "memoryos_policy"
SEALER: Final = "memoryos_sealer"
"""Reads all audit rows and writes their seals; nothing else."""
INDEXER: Final = "memoryos_indexer"
"""Owns the dense index (memoryfs.item_vectors) and nothing else: only an owner can make an index concurrently."""

SERVICES: Final = (MEMORYFS, HARNESS, TOOLGATEWAY, POLICY)
ALL: Final = (OWNER, *SERVICES, SEALER, INDEXER)


def password_file(secrets_dir: Path, role: str) -> Path:
    """Where the password of `role` is kept, mode 0600."""
    return secrets_dir / f"{role}.password"
