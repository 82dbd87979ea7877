"""The policy decision point on a real OPA server, through opa-python-client.

The client's known gaps are closed here: the query path is a constant, since it
escapes nothing; its retries are replaced by our own total deadline; redirects
are not followed; bodies are capped and parsed strictly before they are believed;
every way to fail is a deny with its own reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField
from memoryos_telemetry import names
from memoryos_telemetry.context import current_traceparent
from memoryos_telemetry.telemetry import tracer
from memoryos_telemetry.tracer import fail_span
from opa_client.opa_async import AsyncOpaClient
from opentelemetry.trace import SpanKind

from memoryos_policy.adapters.faults import Fault, Missing
from memoryos_policy.adapters.input_check import check_input
from memoryos_policy.adapters.opa_answer import parse_answer
from memoryos_policy.adapters.opa_wire import Closed, OpaWire, Unreachable, WireAnswer
from memoryos_policy.config import PolicySection
from memoryos_policy.domain.verdicts import POLICY_MISSING, POLICY_NOT_READY, Verdict, policy_error, refusal

PACKAGE_PATH: Final = "memoryos/main"
RULE_NAME: Final = "decision"
QUERY: Final = {"strict-builtin-errors": "true", "provenance": "true"}
ANSWER_BYTES_MAX: Final = 256 * 1024
"""64 reasons of 500 characters and the provenance fit many times."""
INPUT_BYTES_MAX: Final = 512 * 1024
ANSWER_DEPTH_MAX: Final = 16
CONNECTIONS_MAX: Final = 32
QUEUE_S_MAX: Final = 4.0
"""How long a question may wait for a connection while others are answered: a listing asks 500 at once."""
_PROBE: Final = {"version": 1, "purpose": "probe"}

_log = logging.getLogger(__name__)
_tracer = tracer(__name__)


class OpaDecisionPoint:
    """PolicyDecisionPoint by OPA. `start` before use, `close` after."""

    def __init__(self, config: PolicySection, token: str) -> None:
        self._timeout_s = config.opa_timeout_s
        self._client = _ClosedClient(
            host=config.opa_host, port=config.opa_port, token=token, retries=0, timeout=config.opa_timeout_s
        )
        self._limit = asyncio.Semaphore(CONNECTIONS_MAX)
        self._answered = False
        self._last_answer = 0.0

    async def start(self) -> None:
        """Open the connection pool; OPA need not be up yet."""
        await self._client._init_session()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close_connection()

    async def decide(self, document: Mapping[str, Any]) -> Verdict:
        """Give OPA's verdict; see PolicyDecisionPoint."""
        with _tracer.span("opa.decide", kind=SpanKind.CLIENT) as span:
            verdict = await self._decide(document)
            span.set_attribute(names.DECISION, verdict.effect.value)
            span.set_attribute(names.BUNDLE_REVISION, verdict.revision)
            if not verdict.revision:
                fail_span(span, verdict.reasons[0].code)
            return verdict

    async def probe(self) -> Verdict:
        """Give OPA's verdict on a document that no rule allows."""
        return await self._asked(_PROBE)

    async def _decide(self, document: Mapping[str, Any]) -> Verdict:
        try:
            check_input(document)
        except Fault as fault:
            return policy_error(fault.kind)
        return await self._asked(document)

    async def _asked(self, document: Mapping[str, Any]) -> Verdict:
        try:
            verdict = await self._in_turn(document)
        except Missing:
            self._answered = True
            return refusal(POLICY_MISSING, "The policy engine has no policies.")
        except Fault as fault:
            return policy_error(fault.kind)
        except TimeoutError:
            return policy_error("timeout")
        except Unreachable:
            if not self._answered:
                return refusal(POLICY_NOT_READY, "The policy engine has not started yet.")
            return policy_error("unreachable")
        except (Closed, OSError):
            return policy_error("unreachable")
        except Exception:
            # The client has no base class of its errors: whatever it raises is a deny.
            _log.exception("the policy engine could not be asked")
            return policy_error("internal")
        self._answered = True
        return verdict

    async def _in_turn(self, document: Mapping[str, Any]) -> Verdict:
        """Ask on one of few connections. The time of a question begins when it comes, and anew while it waits for a
        connection whenever OPA has answered another: a crowd waits its turn, and a hung OPA holds nobody longer."""
        loop = asyncio.get_running_loop()
        came = loop.time()
        if self._limit.locked():
            while True:
                try:
                    async with asyncio.timeout_at(self._deadline(came)):
                        await self._limit.acquire()
                    break
                except TimeoutError:
                    if self._deadline(came) <= loop.time():
                        raise
        else:
            await self._limit.acquire()  # does not wait
        try:
            async with asyncio.timeout_at(self._deadline(came)):
                answer = await self._ask(document)
        finally:
            self._limit.release()
        self._last_answer = loop.time()
        return parse_answer(answer)

    def _deadline(self, came: float) -> float:
        return min(max(came, self._last_answer), came + QUEUE_S_MAX) + self._timeout_s

    async def _ask(self, document: Mapping[str, Any]) -> JsonValue:
        try:
            return await self._query(document)
        except Closed:
            # A kept connection that OPA had closed: asking again is safe, a question has no effect.
            return await self._query(document)

    async def _query(self, document: Mapping[str, Any]) -> JsonValue:
        answer: JsonValue = await self._client.query_rule(dict(document), PACKAGE_PATH, RULE_NAME, QUERY)
        return answer


class _ClosedClient(AsyncOpaClient):  # type: ignore[misc]
    """opa-python-client on a wire of ours: no redirects, no retries, capped and strict bodies."""

    async def _init_session(self) -> None:
        self._wire = OpaWire(self.host, self.port, ANSWER_BYTES_MAX)

    async def close_connection(self) -> None:
        """Hang up."""
        self._wire.close()

    @asynccontextmanager
    async def _request(self, method: str, url: str, *, json: Any) -> AsyncIterator[_Answer]:
        assert method == "POST"
        traceparent = current_traceparent()
        headers = {**self.headers, "content-type": "application/json"}
        if traceparent:
            headers["traceparent"] = traceparent
        target = url.removeprefix(f"{self.schema}{self.host}:{self.port}")
        yield _Answer(await self._wire.post(target, headers, _serialize(json)))


class _Answer:
    """What `query_rule` sees of a response: its status must be 200, its body one JSON value."""

    def __init__(self, answer: WireAnswer) -> None:
        self._answer = answer

    def raise_for_status(self) -> None:
        if self._answer.status != 200:
            raise Fault(f"http_{self._answer.status}")
        if self._answer.content_type != "application/json":
            raise Fault("not_json")

    async def json(self) -> JsonValue:
        return read_answer(self._answer.body)


def read_answer(body: bytes) -> JsonValue:
    """Give the one JSON value of a body; whatever has two readings is a Fault."""
    try:
        return parse_json(body, max_bytes=ANSWER_BYTES_MAX, max_depth=ANSWER_DEPTH_MAX)
    except InvalidField:
        raise Fault("not_json") from None


def _serialize(value: Any) -> bytes:
    try:
        text = canonical_json(value)
    except InvalidField:
        raise Fault("input") from None
    if len(text) > INPUT_BYTES_MAX:
        raise Fault("input_too_large")
    return text
