"""Composition root of the policy service: nothing else constructs an adapter."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

from memoryos.erasure.v1 import erasure_pb2_grpc
from memoryos.policy.v1 import policy_pb2_grpc, reviews_pb2_grpc
from memoryos_core.config import Config, SecretFile
from memoryos_grpc.server import Server
from memoryos_postgres import roles
from memoryos_postgres.idempotency import Idempotency
from memoryos_service import GROUND_SECTIONS, open_ground
from memoryos_service.erasure import ErasureServicer

from memoryos_policy.adapters.bundle_source import BundleSource
from memoryos_policy.adapters.decision_log import PostgresDecisionLog
from memoryos_policy.adapters.decision_store import PostgresDecisionStore
from memoryos_policy.adapters.erasure import HOLDINGS
from memoryos_policy.adapters.fresh import FreshDecisionPoint
from memoryos_policy.adapters.kept_rules import PostgresKeptRules
from memoryos_policy.adapters.opa import OpaDecisionPoint
from memoryos_policy.adapters.review_log import PostgresReviewLog
from memoryos_policy.adapters.review_store import PostgresReviewStore
from memoryos_policy.bundles import default_bundle_dir
from memoryos_policy.config import PolicySection
from memoryos_policy.operations.decide_actions import DecideActions
from memoryos_policy.servicers.policy import PolicyServicer
from memoryos_policy.servicers.reviews import ReviewsServicer

SERVICE = "policy"
SECTIONS = (*GROUND_SECTIONS, PolicySection)

_log = logging.getLogger(__name__)


async def serve(config: Config, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let running calls end.

    Health says NOT_SERVING as long as OPA does not answer from a bundle; calls
    that come all the same are denied, each with its reason.
    """
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(config, SERVICE, roles.POLICY))
        clock, ids, database, keyring = ground.clock, ground.ids, ground.database, ground.keyring
        token = SecretFile(config[PolicySection].opa_token_file).read()
        section = config[PolicySection]
        opa = OpaDecisionPoint(section, token)
        await opa.start()
        stack.push_async_callback(opa.close)
        rules = PostgresKeptRules(database, section.opa_binary)
        source = BundleSource(section.bundle_dir or default_bundle_dir(), clock, rules)
        await source.read()
        decision_point = FreshDecisionPoint(opa, source, section.stale_after_s, clock)
        decisions = PostgresDecisionStore(database, keyring, ids, clock)
        log = PostgresDecisionLog(database, keyring)
        reviews = PostgresReviewStore(database, keyring, Idempotency(keyring), ids)
        server = ground.server(
            [
                (
                    policy_pb2_grpc.add_PolicyServicer_to_server,
                    PolicyServicer(DecideActions(decisions, decision_point, clock), log, rules, clock),
                ),
                (
                    reviews_pb2_grpc.add_ReviewsServicer_to_server,
                    ReviewsServicer(reviews, PostgresReviewLog(database, keyring), clock),
                ),
                (erasure_pb2_grpc.add_ErasureServicer_to_server, ErasureServicer(database, HOLDINGS)),
            ]
        )
        await server.start()
        watching = [
            asyncio.create_task(source.keep_reading(section.source_interval_s)),
            asyncio.create_task(_tell_health(server, decision_point, section.probe_interval_s)),
        ]
        try:
            await stop.wait()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await server.stop()


async def _tell_health(server: Server, decision_point: FreshDecisionPoint, interval_s: float) -> None:
    """Keep the health of the service what the decision point's is, and say which faults have denied calls."""
    told: str | None = None
    while True:
        verdict = await decision_point.probe()
        code = verdict.reasons[0].code if verdict.undecided else ""
        if code != told:
            _log.info("health of the policy engine", extra={"fault": code})
            await server.set_health(serving=not code)
            told = code
        faults = decision_point.take_faults()
        if faults:
            _log.warning("calls were denied for faults, not by rules", extra={"faults": dict(faults)})
        await asyncio.sleep(interval_s)
