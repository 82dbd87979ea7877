"""Answers that nobody wishes for, and stores that fail when the answer is there."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from memoryos_core.errors import MemoryOSError
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_testing.postgres import Clone
from memoryos_testing.scopes import scope_of
from memoryos_toolgateway.adapters.erasure import holdings_of
from memoryos_toolgateway.domain.obligations import DETECTORS, NONE, Notice, Obligations, RateLimit
from memoryos_toolgateway.ports import Finding

from .bench import Bench, skill_document, write_skills
from .eval_data import eval_data
from .policies import allow

pytestmark = pytest.mark.integration
FULL_DISK = """
CREATE SEQUENCE public.failures;
GRANT USAGE ON SEQUENCE public.failures TO PUBLIC;
CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('public.failures') <= {times} THEN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER full_disk BEFORE UPDATE ON toolgateway.calls FOR EACH ROW WHEN (NEW.state = 'SUCCEEDED')
    EXECUTE FUNCTION public.full_disk();
"""


def ready(bench: Bench, behaviour: str = "ok", obligations: Obligations = NONE, **more) -> None:
    document = skill_document("do", behaviour, **more)
    document["connector"]["response_bytes_max"] = 4_194_304
    write_skills(bench.folder, document)
    bench.policy.rules["do"] = allow
    bench.policy.obligations["do"] = obligations


@asynccontextmanager
async def full_disk(clone: Clone, times: int) -> AsyncIterator[None]:
    """The store refuses the first `times` results, as it does when its disk is full."""
    async with await psycopg.AsyncConnection.connect(clone.admin_dsn, autocommit=True) as connection:
        await connection.execute(FULL_DISK.format(times=times))
        yield
        await connection.execute("DROP TRIGGER full_disk ON toolgateway.calls")


async def test_a_result_that_can_be_kept_later_is_kept(lone_bench: Bench, database: Clone):
    ready(lone_bench)
    async with full_disk(database, 2):
        assert (await lone_bench.call("do", name="a")).state == "SUCCEEDED"
    assert lone_bench.upstream.effects["a"] == 1


async def test_a_result_that_cannot_be_kept_is_not_given_out_and_leaves_a_doubt(lone_bench: Bench, database: Clone):
    bench = lone_bench
    ready(bench, obligations=Obligations(notices=(Notice("team", "t"),), taints=frozenset({"personal_data"})))
    async with full_disk(database, 100):
        with pytest.raises(MemoryOSError):
            await bench.call("do", name="a")
        assert (await bench.call("do", name="a", wait_s=0)).state == "DISPATCHED"
        await bench.rows("UPDATE toolgateway.calls SET deadline = clock_timestamp() RETURNING id")
    assert (await bench.call("do", name="a")).state == "UNKNOWN"
    assert bench.upstream.effects["a"] == 1
    assert await bench.rows("SELECT 1 FROM core.session_facts") == []
    assert [told.state for told in await bench.outbox.due(10)] == ["UNKNOWN"]


async def test_a_result_of_megabytes_is_masked_cut_and_kept(bench: Bench):
    ready(bench, "say", Obligations(detectors=DETECTORS), timeout_s=20)
    text = "客户13812345678的数据 " * 110_000
    bench.upstream.says = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert len(bench.upstream.says) > 2_800_000
    call = await bench.call("do", name="a", wait_s=60)
    assert (call.state, len(call.result) <= 16_384) == ("SUCCEEDED", True)
    whole = await bench.journal.full_result(bench.scope(), call)
    assert b"13812345678" not in whole
    assert len(json.loads(whole)["text"]) > 1_000_000


async def test_an_answer_beyond_what_is_read_is_a_part_and_says_so(bench: Bench):
    ready(bench, "say", timeout_s=20)
    bench.upstream.says = b'{"text":"' + b"x" * 5_000_000 + b'"}'
    call = await bench.call("do", name="a", wait_s=60)
    assert (call.state, json.loads(call.result)["truncated"]) == ("SUCCEEDED", True)
    assert call.full_result_bytes > 4_000_000


@pytest.mark.parametrize(
    "says", [b"[" * 10_000, b'{"a":' * 200 + b"1" + b"}" * 200, b"[" * 64 + b"]" * 64, b"\xff\x00"]
)
async def test_deep_and_broken_answers_are_results_like_others(bench: Bench, says: bytes):
    ready(bench, "say", Obligations(pointers=("/a/*/b", "/a/a/a"), detectors=DETECTORS))
    bench.upstream.says = says
    call = await bench.call("do", name="a")
    assert call.state == "SUCCEEDED"
    json.loads(call.result)


async def test_hostile_strings_are_texts(bench: Bench):
    ready(bench, "say", Obligations(detectors=DETECTORS))
    strings = ["\x00", "\u202e", "'; DROP TABLE calls; --", "__proto__", "{{7*7}}", *eval_data("security/blns.json")]
    bench.upstream.says = json.dumps({f"{n} {text}": text for n, text in enumerate(strings)}).encode()
    call = await bench.call("do", name="a")
    assert call.state == "SUCCEEDED"
    whole = await bench.journal.full_result(bench.scope(), call) or call.result
    assert len(json.loads(whole)) == len(strings)


async def test_everything_of_a_person_goes_and_nothing_of_another(lone_bench: Bench, key_ring: PostgresKeyRing):
    """Nobody else is in the database: gateways of other tests would send its notices."""
    ready(
        lone_bench, "say",
        Obligations(notices=(Notice("team", "t"),), output_limit_bytes=100, rates=(RateLimit("k", 9, 60, 1),)),
    )  # fmt: skip
    lone_bench.upstream.says = b'{"t":"' + b"x" * 500 + b'"}'
    for user in ("u42", "u7"):
        scope = scope_of(lone_bench.tenant, user=user)
        await lone_bench.call("do", "r1", name="a", scope=scope)
        write_skills(lone_bench.folder, skill_document("lost", "drop", attempts=1))
        lone_bench.policy.rules["lost"] = allow
        lone_bench.policy.obligations["lost"] = Obligations(notices=(Notice("team", "t"),))
        for number in range(2):
            doubt = await lone_bench.call("lost", f"l{number}", name="a", scope=scope)
        await lone_bench.rows("UPDATE toolgateway.calls SET settle_time = clock_timestamp() RETURNING id")
        await lone_bench.book.settle(scope, doubt, Finding(happened=True, by_user="boss", comment="seen"))

    async def left() -> dict[str, int]:
        counts = {}
        for table in holdings_of(key_ring).of_user:
            (row,) = await lone_bench.rows(f"SELECT count(*) AS n FROM {table} WHERE tenant = %s", lone_bench.tenant)
            counts[table] = row["n"]
        return counts

    before = await left()
    assert before["toolgateway.dispatched"] == 0
    assert all(count for table, count in before.items() if table != "toolgateway.dispatched"), before
    for statement in holdings_of(key_ring).of_user.values():
        async with lone_bench.database.upkeep(lone_bench.tenant) as tx:
            await tx.execute(statement, {"tenant": lone_bench.tenant, "user": "u42", "limit": 1000})
    assert await left() == {table: count // 2 for table, count in before.items()}
    async with lone_bench.database.upkeep(lone_bench.tenant) as tx:
        statement = holdings_of(key_ring).of_user["toolgateway.reconciliations"]
        await tx.execute(statement, {"tenant": lone_bench.tenant, "user": "boss", "limit": 1000})
    assert (await left())["toolgateway.reconciliations"] == 0, "whose word it was is a person, too"
