"""Composition root of MemoryFS: nothing else constructs an adapter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

from memoryos.jobs.v1 import jobs_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos_core.clock import Clock
from memoryos_core.config import Config, ConfigError
from memoryos_core.sections import PeersSection
from memoryos_grpc.server import Server
from memoryos_models.build import build_chat_model, build_embedder, build_reranker
from memoryos_models.config import ModelsSection
from memoryos_models.ports import ChatModel, Embedder
from memoryos_postgres import roles
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.jobs import JobRunner, Jobs
from memoryos_service import GROUND_SECTIONS, open_ground
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
from memoryos_memoryfs.adapters.pg_journal import SERVICE, AuditReads
from memoryos_memoryfs.adapters.pg_lifecycle import PgLifecycle
from memoryos_memoryfs.adapters.pg_past import PgPast
from memoryos_memoryfs.adapters.pg_scans import PgInspector
from memoryos_memoryfs.adapters.pg_storage import PgStorage
from memoryos_memoryfs.adapters.pg_truth_vectors import PgTruthVectors
from memoryos_memoryfs.adapters.pg_upkeep import SWEPT_MAX, PgUpkeep
from memoryos_memoryfs.adapters.session import CopyReads, Shared
from memoryos_memoryfs.adapters.token_hashes import TokenHashes
from memoryos_memoryfs.binding_ports import BindingQueue
from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.copy_worker import HEALTH_PART, copy_forever
from memoryos_memoryfs.domain.settings import PathSettings
from memoryos_memoryfs.erasure_build import build_erasure
from memoryos_memoryfs.index_ports import Backend, IndexParts
from memoryos_memoryfs.job_handlers import handlers_of
from memoryos_memoryfs.lifecycle_ports import LifecycleUpkeep
from memoryos_memoryfs.operations.adopt_backend import adopt_backend
from memoryos_memoryfs.operations.bind_paths import end_due_bindings
from memoryos_memoryfs.operations.embed_pending import embed_pending
from memoryos_memoryfs.operations.keep_lifecycle import keep_lifecycle
from memoryos_memoryfs.parts import Parts, Reranking
from memoryos_memoryfs.ports import EmbedQueue
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

_log = logging.getLogger(__name__)


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
        clock, database, keyring = ground.clock, ground.database, ground.keyring
        if embedder is None:
            embedder = build_embedder(config[ModelsSection])
            stack.push_async_callback(embedder.close)
        models = IndexedModels({embedder.model_id: embedder.dimensions})
        copy = await _copy_of(config, models, derived, stack)
        jobs = Jobs(database, SERVICE, keyring, ground.ids, trace_parent=current_traceparent)
        shared = Shared(
            keyring=keyring,
            idempotency=Idempotency(keyring),
            names=Names(clock),
            hashes=TokenHashes(),
            models=models,
            model_id=embedder.model_id,
            ann=AnnRoutes(config[PgVectorSection], clock),
            clock=clock,
            jobs=jobs,
            copy=copy,
            defaults=_defaults(config[MemoryFSSection]),
        )
        section = config[MemoryFSSection]
        outbox, backends = PgIndexOutbox(database, config[QdrantSection]), PgBackendState(database)
        await adopt_backend(backends, outbox, Backend(section.vector_backend))
        upkeep = PgUpkeep(database, shared.models)
        parts = Parts(
            storage=PgStorage(database, shared),
            feed=PgFeed(database, shared),
            past=PgPast(database, shared),
            trail=AuditReads(ground.recorder),
            hits=upkeep,
            embedder=embedder,
            clock=clock,
            ids=ground.ids,
            section=section,
            chat=_chat(config[ModelsSection], stack),
            index=IndexParts(
                state=backends,
                outbox=outbox,
                truth=PgTruthVectors(database, models),
                models=models,
                model_id=embedder.model_id,
                copy=copy.index if copy else None,
                answers=lambda: copy is not None and copy.index.breaker.closed,
                settle_s=2 * config[QdrantSection].write_timeout_s,
            ),
            inspector=PgInspector(database, shared),
            reranking=_reranking(config[ModelsSection], stack),
            jobs=jobs,
            erasure=build_erasure(ground, shared, stack),
        )
        server = ground.server(
            [
                (memoryfs_pb2_grpc.add_MemoryFSServicer_to_server, MemoryFSServicer(parts)),
                (jobs_pb2_grpc.add_JobsServicer_to_server, JobsServicer(jobs)),
            ],
            bound=BoundScopes(database, shared),
        )
        tracer = ground.telemetry.tracer(SERVICE)
        runner = JobRunner(
            jobs,
            handlers_of(parts),
            traced=lambda kind, parent: tracer.span(f"job {kind}", parent=remote_context(parent)),
        )
        await server.start()
        workers = [
            asyncio.create_task(runner.run_forever()),
            asyncio.create_task(_embed_forever(PgEmbedQueue(database, shared, section), embedder, section)),
            asyncio.create_task(_keep_up(upkeep, clock, section.upkeep_s)),
            asyncio.create_task(_end_bindings(parts, PgBindingQueue(database))),
            asyncio.create_task(_keep_lifecycle(PgLifecycle(database, shared), clock, section)),
        ]
        if copy is not None:
            tell = partial(server.set_part_health, HEALTH_PART)
            workers.append(
                asyncio.create_task(copy_forever(outbox, backends, copy.index, models, config[QdrantSection], tell))
            )
        try:
            yield server
        finally:
            await server.stop()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


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


async def _embed_forever(queue: EmbedQueue, embedder: Embedder, section: MemoryFSSection) -> None:
    """Embed what waits, batch after batch; sleep only when nothing was done."""
    while True:
        try:
            done = await embed_pending(queue, embedder, section)
        except Exception:
            _log.exception("the queue of vectors cannot be read")
            done = 0
        if not done:
            await asyncio.sleep(section.embed_poll_s)


async def _keep_lifecycle(upkeep: LifecycleUpkeep, clock: Clock, section: MemoryFSSection) -> None:
    """Look after tenants as they come due, again and again."""
    while True:
        # Who is due is looked up by one probe of an index per tenant: often enough, and not all the time.
        await asyncio.sleep(max(0.05, min(section.lifecycle_s / 20, 60)))
        try:
            await keep_lifecycle(upkeep, clock, section.lifecycle_s)
        except Exception:
            _log.exception("the upkeep of the lifecycle failed")


async def _end_bindings(parts: Parts, queue: BindingQueue) -> None:
    """End bindings whose time is over, again and again."""
    while True:
        try:
            done = await end_due_bindings(parts, queue)
        except Exception:
            _log.exception("a binding cannot be ended")
            done = 0
        if not done:
            await asyncio.sleep(parts.section.bindings_poll_s)


async def _keep_up(upkeep: PgUpkeep, clock: Clock, every_s: float) -> None:
    """Count hits and sweep expired index rows, again and again."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await upkeep.flush()
            while await upkeep.sweep(clock.now()) >= SWEPT_MAX:
                pass
        except Exception:
            _log.exception("upkeep failed")
