"""The adapter and the authorisation policy against the real OPA server."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from memoryos_policy.adapters.opa import OpaDecisionPoint
from memoryos_policy.bundles import default_bundle_dir, read_files, revision_of
from memoryos_policy.config import PolicySection
from memoryos_policy.domain.obligations import Approval
from memoryos_policy.domain.verdicts import Effect, Verdict
from memoryos_testing.opa import OpaServer, opa_server

from .documents import question

pytestmark = pytest.mark.integration
DECISION = "/v1/data/memoryos/main/decision"
FLAGS = "?strict-builtin-errors=true&provenance=true"


async def connect(opa: OpaServer, token: str | None = None, timeout_s: float = 5) -> OpaDecisionPoint:
    section = PolicySection(opa_port=opa.port, opa_timeout_s=timeout_s, opa_token_file=opa.token_file)
    point = OpaDecisionPoint(section, token or opa.token_file.read_text())
    await point.start()
    return point


def codes(verdict: Verdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


@pytest.fixture
async def opa(tmp_path: Path) -> AsyncIterator[OpaServer]:
    async with opa_server(tmp_path) as server:
        yield server


@pytest.fixture
async def point(opa: OpaServer) -> AsyncIterator[OpaDecisionPoint]:
    made = await connect(opa)
    yield made
    await made.close()


async def test_the_three_effects_with_revision_and_bundle_time(point: OpaDecisionPoint) -> None:
    allowed = await point.decide(question("refund.create", {"amount": 20}))
    review = await point.decide(question("refund.create", {"amount": 2000.5}))
    denied = await point.decide(question("refund.create", {"amount": -1}))
    assert [one.effect for one in (allowed, review, denied)] == [Effect.ALLOW, Effect.MANUAL_REVIEW, Effect.DENY]
    assert review.approval == Approval("finance", 1, 900)
    assert codes(denied) == ["refund_amount_invalid"]
    revision = revision_of(read_files(default_bundle_dir()))
    assert {one.revision for one in (allowed, review, denied)} == {revision}
    assert allowed.confirm_time is not None
    assert not (await point.probe()).undecided


async def test_numbers_arrive_exactly(point: OpaDecisionPoint) -> None:
    just_above = await point.decide(question("refund.create", {"amount": 500.00000000000006}))
    assert just_above.effect is Effect.MANUAL_REVIEW
    huge = await point.decide(question("refund.create", {"amount": 10**400}))
    assert huge.effect is Effect.MANUAL_REVIEW


@pytest.mark.parametrize("skill", ["x/../../policies/p", "a?explain=full#", "../main/decision", "nope", "\0", "{{"])
async def test_a_tool_name_is_data_whatever_it_looks_like(point: OpaDecisionPoint, skill: str) -> None:
    verdict = await point.decide(question(skill))
    assert (verdict.effect, codes(verdict)) == (Effect.DENY, ["no_rule"])
    assert verdict.revision


async def test_no_policies_at_all_deny_every_call(tmp_path: Path) -> None:
    async with opa_server(tmp_path, without_bundle=True) as server:
        point = await connect(server)
        for skill in ("mes.takt_time", "memory.read", "nope"):
            assert codes(await point.decide(question(skill))) == ["policy_missing"]
        assert (await point.probe()).undecided
        await point.close()


async def test_a_wrong_token_is_a_deny(opa: OpaServer) -> None:
    point = await connect(opa, "wrong")
    assert codes(await point.decide(question("memory.read"))) == ["policy_error:http_401"]
    await point.close()


@pytest.fixture
def own_rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    shutil.copytree(default_bundle_dir(), folder, ignore=shutil.ignore_patterns("*_test.rego"))
    return folder


def add_skill(folder: Path, name: str, body: str) -> None:
    skill = folder / "memoryos" / "skills" / name
    skill.mkdir()
    (skill / f"{name}.rego").write_text(f'package memoryos.skills["{name}"]\n\nvisible := true\n\n{body}\n')


async def test_a_built_in_that_fails_in_a_deny_rule_denies(tmp_path: Path, own_rules: Path) -> None:
    add_skill(
        own_rules,
        "x.number",
        'allow contains {"code": "yes", "text": ""}\n\n'
        'deny contains {"code": "large", "text": ""} if to_number(input.args.x) > 5\n',
    )
    async with opa_server(tmp_path, bundle_dir=own_rules) as server:
        point = await connect(server)
        assert (await point.decide(question("x.number", {"x": "4"}))).effect is Effect.ALLOW
        assert codes(await point.decide(question("x.number", {"x": "6"}))) == ["large"]
        assert codes(await point.decide(question("x.number", {"x": "abc"}))) == ["policy_error:http_500"]
        await point.close()


async def test_two_reviews_asked_for_at_once_are_not_half_granted(tmp_path: Path, own_rules: Path) -> None:
    ask = (
        'manual_review contains {"code": "a%d", "text": "", '
        '"approval": {"group": "g%d", "quorum": 1, "expires_in_s": 60}}'
    )
    add_skill(own_rules, "x.two", "\n\n".join(ask % (n, n) for n in (1, 2)))
    async with opa_server(tmp_path, bundle_dir=own_rules) as server:
        point = await connect(server)
        assert codes(await point.decide(question("x.two"))) == ["review_groups_differ"]
        await point.close()


async def test_a_hung_opa_holds_nobody_longer_than_one_time_out(opa: OpaServer) -> None:
    point = await connect(opa, timeout_s=1.0)
    assert (await point.decide(question())).effect is Effect.DENY
    os.kill(opa.process.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(4):  # 500 / 32 connections one after the other would take 16 s
            verdicts = await asyncio.gather(*(point.decide(question()) for _ in range(500)))
    finally:
        os.kill(opa.process.pid, signal.SIGCONT)
    assert {(verdict.effect, *codes(verdict)) for verdict in verdicts} == {(Effect.DENY, "policy_error:timeout")}
    async with asyncio.timeout(10):
        while (await point.probe()).undecided:  # it answers again, and nothing of ours was restarted
            pass
    await point.close()


async def test_a_storm_of_500_questions_is_answered(point: OpaDecisionPoint) -> None:
    verdicts = await asyncio.gather(*(point.decide(question("mes.takt_time")) for _ in range(500)))
    assert {tuple(codes(verdict)) for verdict in verdicts} <= {("no_rule",), ("policy_error:timeout",)}
    assert codes(await point.decide(question("mes.takt_time"))) == ["no_rule"]


async def test_opa_killed_under_load_denies_and_comes_back(tmp_path: Path) -> None:
    async with opa_server(tmp_path) as first:
        point = await connect(first, timeout_s=2.0)
        asked = [asyncio.create_task(point.decide(question())) for _ in range(200)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        first.process.kill()
        async with asyncio.timeout(10):
            verdicts = await asyncio.gather(*asked)
        assert {verdict.effect for verdict in verdicts} == {Effect.DENY}  # by a rule while it lived, by a fault after
        assert any(verdict.undecided for verdict in verdicts)
    async with opa_server(tmp_path, port=first.port):
        assert not (await point.decide(question())).undecided
    await point.close()


async def test_a_restarted_opa_is_found_again(tmp_path: Path) -> None:
    async with opa_server(tmp_path) as first:
        point = await connect(first)
        assert not (await point.probe()).undecided
    assert codes(await point.decide(question("memory.read"))) == ["policy_error:unreachable"]
    async with opa_server(tmp_path, port=first.port):
        assert not (await point.probe()).undecided
    await point.close()


FORBIDDEN = [
    ("PUT", "/v1/policies/p", b"package p\n\nallow := true\n"),
    ("DELETE", "/v1/policies/memoryos/main/main.rego", None),
    ("GET", "/v1/policies", None),
    ("PUT", "/v1/data/memoryos/limits", b"{}"),
    ("PATCH", "/v1/data", b"[]"),
    ("GET", "/v1/data", None),
    ("GET", "/v1/data/system/opa", None),
    ("POST", "/v1/data/memoryos/main", b"{}"),
    ("POST", "/v1/query", b'{"query": "data = x"}'),
    ("POST", "/v1/compile", b'{"query": "data.memoryos.main.decision"}'),
    ("GET", "/v1/config", None),
    ("GET", "/metrics", None),
    ("GET", "/debug/pprof/", None),
    ("GET", "/", None),
    ("POST", "/", b"{}"),
    ("POST", "/v0/data/memoryos/main/decision", b"{}"),
    ("POST", DECISION, b"{}"),
    ("POST", f"{DECISION}{FLAGS}&explain=full", b"{}"),
    ("GET", f"{DECISION}{FLAGS}", None),
    ("GET", "/health?bundles", None),
]


@pytest.mark.parametrize(("method", "path", "body"), FORBIDDEN, ids=[f"{one[0]} {one[1]}" for one in FORBIDDEN])
async def test_opa_does_nothing_else_even_with_the_token(opa: OpaServer, method: str, path: str, body: bytes) -> None:
    token = {"Authorization": f"Bearer {opa.token_file.read_text()}"}
    async with aiohttp.ClientSession() as session:
        for headers in ({}, token):
            async with session.request(method, opa.url + path, data=body, headers=headers) as answer:
                assert answer.status in (401, 404, 405), await answer.text()
                if path.startswith("/v1/"):
                    assert answer.status == 401


async def test_the_decision_needs_the_token_and_health_does_not(opa: OpaServer) -> None:
    token = opa.token_file.read_text()
    async with aiohttp.ClientSession() as session:

        async def status(path: str, **headers: str) -> int:
            async with session.post(opa.url + path, json={"input": {}}, headers=headers) as answer:
                return answer.status

        assert await status(DECISION + FLAGS) == 401
        assert await status(DECISION + FLAGS, Authorization="Bearer wrong") == 401
        assert await status(DECISION + FLAGS, Authorization=f"Basic {token}") == 401
        assert await status(DECISION + FLAGS, Authorization=f"Bearer {token}") == 200
        async with session.get(f"{opa.url}/health") as answer:
            assert answer.status == 200
