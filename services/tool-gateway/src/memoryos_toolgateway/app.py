"""Composition root of the tool gateway: nothing else constructs an adapter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from memoryos.erasure.v1 import erasure_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_core.config import Config
from memoryos_core.errors import MemoryOSError
from memoryos_core.sections import IdentitySection, PeersSection
from memoryos_core.tokens import TokenSigner
from memoryos_grpc import Channels, GrpcSection, Server
from memoryos_models.build import build_embedder
from memoryos_models.config import ModelsSection
from memoryos_postgres import Database, roles
from memoryos_service import GROUND_SECTIONS, Ground, open_ground
from memoryos_service.erasure import ErasureServicer

from memoryos_toolgateway.adapters.call_book import PostgresCallBook
from memoryos_toolgateway.adapters.connector_http import HttpConnector
from memoryos_toolgateway.adapters.connector_memory import MemoryConnector
from memoryos_toolgateway.adapters.connector_smtp import MailConnector
from memoryos_toolgateway.adapters.erasure import holdings_of
from memoryos_toolgateway.adapters.http_edge import HttpEdge
from memoryos_toolgateway.adapters.http_sender import HttpSender
from memoryos_toolgateway.adapters.journal_postgres import PostgresJournal, Quota
from memoryos_toolgateway.adapters.network_guard import NetworkGuard, tls_context
from memoryos_toolgateway.adapters.notify_webhook import WebhookNotifier
from memoryos_toolgateway.adapters.outbox_postgres import PostgresOutbox
from memoryos_toolgateway.adapters.policy_grpc import GrpcPolicy
from memoryos_toolgateway.adapters.reconciler_http import HttpReconciler
from memoryos_toolgateway.adapters.resource_lookup import HttpResourceLookup
from memoryos_toolgateway.adapters.secrets import Secrets
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.adapters.skill_needs import check_needs
from memoryos_toolgateway.adapters.token_exchange import TokenExchanges
from memoryos_toolgateway.config import ToolGatewaySection
from memoryos_toolgateway.domain.addresses import Networks
from memoryos_toolgateway.domain.skill import BuiltinConnector, SmtpConnector
from memoryos_toolgateway.domain.skill import HttpConnector as HttpDefinition
from memoryos_toolgateway.operations.call_skill import CallSkill
from memoryos_toolgateway.operations.cancel_call import CancelCall
from memoryos_toolgateway.operations.check_arguments import ArgumentsCheck
from memoryos_toolgateway.operations.decide_call import CallDecider
from memoryos_toolgateway.operations.dispatch_call import CallDispatcher
from memoryos_toolgateway.operations.reconcile_call import ReconcileCall
from memoryos_toolgateway.operations.search_skills import SkillSearch
from memoryos_toolgateway.operations.sweep_calls import sweep_calls
from memoryos_toolgateway.operations.tell_ends import tell_ends
from memoryos_toolgateway.operations.upstream_gate import GateLimits, UpstreamGate
from memoryos_toolgateway.operations.watch_call import CallWatch
from memoryos_toolgateway.ports import Connector, PolicyClient
from memoryos_toolgateway.registry import SkillRegistry
from memoryos_toolgateway.servicer import ToolGatewayServicer
from memoryos_toolgateway.servicers.calls import JournalCalls

SERVICE: Final = "tool-gateway"
SECTIONS: Final = (
    *GROUND_SECTIONS,
    PeersSection,
    ModelsSection,
    ToolGatewaySection,
)
_log = logging.getLogger(__name__)


def registry_of(section: ToolGatewaySection) -> SkillRegistry:
    """Give the registry of the built-in and the configured skill files, or raise SkillFileInvalid."""
    registry = load_registry(skill_folders(section), section.endpoints)
    for found in registry.found():
        if found.quarantined:
            _log.warning("quarantined until accepted: `mos skill list --all`", extra={"skill": found.skill.name})
    return registry


def skill_folders(section: ToolGatewaySection) -> list[Path]:
    """Give the folders that skills are read from."""
    builtin = Path(str(resources.files("memoryos_toolgateway").joinpath("skills")))
    return [*([builtin] if section.builtin_skills else []), *section.skill_dirs]


def gate_limits(section: ToolGatewaySection) -> GateLimits:
    """Give when an upstream counts as out of order, and how many calls it has at once."""
    return GateLimits(
        failures_max=section.upstream_failures_max,
        open_s=section.upstream_open_s,
        at_once_max=section.upstream_calls_max,
    )


def quota_of(section: ToolGatewaySection) -> Quota:
    """Give how much of whole results is kept."""
    return Quota(
        user_bytes_max=section.full_results_user_bytes,
        tenant_bytes_max=section.full_results_tenant_bytes,
        hours=section.full_results_hours,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ways:
    """The ways out of the gateway."""

    channels: Channels
    policy: grpc.aio.Channel
    edge: HttpEdge
    connectors: Mapping[type, Connector]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """What calls are made, kept and settled with."""

    call_skill: CallSkill
    journal_calls: JournalCalls
    dispatcher: CallDispatcher


async def serve(config: Config, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let running calls end.

    Raises SkillFileInvalid before anything is opened when a skill cannot be
    registered. Health says NOT_SERVING while database or policy do not answer.
    """
    section = config[ToolGatewaySection]
    registry = registry_of(section)
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(config, SERVICE, roles.TOOLGATEWAY))
        ways = _ways(ground, registry, stack)
        calls = _calls(ground, registry, ways)
        stack.push_async_callback(calls.dispatcher.drain)
        search = _search(ground, registry, calls.call_skill.policy, stack)
        server = ground.server(
            [
                (
                    tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server,
                    ToolGatewayServicer(calls.call_skill, calls.journal_calls, search, section.wait_s),
                ),
                (
                    erasure_pb2_grpc.add_ErasureServicer_to_server,
                    ErasureServicer(ground.database, holdings_of(ground.keyring)),
                ),
            ]
        )
        await server.start()
        await server.set_health(serving=False)  # until the first probe says otherwise
        interval_s = section.sweep_interval_s
        notifier = WebhookNotifier(ways.edge.sender, section.notify_channels)
        background = [
            asyncio.create_task(sweep_calls(calls.journal_calls.journal, interval_s)),
            asyncio.create_task(calls.journal_calls.reconcile.sweep(interval_s)),
            asyncio.create_task(tell_ends(PostgresOutbox(ground.database), notifier, interval_s)),
            asyncio.create_task(_tell_health(server, ground.database, ways.policy, section.probe_interval_s)),
        ]
        try:
            await stop.wait()
        finally:
            await server.stop()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)


