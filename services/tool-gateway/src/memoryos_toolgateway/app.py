"""Composition root of the tool gateway: nothing else constructs an adapter."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
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
from memoryos_toolgateway.operations.sweep_calls import sweep_calls
from memoryos_toolgateway.operations.tell_ends import tell_ends
from memoryos_toolgateway.operations.upstream_gate import GateLimits, UpstreamGate
from memoryos_toolgateway.operations.watch_call import CallWatch
from memoryos_toolgateway.registry import SkillRegistry
from memoryos_toolgateway.servicer import ToolGatewayServicer
from memoryos_toolgateway.servicers.calls import JournalCalls

SERVICE: Final = "tool-gateway"
SECTIONS: Final = (
    *GROUND_SECTIONS,
    PeersSection,
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


async def serve(config: Config, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let running calls end.

    Raises SkillFileInvalid before anything is opened when a skill cannot be
    registered. Health says NOT_SERVING while database or policy do not answer.
    """
    section = config[ToolGatewaySection]
    registry = registry_of(section)
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(config, SERVICE, roles.TOOLGATEWAY))
        clock, database = ground.clock, ground.database
        channels = _channels(ground)
        stack.push_async_callback(channels.close)
        policy_channel = channels.open(config[PeersSection].policy, "policy")
        guard = NetworkGuard(Networks.parse(section.networks))
        stack.callback(guard.close)
        secrets, tls = Secrets(section.secrets), tls_context(section.ca_file)
        sender = HttpSender(guard, tls_context(section.ca_file))
        edge = HttpEdge(
            sender=sender, secrets=secrets, exchanges=TokenExchanges(sender, section.token_exchanges, clock)
        )
        check_needs(registry, guard, secrets, edge.exchanges)
        journal = PostgresJournal(database, ground.keyring, quota_of(section))
        policy = GrpcPolicy(policy_channel, section.policy_timeout_s)
        dispatcher = CallDispatcher(
            journal=journal,
            connectors={
                HttpDefinition: HttpConnector(edge),
                SmtpConnector: MailConnector(guard=guard, secrets=secrets, tls=tls, clock=clock),
                BuiltinConnector: MemoryConnector(channels.open(config[PeersSection].memoryfs, "memoryfs")),
            },
            clock=clock,
            gate=UpstreamGate(clock=clock, limits=gate_limits(section)),
        )
        stack.push_async_callback(dispatcher.drain)
        notifier = WebhookNotifier(sender, section.notify_channels)
        check = ArgumentsCheck(connectors=dispatcher.connectors)
        book = PostgresCallBook(database, ground.keyring)
        reconcile = ReconcileCall(journal=journal, book=book, reconciler=HttpReconciler(edge), registry=registry)
        call_skill = CallSkill(
            registry=registry,
            journal=journal,
            policy=policy,
            check=check,
            decider=CallDecider(
                policy=policy,
                lookup=HttpResourceLookup(edge),
                registry=registry,
                check=check,
                channels=frozenset(section.notify_channels),
            ),
            dispatcher=dispatcher,
            ids=ground.ids,
        )
        server = ground.server(
            [
                (
                    tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server,
                    ToolGatewayServicer(
                        call_skill,
                        JournalCalls(
                            journal=journal,
                            book=book,
                            watch=CallWatch(journal=journal, seconds_max=section.watch_s),
                            cancel=CancelCall(journal=journal, book=book, ids=ground.ids),
                            reconcile=reconcile,
                        ),
                        section.wait_s,
                    ),
                ),
                (
                    erasure_pb2_grpc.add_ErasureServicer_to_server,
                    ErasureServicer(database, holdings_of(ground.keyring)),
                ),
            ]
        )
        await server.start()
        await server.set_health(serving=False)  # until the first probe says otherwise
        background = [
            asyncio.create_task(sweep_calls(journal, section.sweep_interval_s)),
            asyncio.create_task(reconcile.sweep(section.sweep_interval_s)),
            asyncio.create_task(tell_ends(PostgresOutbox(database), notifier, section.sweep_interval_s)),
            asyncio.create_task(_tell_health(server, database, policy_channel, section.probe_interval_s)),
        ]
        try:
            await stop.wait()
        finally:
            await server.stop()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)


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
