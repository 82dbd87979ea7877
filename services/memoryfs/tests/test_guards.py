"""The guards one behind the other: ACL inside each arm, the re-read, row-level security, sealing.

Each test names the guard that it needs; `make mutants` removes them in turn.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_core.paths import MemoryPath
from memoryos_memoryfs.adapters import pg_recall
from memoryos_memoryfs.adapters.newest_ids import newest_ids
from memoryos_memoryfs.adapters.pg_recall import PgRecall
from memoryos_memoryfs.adapters.places import place_of
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.query_words import query_words
from memoryos_memoryfs.ports.storage import Look
from memoryos_models.unit import unit_rows
from memoryos_postgres import Database, roles
from memoryos_postgres.errors import ScopeMissing
from memoryos_testing import assert_columns_classified, assert_row_security, assert_tenant_first, scope_of

from .sessions import shared_of

NEAR = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
VECTOR = unit_rows([list(NEAR.values)], dimensions=64)[0]
PATH = MemoryPath.parse("/tenants/acme/memory/episodic")
WORDS = ["".join(letters) for letters in itertools.product("bdfgkm", "aeiou", "lnrz", "o")]
INDEX_TABLES = (
    "memoryfs.item_tokens",
    "memoryfs.item_vectors",
    "memoryfs.parked_vectors",
    "memoryfs.item_embeds",
    "memoryfs.item_access",
    "memoryfs.vector_indexes",
    "memoryfs.working_items",
    "memoryfs.upkeep_runs",
    "memoryfs.revision_vectors",
    "memoryfs.item_claims",
    "memoryfs.index_outbox",
    "memoryfs.due_bindings",
    "memoryfs.cold_tokens",
)


@pytest.fixture
async def database_of_memoryfs(database) -> AsyncIterator[Database]:
    async with Database(database.section, roles.MEMORYFS) as opened:
        yield opened


async def write_one(caller, text: str = "the private word xylophone", **fields) -> str:
    (result,) = await caller.write_entries([memoryfs_pb2.WriteEntry(content=text, embedding=NEAR, **fields)])
    return result.id


async def test_acl_is_applied_inside_the_dense_arm(alice, service, keys, database_of_memoryfs):
    """The arm itself gives a stranger no candidate, long before anything is read again."""
    mine = await write_one(alice)
    for user, expected in (("alice", [mine]), ("bob", [])):
        scope = scope_of(user=user)
        async with database_of_memoryfs.scoped(scope) as tx:
            session = Session(shared=shared_of(database_of_memoryfs, keys), tx=tx, scope=scope)
            recall = PgRecall(session)
            answer = await recall.dense(await recall.within(Look(paths=(PATH,))), VECTOR, 10, named=[mine])
        assert list(answer.scores) == expected
        assert list(answer.asked) == expected
        assert answer.compared_count == len(expected)


@pytest.mark.parametrize("further", [0, 30], ids=["few words", "many words"])
async def test_acl_is_applied_inside_the_lexical_arm(alice, service, keys, database_of_memoryfs, further):
    asked = " ".join(["xylophone", *WORDS[:further]])
    mine = await write_one(alice)
    for user, expected in (("alice", [mine]), ("bob", [])):
        scope = scope_of(user=user)
        async with database_of_memoryfs.scoped(scope) as tx:
            session = Session(shared=shared_of(database_of_memoryfs, keys), tx=tx, scope=scope)
            recall = PgRecall(session)
            answer = await recall.lexical(await recall.within(Look(paths=(PATH,))), query_words(asked), 10)
        assert list(answer.shares) == expected


async def test_acl_is_applied_inside_the_walk_of_the_newest(alice, bob, service, keys, database_of_memoryfs):
    await write_one(alice)
    mine = await write_one(bob)
    scope = scope_of(user="bob")
    async with database_of_memoryfs.scoped(scope) as tx:
        session = Session(shared=shared_of(database_of_memoryfs, keys), tx=tx, scope=scope)
        found = await newest_ids(session, await place_of(session, PATH), (datetime.max.replace(tzinfo=UTC), "~"), 10)
    assert [item_id for item_id, _ in found] == [mine]


async def test_rarity_counts_only_what_the_reader_may_see(alice, bob):
    """What others wrote moves no score of mine: scores are no side channel."""
    await alice.write("common word here")
    await alice.write("other thing there")
    before = [(hit.item.id, hit.score) for hit in (await alice.read("common thing")).hits]
    await bob.write_entries([memoryfs_pb2.WriteEntry(content="common common common") for _ in range(50)])
    assert [(hit.item.id, hit.score) for hit in (await alice.read("common thing")).hits] == before


@pytest.mark.parametrize("matched_max", [pg_recall.MATCHED_MAX, 8], ids=["from the answer", "counted apart"])
async def test_what_others_wrote_does_not_choose_the_words_of_a_long_query(alice, bob, monkeypatch, matched_max):
    """Of a long query the rarest words are asked: rarest among what the reader may see."""
    monkeypatch.setattr(pg_recall, "MATCHED_MAX", matched_max)
    for start in range(0, 90, 10):
        await alice.write(" ".join(WORDS[start : start + 10]))
    query = " ".join(WORDS[:90])
    before = [(hit.item.id, hit.score) for hit in (await alice.read(query)).hits]
    assert before
    await bob.write_entries([memoryfs_pb2.WriteEntry(content=" ".join(WORDS[:45])) for _ in range(20)])
    assert [(hit.item.id, hit.score) for hit in (await alice.read(query)).hits] == before


@pytest.mark.parametrize(
    "tampering",
    [
        # An index row that says "bob may read it" although the truth does not.
        "UPDATE memoryfs.item_vectors SET acl = acl || (SELECT id FROM memoryfs.principals WHERE name = 'user:bob')",
        "UPDATE memoryfs.item_tokens SET acl = acl || (SELECT id FROM memoryfs.principals WHERE name = 'user:bob')",
    ],
)
async def test_the_truth_is_read_again_before_an_item_leaves(alice, bob, service, tampering):
    item_id = await write_one(alice)
    await bob.write("something of bob's own")
    await service.rows(tampering)
    for hits in (
        await bob.read_ids("xylophone"),
        await bob.read_ids("xylophone", embedding=NEAR),
        await bob.read_ids(),
        await bob.list_ids(),
    ):
        assert item_id not in hits
        assert len(hits) == 1


async def test_an_item_the_truth_calls_forgotten_is_not_served_by_a_stale_index_row(alice, service):
    item_id = await write_one(alice)
    await service.rows("UPDATE memoryfs.items SET state = 4, forgotten_from = 2 WHERE id = %s", item_id)
    assert await alice.read_ids("xylophone") == []
    assert await alice.read_ids() == []
    assert await alice.list_ids() == []


async def test_row_level_security_stands_when_the_where_clause_is_removed(alice, bob, mallory, database_of_memoryfs):
    await write_one(alice)
    mine = await write_one(bob, readers=["user:carol"])
    await write_one(mallory)
    await bob.update(mine, content="second revision")
    for user, tables in (
        ("alice", {"items": 1, "item_revisions": 0}),
        ("bob", {"items": 1, "item_revisions": 1}),
        ("carol", {"items": 1, "item_revisions": 1}),
        ("dave", {"items": 0, "item_revisions": 0}),
    ):
        async with database_of_memoryfs.scoped(scope_of(user=user)) as tx:
            for table, count in tables.items():
                assert await tx.fetch_value(f"SELECT count(*) FROM memoryfs.{table}") == count, (user, table)
    async with database_of_memoryfs.scoped(scope_of(tenant="nobody")) as tx:
        for table in ("items", "item_revisions", "item_changes", "paths", "principals"):
            assert await tx.fetch_value(f"SELECT count(*) FROM memoryfs.{table}") == 0, table


async def test_earlier_revisions_go_by_their_own_readers_or_by_todays(alice, database_of_memoryfs):
    closed = await write_one(alice, "closed since", readers=["user:bob"])
    opened, private = await write_one(alice, "opened since"), await write_one(alice, "always private")
    await alice.update(closed, content="x", update_mask={"paths": ["content", "readers"]})
    await alice.update(opened, content="y", readers=["user:bob"])
    await alice.update(private, content="z")
    async with database_of_memoryfs.scoped(scope_of(user="bob")) as tx:
        for setting, expected in (("", {closed}), ("on", {closed, opened})):
            await tx.set_local({"memoryos.known_then": setting})
            rows = await tx.fetch_all("SELECT id FROM memoryfs.item_revisions")
            assert {row["id"] for row in rows} == expected


async def test_a_reader_cannot_change_a_row_past_the_service(alice, database_of_memoryfs):
    await write_one(alice, readers=["user:bob"])
    for scope, count in ((scope_of(user="bob"), 0), (scope_of(user="alice"), 1)):
        async with database_of_memoryfs.scoped(scope) as tx:
            assert await tx.execute("UPDATE memoryfs.items SET importance = 1") == count
    with pytest.raises(Exception, match="no right"):
        async with database_of_memoryfs.scoped(scope_of(user="alice")) as tx:
            await tx.execute("UPDATE memoryfs.item_revisions SET importance = 1")


async def test_only_upkeep_deletes_truth_and_only_of_its_tenant(alice, database_of_memoryfs):
    item_id = await write_one(alice)
    await alice.update(item_id, content="again")
    await alice.forget(item_id)
    tables = ("memoryfs.items", "memoryfs.item_revisions", "memoryfs.item_changes")
    for table in tables:
        async with database_of_memoryfs.scoped(scope_of(user="alice")) as tx:
            assert await tx.execute(f"DELETE FROM {table}") == 0, table
        async with database_of_memoryfs.upkeep("globex") as tx:
            assert await tx.execute(f"DELETE FROM {table}") == 0, table
    for table in tables:
        async with database_of_memoryfs.upkeep("acme") as tx:
            assert await tx.execute(f"DELETE FROM {table}") == 1, table


async def test_truth_without_a_scope_is_an_error_on_a_fresh_and_on_a_reused_connection(alice, database_of_memoryfs):
    await write_one(alice)
    for _ in range(6):  # more than the pool has connections
        with pytest.raises(ScopeMissing):
            async with database_of_memoryfs.unscoped() as tx:
                await tx.fetch_all("SELECT * FROM memoryfs.items")
        async with database_of_memoryfs.scoped(scope_of(user="alice")) as tx:
            assert await tx.fetch_value("SELECT count(*) FROM memoryfs.items") == 1


async def test_the_schema_keeps_its_conventions(database):
    await assert_columns_classified(database.admin_dsn)
    await assert_tenant_first(database.admin_dsn)
    await assert_row_security(database.admin_dsn, without=INDEX_TABLES)


CANARY = re.compile("canary[a-z]+", re.IGNORECASE)


async def test_a_canary_in_every_string_field_is_in_clear_only_in_declared_columns(alice, service, tmp_path):
    """DESIGN §2: sealed at rest, but for labels to filter by and principals."""
    entry = memoryfs_pb2.WriteEntry(
        content="canarycontent in a sentence",
        attributes_json=b'{"canarykey": "canaryvalue"}',
        tags=["canarytag"],
        user="canaryuser",
        readers=["user:canaryreader"],
        source=item_pb2.Source(
            session_id="canarysession",
            message_ids=["canarymessage"],
            call_id="canarycall",
            document="canarydocument",
        ),
        event_key=item_pb2.EventKey(subject="canarysubject", scope="canaryscope", condition="canarycondition"),
    )
    path = f"{alice.path}/canarysegment"
    (result,) = await alice.write_entries([entry], path=path)
    await alice.update(result.id, path=path, content="canarychanged words")
    await alice.read("canaryquery canarychanged", path=path)
    await alice.forget(result.id, path=path)
    await alice.restore(result.id, path=path)
    found: dict[str, set[str]] = {}
    tables = await service.rows(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND n.nspname IN ('core', 'memoryfs')"
    )
    for schema, table in tables:
        for row in await service.rows(f"SELECT * FROM {schema}.{table}"):  # names from the catalogue
            for value in row:
                text = value.decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
                found.setdefault(f"{schema}.{table}", set()).update(CANARY.findall(text))
    assert {name: words for name, words in found.items() if words} == {
        # Attributes stand there to be filtered by.
        "memoryfs.items": {"canarykey", "canaryvalue", "canarytag", "canaryuser"},
        "memoryfs.item_revisions": {"canarykey", "canaryvalue", "canarytag", "canaryuser"},
        "memoryfs.principals": {"canaryreader"},
    }
    spans = "".join(path.read_text() for path in (tmp_path / "spans").iterdir())
    assert "MemoryFS/Write" in spans
    assert not CANARY.findall(spans)


async def test_a_sealed_payload_moved_to_another_row_does_not_open(alice, service):
    first, second = await write_one(alice), await write_one(alice, "another text")
    await service.rows(
        "UPDATE memoryfs.items SET sealed = (SELECT sealed FROM memoryfs.items WHERE id = %s) WHERE id = %s",
        first,
        second,
    )
    with pytest.raises(Exception, match=r"SEALED_KEY_UNAVAILABLE|sealed"):
        await alice.get(second)
    assert (await alice.get(first)).content.startswith("the private word")


async def test_an_erased_subject_is_nowhere(alice, service, start_service):
    """Destroying a data key makes its items unreadable for a process that does not hold the key."""
    gone = await write_one(alice, user="u9")
    kept = await write_one(alice, "kept text")
    sealed = (await service.rows("SELECT sealed FROM memoryfs.items WHERE id = %s", gone))[0][0]
    await service.rows("DELETE FROM core.data_keys WHERE key_id = %s", bytes(sealed)[1:17])
    fresh = (await start_service()).caller("alice")
    assert await fresh.list_ids() == [kept]
    assert await fresh.read_ids("xylophone") == [kept]