def _search(ground: Ground, registry: SkillRegistry, policy: PolicyClient, stack: AsyncExitStack) -> SkillSearch:
    embedder = build_embedder(ground.config[ModelsSection])
    stack.push_async_callback(embedder.close)
    search = SkillSearch(registry.all(), policy, embedder)
    stack.push_async_callback(search.close)
    return search


def _ways(ground: Ground, registry: SkillRegistry, stack: AsyncExitStack) -> _Ways:
    section, peers = ground.config[ToolGatewaySection], ground.config[PeersSection]
    channels = _channels(ground)
    stack.push_async_callback(channels.close)
    guard = NetworkGuard(Networks.parse(section.networks))
    stack.callback(guard.close)
    secrets, tls = Secrets(section.secrets), tls_context(section.ca_file)
    sender = HttpSender(guard, tls_context(section.ca_file))
    exchanges = TokenExchanges(sender, section.token_exchanges, ground.clock)
    check_needs(registry, guard, secrets, exchanges)
    edge = HttpEdge(sender=sender, secrets=secrets, exchanges=exchanges)
    return _Ways(
        channels=channels,
        policy=channels.open(peers.policy, "policy"),
        edge=edge,
        connectors={
            HttpDefinition: HttpConnector(edge),
            SmtpConnector: MailConnector(guard=guard, secrets=secrets, tls=tls, clock=ground.clock),
            BuiltinConnector: MemoryConnector(channels.open(peers.memoryfs, "memoryfs")),
        },
    )


def _calls(ground: Ground, registry: SkillRegistry, ways: _Ways) -> _Calls:
    section = ground.config[ToolGatewaySection]
    journal = PostgresJournal(ground.database, ground.keyring, quota_of(section))
    book = PostgresCallBook(ground.database, ground.keyring)
    policy = GrpcPolicy(ways.policy, section.policy_timeout_s)
    check = ArgumentsCheck(connectors=ways.connectors)
    dispatcher = CallDispatcher(
        journal=journal,
        connectors=ways.connectors,
        clock=ground.clock,
        gate=UpstreamGate(clock=ground.clock, limits=gate_limits(section)),
    )
    decider = CallDecider(
        policy=policy,
        lookup=HttpResourceLookup(ways.edge),
        registry=registry,
        check=check,
        channels=frozenset(section.notify_channels),
    )
    return _Calls(
        call_skill=CallSkill(
            registry=registry,
            journal=journal,
            policy=policy,
            check=check,
            decider=decider,
            dispatcher=dispatcher,
            ids=ground.ids,
        ),
        journal_calls=JournalCalls(
            journal=journal,
            book=book,
            watch=CallWatch(journal=journal, seconds_max=section.watch_s),
            cancel=CancelCall(journal=journal, book=book, ids=ground.ids),
            reconcile=ReconcileCall(
                journal=journal,
                book=book,
                reconciler=HttpReconciler(ways.edge),
                registry=registry,
                gate=dispatcher.gate,
            ),
        ),
        dispatcher=dispatcher,
    )


def _channels(ground: Ground) -> Channels:
    key_file = ground.config[IdentitySection].service_key_file
    if key_file is None:
        raise ValueError("identity.service_key_file: the tool gateway calls policy and memoryfs in its own name")
    signer = TokenSigner.load(key_file, ground.clock, ground.ids)
    return Channels(SERVICE, signer, ground.telemetry, ground.config[GrpcSection], ground.clock)


async def _tell_health(server: Server, database: Database, policy: grpc.aio.Channel, interval_s: float) -> None:
    """Keep health what the two are that no call can do without."""
    probe = health_pb2_grpc.HealthStub(policy)
    told = False
    while True:
        ready = await _answers(database, probe, interval_s)
        if ready is not told:
            _log.info("database and policy answer" if ready else "database or policy do not answer")
            await server.set_health(serving=ready)
            told = ready
        await asyncio.sleep(interval_s)


async def _answers(database: Database, probe: health_pb2_grpc.HealthStub, timeout_s: float) -> bool:
    try:
        async with database.unscoped() as tx:
            await tx.execute("SELECT 1")
        answer = await probe.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
    except (MemoryOSError, grpc.aio.AioRpcError):
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
