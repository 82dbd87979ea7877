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

from memoryos_toolgateway.adapters.connector_http import HttpConnector
from memoryos_toolgateway.adapters.connector_memory import MemoryConnector
from memoryos_toolgateway.adapters.erasure import holdings_of
from memoryos_toolgateway.adapters.http_sender import HttpSender
from memoryos_toolgateway.adapters.journal_postgres import PostgresJournal
from memoryos_toolgateway.adapters.policy_grpc import GrpcPolicy
from memoryos_toolgateway.adapters.resource_lookup import HttpResourceLookup
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.config import ToolGatewaySection
from memoryos_toolgateway.domain.skill import BuiltinConnector
from memoryos_toolgateway.domain.skill import HttpConnector as HttpDefinition
from memoryos_toolgateway.operations.call_skill import CallSkill
from memoryos_toolgateway.operations.decide_call import CallDecider
from memoryos_toolgateway.operations.dispatch_call import CallDispatcher
from memoryos_toolgateway.operations.sweep_calls import sweep_calls
from memoryos_toolgateway.registry import SkillRegistry
from memoryos_toolgateway.servicer import ToolGatewayServicer

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
        sender = HttpSender()
        stack.push_async_callback(sender.close)
        journal = PostgresJournal(database, ground.keyring)
        policy = GrpcPolicy(policy_channel, section.policy_timeout_s)
        dispatcher = CallDispatcher(
            journal=journal,
            connectors={
                HttpDefinition: HttpConnector(sender),
                BuiltinConnector: MemoryConnector(channels.open(config[PeersSection].memoryfs, "memoryfs")),
            },
            clock=clock,
        )
        stack.push_async_callback(dispatcher.drain)
        call_skill = CallSkill(
            registry=registry,
            journal=journal,
            policy=policy,
            decider=CallDecider(policy=policy, lookup=HttpResourceLookup(sender), registry=registry),
            dispatcher=dispatcher,
            ids=ground.ids,
        )
        server = ground.server(
            [
                (
                    tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server,
                    ToolGatewayServicer(call_skill, section.wait_s),
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
