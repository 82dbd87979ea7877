"""A decision is asked for once more, of the rules that made it: they are kept for as long as it is."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml
from memoryos.policy.v1 import policy_pb2
from memoryos_core.clock import SystemClock
from memoryos_policy.adapters.bundle_source import BundleSource
from memoryos_policy.bundles import archive_of, default_bundle_dir, read_files, revision_of, unpack
from memoryos_postgres import roles
from memoryos_postgres.errors import AccessRefused, DatabaseUnavailable
from memoryos_testing.opa import OpaServer, opa_server
from memoryos_testing.postgres import Clone, DatabaseFactory, admin_execute

from .test_decide import rows
from .test_decision_log import explain
from .test_reviews import REFUND
from .world import World, make_world, refused, replica, serving

pytestmark = pytest.mark.integration
REFUND_FILE = "memoryos/skills/refund.create/refund.create.rego"


async def test_a_decision_is_made_again_with_the_rules_that_fired(world: World, database: Clone) -> None:
    gateway, auditor = world.gateway(), world.auditor()
    for arguments in ({"amount": 20}, {"amount": -1}, REFUND):
        decision = await gateway.decide("refund.create", arguments)
        answer = await explain(auditor, decision.id)
        assert answer.same
        assert (answer.kept.id, answer.kept.effect) == (decision.id, decision.effect)
        assert list(answer.again.reasons) == list(answer.kept.reasons)
        assert list(answer.again.obligations) == list(answer.kept.obligations)
        assert b'"args"' in answer.kept.input_json
        fired = [rule for rule in answer.fired if rule.file == REFUND_FILE]
        lines = (default_bundle_dir() / REFUND_FILE).read_text().splitlines()
        assert fired
        assert all(rule.head in lines[rule.line - 1] for rule in fired)
    audit = await rows(database, "SELECT DISTINCT method FROM core.audit WHERE kind = 'ADMIN_ACT'")
    assert audit == [{"method": "memoryos.policy.v1.Policy/ExplainDecision"}]


async def test_a_difference_is_said(world: World, database: Clone) -> None:
    decision = await world.gateway().decide("refund.create", {"amount": 20})
    await admin_execute(database, "UPDATE policy.decisions SET reasons = '[]'")
    answer = await explain(world.auditor(), decision.id)
    assert not answer.same
    assert answer.again.reasons
    assert not answer.kept.reasons


async def test_only_people_who_audit_are_told(world: World) -> None:
    decision = await world.gateway().decide("refund.create", {"amount": 20})
    for who in (world.caller("u1", roles=("user",)), world.caller("x", roles=("tenant-admin",)), world.reviewer()):
        async with refused("ROLE_REQUIRED"):
            await explain(who, decision.id)
    async with refused("AUDITORS_ONLY"):
        await explain(world.auditor(chain=("helper",)), decision.id)
    async with refused("DECISION_NOT_FOUND"):
        await explain(world.auditor(tenant="globex"), decision.id)


async def test_what_cannot_be_explained_says_why(world: World, database: Clone) -> None:
    auditor = world.auditor()
    decision = await world.gateway().decide("refund.create", {"amount": 20})
    async with replica(world, opa_binary=None) as port, refused("EXPLAIN_NOT_CONFIGURED"):
        await explain(world.auditor(port=port), decision.id)
    async with replica(world, opa_binary=str(world.folder / "no-opa")) as port, refused("EXPLAIN_FAILED"):
        await explain(world.auditor(port=port), decision.id)
    await admin_execute(database, "DELETE FROM policy.bundles")
    async with refused("BUNDLE_NOT_KEPT"):
        await explain(auditor, decision.id)
    await admin_execute(database, "UPDATE policy.decisions SET bundle_revision = '', effect = 'deny'")
    async with refused("DECIDED_WITHOUT_RULES"):
        await explain(auditor, decision.id)


async def test_rules_that_have_changed_explain_what_they_decided(tmp_path: Path, database: Clone) -> None:
    source = tmp_path / "rules"
    shutil.copytree(default_bundle_dir(), source)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with opa_server(tmp_path / "one", bundle_dir=source) as opa:
        world = make_world(tmp_path, database, opa.port)
        configure(world, source, opa)
        async with serving(world):
            before = await world.gateway().decide("refund.create", {"amount": 20})
            assert before.effect == policy_pb2.EFFECT_ALLOW
    limits = source / "memoryos" / "limits" / "data.json"
    limits.write_text(limits.read_text().replace("1000", "10").replace("500", "10"))
    world.port_file.unlink(missing_ok=True)
    async with opa_server(tmp_path / "two", bundle_dir=source) as opa:
        configure(world, source, opa)
        world.channels.clear()
        async with serving(world):
            after = await world.gateway().decide("refund.create", {"amount": 20})
            assert after.bundle_revision != before.bundle_revision
            for decision in (before, after):
                answer = await explain(world.auditor(), decision.id)
                assert answer.same
                assert answer.again.effect == decision.effect
    assert len(await rows(database, "SELECT revision FROM policy.bundles")) == 2


def configure(world: World, source: Path, opa: OpaServer) -> None:
    config = yaml.safe_load(world.config_file.read_text())
    config["policy"] |= {"bundle_dir": str(source), "opa_port": opa.port, "opa_token_file": str(opa.token_file)}
    world.config_file.write_text(yaml.safe_dump(config))


async def test_rules_that_cannot_be_kept_are_not_confirmed(tmp_path: Path) -> None:
    class Keeper:
        away = True

        async def keep(self, revision: str, archive: bytes) -> None:
            if self.away:
                raise DatabaseUnavailable

    keeper = Keeper()
    source = BundleSource(default_bundle_dir(), SystemClock(), keeper)
    revision = revision_of(read_files(default_bundle_dir()))
    await source.read()
    assert source.confirm_time(revision) is None
    keeper.away = False
    await source.read()
    assert source.confirm_time(revision) is not None


def test_an_archive_holds_what_it_was_made_from(tmp_path: Path) -> None:
    files = read_files(default_bundle_dir())
    archive = archive_of(files)
    assert archive == archive_of(read_files(default_bundle_dir()))
    unpack(archive, tmp_path)
    (tmp_path / ".manifest").unlink()
    assert revision_of(read_files(tmp_path)) == revision_of(files)


def test_an_archive_leads_nowhere_else(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("../outside.rego")
        tar.addfile(info, io.BytesIO())
    with pytest.raises(tarfile.OutsideDestinationError):
        unpack(buffer.getvalue(), tmp_path / "in")
    assert not (tmp_path / "outside.rego").exists()


async def test_kept_rules_are_never_changed(world: World, database_factory: DatabaseFactory) -> None:
    db = await database_factory(roles.POLICY)
    for statement in ("UPDATE policy.bundles SET archive = ''", "DELETE FROM policy.bundles"):
        with pytest.raises(AccessRefused):
            async with db.unscoped() as tx:
                await tx.execute(statement)
