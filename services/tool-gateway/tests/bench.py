"""The call path on a real journal and a real upstream, with policy in memory."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_testing.scopes import scope_of
from memoryos_toolgateway.adapters.call_book import PostgresCallBook
from memoryos_toolgateway.adapters.connector_http import HttpConnector
from memoryos_toolgateway.adapters.http_edge import HttpEdge
from memoryos_toolgateway.adapters.journal_postgres import PostgresJournal, Quota
from memoryos_toolgateway.adapters.outbox_postgres import PostgresOutbox
from memoryos_toolgateway.adapters.resource_lookup import HttpResourceLookup
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.adapters.skill_locks import pin_skill
from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.domain.skill import HttpConnector as HttpDefinition
from memoryos_toolgateway.domain.skill_lock import Pin
from memoryos_toolgateway.operations.call_skill import CallRequest, CallSkill
from memoryos_toolgateway.operations.check_arguments import ArgumentsCheck
from memoryos_toolgateway.operations.decide_call import CallDecider
from memoryos_toolgateway.operations.dispatch_call import CallDispatcher
from memoryos_toolgateway.operations.upstream_gate import GateLimits, UpstreamGate

from .edges import edge_of
from .policies import InMemoryPolicy
from .upstream import Upstream


def skill_document(name: str, behaviour: str, effect_class: str = "non_idempotent", **more: Any) -> dict[str, Any]:
    """A skill that reaches the upstream's behaviour with the argument `name`."""
    return {
        "name": name,
        "version": "1",
        "description": "A tool of a test.",
        "parameters": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}},
        },
        "effect_class": effect_class,
        "risk": "low",
        "timeout_s": 1,
        "connector": {
            "type": "http",
            "endpoint": "${UPSTREAM}",
            "method": "POST",
            "path": f"/{behaviour}/{{name}}",
            "body": "arguments",
            "idempotency_header": "Idempotency-Key",
        },
    } | more


def demo_skills() -> list[dict[str, Any]]:
    """Skills that the repository's policy bundle has rules for, before the test's upstream."""
    ticket = skill_document("ticket.delete", "ok")
    ticket["parameters"] = {
        "type": "object", "required": ["ticket_id"], "properties": {"ticket_id": {"type": "string"}},
    }  # fmt: skip
    ticket["connector"] = {
        "type": "http", "endpoint": "${UPSTREAM}", "method": "DELETE", "path": "/tickets/{ticket_id}",
    }  # fmt: skip
    lookup = {"endpoint": "${UPSTREAM}", "path": "/tickets/{ticket_id}"}
    refund = skill_document("refund.create", "ok", timeout_s=0.5, attempts=1)
    refund["parameters"]["required"] = ["name", "amount"]
    return [
        skill_document("mes.takt_time", "ok", "read", permissions=["readonly"]),
        skill_document("crm.customer", "gate", "read", timeout_s=10),
        skill_document("ticket.get", "status-403", "read"),
        skill_document("memory.write", "ok", "idempotent", timeout_s=0.5, attempts=1),
        ticket | {"resource": {"type": "ticket", "id": "/ticket_id", "lookup": lookup}},
        refund | {"resource": {"type": "order", "id": "/name"}},
    ]


def write_skills(folder: Path, *documents: dict[str, Any], opened: bool = True) -> None:
    """Write skill files, accepted by a person and opened for writing unless the test says otherwise."""
    folder.mkdir(exist_ok=True)
    for document in documents:
        file = folder / f"{document['name']}.yaml"
        file.write_text(yaml.safe_dump(document, allow_unicode=True))
        accept(file, opened=opened)


def accept(file: Path, *, opened: bool) -> None:
    """Pin the definition in `file` as it is now."""
    found = load_skill(file, {"UPSTREAM": "127.0.0.1:1"})
    pin = Pin(digest=found.definition_digest, opened=opened, accepted_by="test", accept_time="2026-01-01T00:00:00Z")
    pin_skill(file.parent, found.name, pin)


@dataclass
class Bench:
    """One or more replicas of the call path over one database."""

    folder: Path
    database: Database
    keyring: PostgresKeyRing
    upstream: Upstream
    tenant: str
    policy: InMemoryPolicy = field(default_factory=InMemoryPolicy)
    limits: GateLimits = field(default_factory=GateLimits)
    quota: Quota | None = None
    edge: HttpEdge = field(default_factory=edge_of)

    @property
    def journal(self) -> PostgresJournal:
        return PostgresJournal(self.database, self.keyring, self.quota)

    @property
    def book(self) -> PostgresCallBook:
        return PostgresCallBook(self.database, self.keyring)

    @property
    def outbox(self) -> PostgresOutbox:
        return PostgresOutbox(self.database)

    def scope(self, tenant: str = "", **more: Any) -> Scope:
        """The scope of a caller in this test's own tenant, or in a neighbour of it."""
        return scope_of(self.tenant + tenant, **more)

    def replica(self, *, endpoint: str | None = None) -> CallSkill:
        """A gateway that has read the skill files as they are now."""
        registry = load_registry([self.folder], {"UPSTREAM": endpoint or self.upstream.address})
        journal, clock = self.journal, SystemClock()
        dispatcher = CallDispatcher(
            journal=journal,
            connectors={HttpDefinition: HttpConnector(self.edge)},
            clock=clock,
            gate=UpstreamGate(clock=clock, limits=self.limits),
        )
        check = ArgumentsCheck(connectors=dispatcher.connectors)
        decider = CallDecider(
            policy=self.policy,
            lookup=HttpResourceLookup(self.edge),
            registry=registry,
            check=check,
            channels=frozenset({"team"}),
        )
        return CallSkill(
            registry=registry,
            journal=journal,
            policy=self.policy,
            check=check,
            decider=decider,
            dispatcher=dispatcher,
            ids=UlidSource(clock),
        )

    async def call(
        self, skill: str, request_id: str = "r1", *, replica: CallSkill | None = None, scope: Scope | None = None,
        epoch: int = 0, wait_s: float = 20, **arguments: Any,
    ) -> Call:  # fmt: skip
        return await self.raw(
            skill, json.dumps(arguments).encode(), request_id, replica=replica, scope=scope, epoch=epoch, wait_s=wait_s
        )

    async def raw(
        self, skill: str, arguments: bytes, request_id: str = "r1", *, replica: CallSkill | None = None,
        scope: Scope | None = None, epoch: int = 0, wait_s: float = 20,
    ) -> Call:  # fmt: skip
        scope = scope or self.scope()
        request = CallRequest(
            skill=skill, arguments_json=arguments, request_id=request_id, issuer=scope.actor, lease_epoch=epoch,
            wait_s=wait_s,
        )  # fmt: skip
        return await (replica or self.replica()).run(scope, request)

    async def rows(self, query: str, *params: Any, tenant: str | None = None) -> list[dict[str, Any]]:
        async with self.database.tenant(tenant or self.tenant) as tx:
            return await tx.fetch_all(query, params)
