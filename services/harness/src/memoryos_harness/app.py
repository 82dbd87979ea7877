"""Composition root of the harness server and its worker: nothing else constructs an adapter."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack

from memoryos.erasure.v1 import erasure_pb2_grpc
from memoryos.harness.v1 import agents_pb2_grpc, sessions_pb2_grpc, tasks_pb2_grpc, tokens_pb2_grpc
from memoryos_core.config import Config, ConfigError
from memoryos_core.keys import KeySet, PrivateKey
from memoryos_core.sections import IdentitySection, PeersSection
from memoryos_core.tokens import TokenSigner
from memoryos_grpc import Channels, GrpcSection
from memoryos_models.build import build_chat_model
from memoryos_models.config import ModelsSection
from memoryos_postgres import PostgresSection, roles
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.revocations import Revocations
from memoryos_service import GROUND_SECTIONS, Ground, open_ground
from memoryos_service.erasure import ErasureServicer

from memoryos_harness.adapters.agent_files import AgentFiles
from memoryos_harness.adapters.erasure import holdings_of
from memoryos_harness.adapters.grpc_memory import GrpcMemory
from memoryos_harness.adapters.grpc_reviews import GrpcReviews
from memoryos_harness.adapters.grpc_tools import GrpcTools
from memoryos_harness.adapters.issued_tokens import IssuedTokens
from memoryos_harness.adapters.page_keys import TenantPageKeys
from memoryos_harness.adapters.postgres_children import PostgresChildren
from memoryos_harness.adapters.postgres_due import PostgresDue
from memoryos_harness.adapters.postgres_journal import PostgresJournal
from memoryos_harness.adapters.postgres_news import PostgresNews
from memoryos_harness.adapters.postgres_presence import PostgresPresence
from memoryos_harness.adapters.postgres_revocations import PostgresRevocations
from memoryos_harness.adapters.postgres_search import PostgresSearch
from memoryos_harness.adapters.postgres_sessions import PostgresSessions
from memoryos_harness.adapters.postgres_tasks import PostgresTasks
from memoryos_harness.adapters.procrastinate_queue import ProcrastinateWakeUps
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import Waking
from memoryos_harness.adapters.task_tokens import SignedTaskTokens
from memoryos_harness.config import HarnessSection
from memoryos_harness.operations.run_task import run_task
from memoryos_harness.operations.sweep_tasks import SweepSettings, sweep_until, watch_sweeps
from memoryos_harness.operations.task_run import RunPorts, RunSettings
from memoryos_harness.servicers.agents import AgentsServicer
from memoryos_harness.servicers.sessions import SessionsServicer
from memoryos_harness.servicers.tasks import TasksServicer
from memoryos_harness.servicers.tokens import TokensServicer

SERVICE = "harness"
SWEEPER = "sweeper"
"""Health of a part: NOT_SERVING while no worker sweeps."""
WORKER = "harness-worker"
SECTIONS = (*GROUND_SECTIONS, HarnessSection)
WORKER_SECTIONS = (*SECTIONS, ModelsSection, PeersSection)

_log = logging.getLogger(__name__)


async def serve(config: Config, stop: asyncio.Event) -> None:
    """Serve sessions and tasks until `stop` is set, then let running calls end."""
    section = config[HarnessSection]
    async with AsyncExitStack() as stack:
        agents = AgentFiles.load(section.agents_dir)
        ground = await stack.enter_async_context(open_ground(config, SERVICE, roles.HARNESS))
        ids, database, keyring = ground.ids, ground.database, ground.keyring
        sealed = SealedColumns(keyring)
        idempotency = Idempotency(keyring)
        keys = TenantPageKeys(database, keyring)
        news = PostgresNews(config[PostgresSection].dsn(roles.HARNESS))
        sessions = PostgresSessions(database, sealed, idempotency, ids)
        tasks = PostgresTasks(database, sealed, idempotency, ids, waking=waking_of(section))
        server = ground.server(
            [
                (
                    sessions_pb2_grpc.add_SessionsServicer_to_server,
                    SessionsServicer(sessions, PostgresSearch(database, sealed), keys),
                ),
                (tasks_pb2_grpc.add_TasksServicer_to_server, TasksServicer(tasks, agents, news, keys)),
                (tokens_pb2_grpc.add_TokensServicer_to_server, _tokens(ground, agents)),
                (agents_pb2_grpc.add_AgentsServicer_to_server, AgentsServicer(agents)),
                (erasure_pb2_grpc.add_ErasureServicer_to_server, ErasureServicer(database, holdings_of(sealed))),
            ]
        )
        due = PostgresDue(database, slots=section.tenant_concurrency)

        async def tell(swept: bool) -> None:
            await server.set_part_health(SWEEPER, serving=swept)

        beside = [
            asyncio.create_task(news.listen()),
            asyncio.create_task(watch_sweeps(due, sweep_settings(section), tell)),
        ]
        try:
            await server.serve_until(stop)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)


def _tokens(ground: Ground, agents: AgentFiles) -> TokensServicer:
    identity = ground.config[IdentitySection]
    issuer = IssuedTokens(
        key=None if identity.task_key_file is None else PrivateKey.load(identity.task_key_file),
        trusted=KeySet.load(identity.keys_file),
        database=ground.database,
        revocations=Revocations(ground.keyring),
        clock=ground.clock,
        ids=ground.ids,
    )
    return TokensServicer(issuer, PostgresRevocations(ground.database, ground.keyring), agents, ground.clock)


async def work(config: Config, stop: asyncio.Event) -> None:
    """Run tasks until `stop` is set, then end or give back those under way within the drain time."""
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(config, WORKER, roles.HARNESS))
        ports = await _run_ports(ground, stack)
        section = config[HarnessSection]
        settings = run_settings(section)

        async def on_wake_up(tenant: str, task_id: str) -> None:
            await run_task(ports, settings, tenant, task_id, stop)

        presence = PostgresPresence(config[PostgresSection].dsn(roles.HARNESS))
        await stack.enter_async_context(presence.shown(settings.holder))
        sweeping = asyncio.create_task(
            sweep_until(PostgresDue(ground.database, slots=section.tenant_concurrency), sweep_settings(section), stop)
        )
        try:
            queue = ProcrastinateWakeUps(config[PostgresSection], section, name=settings.holder)
            await queue.run(on_wake_up, stop)
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)


async def _run_ports(ground: Ground, stack: AsyncExitStack) -> RunPorts:
    config, clock, ids, database = ground.config, ground.clock, ground.ids, ground.database
    identity, peers = config[IdentitySection], config[PeersSection]
    if identity.service_key_file is None or identity.task_key_file is None:
        raise ConfigError("the worker needs identity.service_key_file and identity.task_key_file")
    if not (peers.memoryfs and peers.tool_gateway and peers.policy):
        raise ConfigError("the worker needs peers.memoryfs, peers.tool_gateway and peers.policy")
    model = build_chat_model(config[ModelsSection])
    if model is None:
        raise ConfigError("the worker needs models.chat_url: an OpenAI-compatible endpoint")
    stack.push_async_callback(model.close)
    channels = Channels(
        SERVICE, TokenSigner.load(identity.service_key_file, clock, ids), ground.telemetry, config[GrpcSection], clock
    )
    stack.push_async_callback(channels.close)
    sealed = SealedColumns(ground.keyring)
    memory = GrpcMemory(channels.open(peers.memoryfs, "memoryfs"), ids)
    return RunPorts(
        children=PostgresChildren(database, sealed, ids, waking=waking_of(config[HarnessSection])),
        agents=AgentFiles.load(config[HarnessSection].agents_dir),
        journal=PostgresJournal(database, sealed, ids, waking=waking_of(config[HarnessSection])),
        sessions=PostgresSessions(database, sealed, Idempotency(ground.keyring), ids),
        search=PostgresSearch(database, sealed),
        memory=memory,
        working=memory,
        bindings=memory,
        tools=GrpcTools(channels.open(peers.tool_gateway, "tool-gateway")),
        reviews=GrpcReviews(channels.open(peers.policy, "policy"), clock),
        model=model,
        tokens=SignedTaskTokens(
            TokenSigner.load(identity.task_key_file, clock, ids), database, Revocations(ground.keyring)
        ),
        clock=clock,
    )


def waking_of(section: HarnessSection) -> Waking:
    """Give how workers are woken."""
    return Waking(quiet_s=section.wake_up_grace_s, slots=section.tenant_concurrency)


def run_settings(section: HarnessSection) -> RunSettings:
    """Give the settings of runs; the holder's name is unique, so that a restarted worker of one name is another."""
    return RunSettings(
        holder=f"{section.worker_name}-{secrets.token_hex(4)}",
        lease_s=section.lease_s,
        heartbeat_s=min(section.heartbeat_s, section.lease_s / 3),
        model_deadline_s=section.model_deadline_s,
        tries=section.tries,
        retry_base_s=section.retry_base_s,
        retry_max_s=section.retry_max_s,
        review_poll_min_s=section.review_poll_min_s,
        review_poll_max_s=section.review_poll_max_s,
        in_flight_poll_s=section.review_poll_min_s,
        wait_in_place_s=section.wait_in_place_s,
        binding_s=section.binding_s,
    )


def sweep_settings(section: HarnessSection) -> SweepSettings:
    """Give the settings of the sweeper."""
    return SweepSettings(every_s=section.sweep_s, quiet_s=section.wake_up_grace_s, lost_worker_s=section.lost_worker_s)
