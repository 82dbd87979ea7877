"""The newest items of any reader, however many others there are, equal a plain sort of what it may see."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from memoryos_memoryfs.adapters import newest_ids as module
from memoryos_memoryfs.adapters.newest_ids import newest_ids
from memoryos_memoryfs.adapters.places import Place
from memoryos_memoryfs.adapters.session import Session
from memoryos_postgres import Database, roles
from memoryos_testing import scope_of

from .sessions import shared_of

pytestmark = pytest.mark.integration
START = datetime(2026, 1, 1, tzinfo=UTC)
END = (datetime.max.replace(tzinfo=UTC), "~")
ROWS = 3 * module.LOOKED_AT_MAX


@pytest.fixture
async def rows(database) -> list[tuple[str, datetime, int, list[int]]]:
    """Items of many owners, of which some share with 7; owner 2 wrote long ago, 3 never."""
    rng = random.Random(5)
    made = []
    for n in range(ROWS):
        owner = 2 if n < 40 and n % 4 == 0 else rng.choice([1, 1, 1, 4])
        acl = [owner, 7] if n % 97 == 5 else [owner, 8, 2] if n == 3 else [owner]
        # Several in one instant: then the id decides.
        made.append((f"mem_{rng.random():.16f}", START + timedelta(seconds=n // 3), 10 + n % 2, acl))
    async with await psycopg.AsyncConnection.connect(database.admin_dsn, autocommit=True) as admin:
        async with admin.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO memoryfs.item_tokens (tenant, item_id, path_id, acl, create_time, hashes, words, length)"
                " VALUES ('acme', %s, %s, %s, %s, '{}', '', 1)",
                [(item_id, path_id, acl, at) for item_id, at, path_id, acl in made],
            )
        await admin.execute("ANALYZE memoryfs.item_tokens")
    return made


@pytest.mark.parametrize("readers", [(1,), (2,), (3,), (7,), (2, 7), (1, 2, 4), ()])
@pytest.mark.parametrize("paths", [(10, 11), (11,)])
async def test_pages_of_the_newest_equal_a_plain_sort(rows, database, keys, readers, paths):
    expected = sorted(
        ((at, item_id) for item_id, at, path_id, acl in rows if set(acl) & set(readers) and path_id in paths),
        reverse=True,
    )
    scope = scope_of(user="alice")
    found: list[tuple[datetime, str]] = []
    position = END
    async with Database(database.section, roles.MEMORYFS) as opened, opened.scoped(scope) as tx:
        session = Session(shared=shared_of(opened, keys), tx=tx, scope=scope)
        for _ in range(4):
            page = await newest_ids(session, Place(readers, paths, False), position, 30)
            found += [(at, item_id) for item_id, at in page]
            if len(page) < 30:
                break
            position = (page[-1][1], page[-1][0])
    assert found == expected[:120]
