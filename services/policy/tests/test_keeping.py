"""Decisions are kept together and each for itself; obligations come back without what they hide; staleness shows."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from memoryos.policy.v1 import policy_pb2
from memoryos_core.ids import UlidSource
from memoryos_core.sealing import DataKey
from memoryos_policy.adapters.decision_commits import DecisionCommits
from memoryos_policy.bundles import default_bundle_dir
from memoryos_policy.domain.decisions import Draft
from memoryos_policy.domain.questions import Action, EffectClass, Purpose, Question, Resource
from memoryos_policy.domain.verdicts import policy_error
from memoryos_postgres import roles
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_testing import scope_of
from memoryos_testing.opa import opa_server
from memoryos_testing.postgres import Clone, DatabaseFactory

from .test_decide import ALLOW, DENY, NOT_SERVING, SERVING, as_auditor, rows, wait_for_health
from .world import World, make_world, serving

pytestmark = pytest.mark.integration


def draft(call_id: str) -> Draft:
    action = Action(
        skill="x.y", version="1", definition_digest="d", permissions=(), effect_class=EffectClass.READ, risk="low",
        opened=True, egress="none", destructive=False, returns=(), identity="none", recipients=(),
        sensitive_arguments=(),
    )  # fmt: skip
    question = Question(
        purpose=Purpose.CALL, action=action, resource=Resource(properties={}), arguments={}, texts=(),
        action_digest="a" * 64, call_id=call_id, attempt=1,
    )  # fmt: skip
    return Draft(question=question, verdict=policy_error("timeout"), document={}, review_id="", service="tool-gateway")


async def test_callers_at_the_same_time_share_commits_and_each_has_its_own(
    database_factory: DatabaseFactory, database: Clone
) -> None:
    commits = DecisionCommits(await database_factory(roles.POLICY), PostgresKeyRing(DataKey.generate()), UlidSource())
    users = [replace(scope_of(user=f"u{n % 3}"), tenant=("acme", "globex")[n % 2]) for n in range(60)]
    kept = await asyncio.gather(*(commits.keep(who, [draft(f"call_{n}")]) for n, who in enumerate(users)))
    assert [[one.call_id for one in group] for group in kept] == [[f"call_{n}"] for n in range(60)]
    found = await rows(database, "SELECT decision_id, tenant, user_name, xmin::text AS xid FROM policy.decisions")
    assert {(row["decision_id"], row["tenant"], row["user_name"]) for row in found} == {
        (group[0].id, who.tenant, who.user) for group, who in zip(kept, users, strict=True)
    }
    assert len({row["xid"] for row in found}) < 60
    audit = await rows(database, "SELECT decision_id, call_id FROM core.audit")
    assert {(row["decision_id"], row["call_id"]) for row in audit} == {(one[0].id, one[0].call_id) for one in kept}


async def test_what_one_caller_cannot_keep_takes_no_others_with_it(
    database_factory: DatabaseFactory, database: Clone
) -> None:
    commits = DecisionCommits(await database_factory(roles.POLICY), PostgresKeyRing(DataKey.generate()), UlidSource())
    names = ["call_1", "call_2", "call_\0", "call_3"]
    found = await asyncio.gather(*(commits.keep(scope_of(), [draft(n)]) for n in names), return_exceptions=True)
    assert [isinstance(one, Exception) for one in found] == [False, False, True, False]
    kept = await rows(database, "SELECT call_id FROM policy.decisions")
    assert {row["call_id"] for row in kept} == {"call_1", "call_2", "call_3"}
    assert len(await rows(database, "SELECT 1 FROM core.audit")) == 3


async def test_a_caller_that_goes_away_takes_nobody_with_it(database_factory: DatabaseFactory, database: Clone) -> None:
    commits = DecisionCommits(await database_factory(roles.POLICY), PostgresKeyRing(DataKey.generate()), UlidSource())
    first, second = (asyncio.create_task(commits.keep(scope_of(), [draft(n)])) for n in ("call_1", "call_2"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)[0].call_id == "call_2"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_hundreds_in_one_batch(database_factory: DatabaseFactory, database: Clone) -> None:
    commits = DecisionCommits(await database_factory(roles.POLICY), PostgresKeyRing(DataKey.generate()), UlidSource())
    kept = await commits.keep(scope_of(), [draft(f"call_{n}") for n in range(200)])
    assert len({one.id for one in kept}) == 200
    (audit,) = await rows(database, "SELECT count FROM core.audit")
    assert audit["count"] == 200


RULES = """package memoryos.skills["x.obliging"]

