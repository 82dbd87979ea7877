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

from memoryos_policy.adapters.decision_store import PostgresDecisionStore
from memoryos_policy.adapters.erasure import HOLDINGS
from memoryos_policy.adapters.opa import OpaDecisionPoint
from memoryos_policy.adapters.review_store import PostgresReviewStore
from memoryos_policy.config import PolicySection
from memoryos_policy.operations.decide_actions import DecideActions
from memoryos_policy.ports import PolicyDecisionPoint
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
        decision_point = OpaDecisionPoint(config[PolicySection], token)
        await decision_point.start()
        stack.push_async_callback(decision_point.close)
        decisions = PostgresDecisionStore(database, keyring, ids, clock)
        reviews = PostgresReviewStore(database, keyring, Idempotency(keyring), ids)
        server = ground.server(
            [
                (
                    policy_pb2_grpc.add_PolicyServicer_to_server,
                    PolicyServicer(DecideActions(decisions, decision_point, clock), decisions),
                ),
                (reviews_pb2_grpc.add_ReviewsServicer_to_server, ReviewsServicer(reviews)),
                (erasure_pb2_grpc.add_ErasureServicer_to_server, ErasureServicer(database, HOLDINGS)),
            ]
        )
        await server.start()
        watching = asyncio.create_task(_tell_health(server, decision_point, config[PolicySection].probe_interval_s))
        try:
            await stop.wait()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await server.stop()


async def _tell_health(server: Server, decision_point: PolicyDecisionPoint, interval_s: float) -> None:
    """Keep the health of the service what the decision point's is."""
    told: bool | None = None
    while True:
        ready = await decision_point.is_ready()
        if ready is not told:
            _log.info("the policy engine answers" if ready else "the policy engine does not answer from a bundle")
            await server.set_health(serving=ready)
            told = ready
        await asyncio.sleep(interval_s)
