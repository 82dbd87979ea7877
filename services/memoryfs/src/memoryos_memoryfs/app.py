"""Composition root of MemoryFS: nothing else constructs an adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

from memoryos.jobs.v1 import jobs_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos_core.clock import Clock
from memoryos_core.config import Config, ConfigError
from memoryos_core.sections import PeersSection
from memoryos_core.token_hashes import TokenHashes
from memoryos_grpc.server import Server
from memoryos_models.build import build_chat_model, build_embedder, build_reranker
from memoryos_models.config import ModelsSection
from memoryos_models.ports import ChatModel, Embedder
from memoryos_postgres import roles
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.jobs import JobRunner, Jobs
from memoryos_service import GROUND_SECTIONS, Ground, open_ground
from memoryos_telemetry.context import current_traceparent, remote_context
from memoryos_vectors.adapters.guarded import GuardedIndex
from memoryos_vectors.adapters.pgvector_routes import AnnRoutes
from memoryos_vectors.breaker import Breaker
from memoryos_vectors.build import build_derived
from memoryos_vectors.config import PgVectorSection
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import DerivedIndex
from memoryos_vectors.qdrant_config import QdrantSection

from memoryos_memoryfs.adapters.names import Names
from memoryos_memoryfs.adapters.pg_bindings import BoundScopes, PgBindingQueue
from memoryos_memoryfs.adapters.pg_embed_queue import PgEmbedQueue
from memoryos_memoryfs.adapters.pg_feed import PgFeed
from memoryos_memoryfs.adapters.pg_index_outbox import PgBackendState, PgIndexOutbox
from memoryos_memoryfs.adapters.pg_jobs import record_cancel
from memoryos_memoryfs.adapters.pg_journal import SERVICE, AuditReads
from memoryos_memoryfs.adapters.pg_lifecycle import PgLifecycle
from memoryos_memoryfs.adapters.pg_past import PgPast
from memoryos_memoryfs.adapters.pg_scans import PgInspector
from memoryos_memoryfs.adapters.pg_storage import PgStorage
from memoryos_memoryfs.adapters.pg_truth_vectors import PgTruthVectors
from memoryos_memoryfs.adapters.pg_upkeep import PgUpkeep
from memoryos_memoryfs.adapters.seen_facts import SeenFacts
from memoryos_memoryfs.adapters.session import CopyReads, Shared
from memoryos_memoryfs.background import (
    embed_forever,
    end_bindings_forever,
    keep_index_forever,
    keep_lifecycle_forever,
)
from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.copy_worker import HEALTH_PART, copy_forever
from memoryos_memoryfs.domain.erasure import PURGE
from memoryos_memoryfs.domain.settings import PathSettings
from memoryos_memoryfs.erasure_build import build_erasure
from memoryos_memoryfs.job_handlers import handlers_of
from memoryos_memoryfs.operations.adopt_backend import adopt_backend
from memoryos_memoryfs.parts import Parts, Reranking
from memoryos_memoryfs.ports.index import Backend, IndexParts
from memoryos_memoryfs.servicer import MemoryFSServicer
from memoryos_memoryfs.servicers.jobs import JobsServicer

SECTIONS = (
    *GROUND_SECTIONS,
    PeersSection,
    PgVectorSection,
    QdrantSection,
    ModelsSection,
    MemoryFSSection,
)


@asynccontextmanager
async def running(
    config: Config,
    *,
    clock: Clock | None = None,
    embedder: Embedder | None = None,
    derived: DerivedIndex | None = None,
) -> AsyncIterator[Server]:
    """Give a serving server; `clock`, `embedder` and `derived` replace the configured ones in tests."""
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(config, SERVICE, roles.MEMORYFS, clock=clock))
        if embedder is None:
            embedder = build_embedder(config[ModelsSection])
            stack.push_async_callback(embedder.close)
        shared = await _shared(ground, embedder, derived, stack)
        database, section = ground.database, config[MemoryFSSection]
        outbox, backends = PgIndexOutbox(database, config[QdrantSection]), PgBackendState(database)
        await adopt_backend(backends, outbox, Backend(section.vector_backend))
        upkeep = PgUpkeep(database, shared.models)
        parts = Parts(
            storage=PgStorage(database, shared),
            feed=PgFeed(database, shared),
            past=PgPast(database, shared),
            trail=AuditReads(ground.recorder, SeenFacts(database, ground.clock)),
            hits=upkeep,
            embedder=embedder,
            clock=ground.clock,
            ids=ground.ids,
            section=section,
            chat=_chat(config[ModelsSection], stack),
            index=_index(ground, shared, outbox, backends),
            inspector=PgInspector(database, shared),
            reranking=_reranking(config[ModelsSection], stack),
            jobs=shared.jobs,
            erasure=build_erasure(ground, shared, stack),
        )
        server = ground.server(
            [
                (memoryfs_pb2_grpc.add_MemoryFSServicer_to_server, MemoryFSServicer(parts)),
                (jobs_pb2_grpc.add_JobsServicer_to_server, JobsServicer(shared.jobs)),
            ],
            bound=BoundScopes(database, shared),
        )
        await server.start()
        work = [
            _job_runner(ground, parts).run_forever(),
            embed_forever(PgEmbedQueue(database, shared, section), embedder, section),
            keep_index_forever(upkeep, ground.clock, section.upkeep_s),
            end_bindings_forever(parts, PgBindingQueue(database)),
            keep_lifecycle_forever(PgLifecycle(database, shared), ground.clock, section),
        ]
        if shared.copy is not None:
            tell = partial(server.set_part_health, HEALTH_PART)
            work.append(copy_forever(outbox, backends, shared.copy.index, shared.models, config[QdrantSection], tell))
        workers = [asyncio.create_task(one) for one in work]
        try:
            yield server
        finally:
            await server.stop()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


async def _shared(ground: Ground, embedder: Embedder, derived: DerivedIndex | None, stack: AsyncExitStack) -> Shared:
    """Give what the adapters of all transactions share."""
    config, clock, keyring = ground.config, ground.clock, ground.keyring
    models = IndexedModels({embedder.model_id: embedder.dimensions})
    return Shared(
        keyring=keyring,
        idempotency=Idempotency(keyring),
        names=Names(clock),
        hashes=TokenHashes(),
        models=models,
        model_id=embedder.model_id,
        ann=AnnRoutes(config[PgVectorSection], clock),
        clock=clock,
        jobs=Jobs(
            ground.database,
            SERVICE,
            keyring,
            ground.ids,
            trace_parent=current_traceparent,
            unstoppable=frozenset({PURGE}),
            on_cancel=record_cancel,
        ),
        copy=await _copy_of(config, models, derived, stack),
        defaults=_defaults(config[MemoryFSSection]),
    )


def _index(ground: Ground, shared: Shared, outbox: PgIndexOutbox, backends: PgBackendState) -> IndexParts:
    """Give what operations on the index work with."""
    copy = shared.copy
    return IndexParts(
        state=backends,
        outbox=outbox,
        truth=PgTruthVectors(ground.database, shared.models),
        models=shared.models,
        model_id=shared.model_id,
        copy=copy.index if copy else None,
        answers=lambda: copy is not None and copy.index.breaker.closed,
        settle_s=2 * ground.config[QdrantSection].write_timeout_s,
    )


def _job_runner(ground: Ground, parts: Parts) -> JobRunner:
    """Give what works on the jobs of this service, each as a span of the trace that asked for it."""
    tracer = ground.telemetry.tracer(SERVICE)
    return JobRunner(
        parts.jobs,
        handlers_of(parts),
        traced=lambda kind, parent: tracer.span(f"job {kind}", parent=remote_context(parent)),
    )


def _chat(section: ModelsSection, stack: AsyncExitStack) -> ChatModel | None:
    """Give the chat model where the configuration names one."""
    model = build_chat_model(section)
    if model is not None:
        stack.push_async_callback(model.close)
    return model


def _reranking(section: ModelsSection, stack: AsyncExitStack) -> Reranking | None:
    """Give the reranker where the configuration names one."""
    model = build_reranker(section)
    if model is None:
        return None
    stack.push_async_callback(model.close)
    return Reranking(model=model, texts_max=section.reranker_texts_max, timeout_s=section.reranker_timeout_s)


def _defaults(section: MemoryFSSection) -> PathSettings:
    """Give what holds where no path states anything."""
    return PathSettings(
        gate=section.gate,
        hot_window=timedelta(days=section.hot_window_days),
        retention=timedelta(days=section.retention_days),
    )


async def _copy_of(
    config: Config, models: IndexedModels, derived: DerivedIndex | None, stack: AsyncExitStack
) -> CopyReads | None:
    """Give the copy of the dense index where the configuration names one."""
    section = config[QdrantSection]
    try:
        derived = derived or build_derived(section, models)
    except ValueError as error:
        raise ConfigError(f"configuration qdrant.url: {error}") from None
    if derived is None:
        if Backend(config[MemoryFSSection].vector_backend) is Backend.QDRANT:
            raise ConfigError("configuration qdrant.url: needed, since memoryfs.vector_backend is qdrant")
        return None
    stack.push_async_callback(derived.close)
    guarded = GuardedIndex(derived, Breaker(), search_s=section.search_timeout_s, write_s=section.write_timeout_s)
    return CopyReads(index=guarded, pending_max=section.pending_max)


async def serve(config: Config, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let running calls end."""
    async with running(config):
        await stop.wait()