visible := true

allow contains {"code": "yes", "text": ""}

obligations contains {"kind": "rewrite_args", "patches": [{"pointer": "/to", "value": "canary-4711"}]}

obligations contains {"kind": "redact", "pointers": ["/a/*"], "detectors": ["phone"]}

obligations contains {"kind": "rate_limit", "key": "x:u1", "limit": 2.5, "window_s": 60, "cost": 1}

obligations contains {"kind": "read_only"}

obligations contains {"kind": "sandbox", "level": 1}

obligations contains {"kind": "output_limit", "bytes": 100}

obligations contains {"kind": "taint", "facts": ["personal_data"]}

obligations contains {"kind": "notify", "channel": "ops", "text": "Done."}
"""


def own_rules(folder: Path) -> Path:
    shutil.copytree(default_bundle_dir(), folder, ignore=shutil.ignore_patterns("*_test.rego"))
    skill = folder / "memoryos" / "skills" / "x.obliging"
    skill.mkdir()
    (skill / "x.obliging.rego").write_text(RULES)
    return folder


async def test_every_obligation_arrives_and_a_rewrite_is_kept_sealed(tmp_path: Path, database: Clone) -> None:
    rules = own_rules(tmp_path / "rules")
    async with opa_server(tmp_path, bundle_dir=rules) as opa:
        world = make_world(tmp_path, database, opa.port)
        async with serving(world):
            given = await world.gateway().decide("x.obliging", {"to": "a"})
            kept = await as_auditor(world, given.id)
    assert (given.effect, given.risk, given.session_id, given.task_id) == (ALLOW, "high", "ses_1", "task_1")
    by_kind = {one.WhichOneof("kind"): one for one in given.obligations}
    assert len(by_kind) == 8
    assert json.loads(by_kind["rewrite_args"].rewrite_args.patches[0].value_json) == "canary-4711"
    assert (by_kind["rate_limit"].rate_limit.limit, by_kind["rate_limit"].rate_limit.window.seconds) == (2.5, 60)
    hidden = policy_pb2.Decision()
    hidden.CopyFrom(given)
    for one in hidden.obligations:
        for patch in one.rewrite_args.patches:
            patch.value_json = b""
    assert list(kept.obligations) == list(hidden.obligations)
    plain = json.dumps(await rows(database, "SELECT * FROM policy.decisions"), default=_readable)
    assert "canary-4711" not in plain


def _readable(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def with_policy(world: World, **fields: Any) -> None:
    config = yaml.safe_load(world.config_file.read_text())
    config["policy"] |= fields
    world.config_file.write_text(yaml.safe_dump(config))


async def test_rules_that_their_source_no_longer_holds_deny_and_show_in_health(tmp_path: Path, database: Clone) -> None:
    source = own_rules(tmp_path / "rules")
    extra = source / "memoryos" / "more" / "data.json"
    async with opa_server(tmp_path, bundle_dir=source) as opa:
        world = make_world(tmp_path, database, opa.port)
        limits = dict.fromkeys(("low", "medium", "high", "critical"), 0.3)
        with_policy(world, bundle_dir=str(source), source_interval_s=0.05, stale_after_s=limits)
        async with serving(world):
            gateway = world.gateway()
            await wait_for_health(world, SERVING)
            assert (await gateway.decide("memory.read", {}, effect_class="READ")).effect == ALLOW
            extra.parent.mkdir()
            extra.write_text("{}")
            await wait_for_health(world, NOT_SERVING)
            stale = await gateway.decide("memory.read", {}, effect_class="READ")
            assert (stale.effect, stale.bundle_revision) == (DENY, "")
            assert [r.code for r in (await as_auditor(world, stale.id)).reasons] == ["policy_stale"]
            shutil.rmtree(extra.parent)
            await wait_for_health(world, SERVING)
            assert (await gateway.decide("memory.read", {}, effect_class="READ")).effect == ALLOW
