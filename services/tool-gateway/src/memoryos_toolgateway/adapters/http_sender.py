"""One HTTP request on a connection of its own, and what is known when it ends.

No proxy, no cookie, no compression, no connection kept: a fresh connection
makes "could not connect" proof that nothing was sent, and an answer on a
reused one could belong to another call. Every connection goes through the
network guard.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import httpcore
from memoryos_telemetry import current_traceparent, names, tracer
from memoryos_telemetry.tracer import fail_span
from opentelemetry.trace import SpanKind

from memoryos_toolgateway.adapters.network_guard import GuardedBackend, NetworkGuard
from memoryos_toolgateway.domain.addresses import AddressRefused, Endpoint
from memoryos_toolgateway.domain.http_template import RenderedRequest
from memoryos_toolgateway.domain.redirects import followed

_BASE_HEADERS: Final = {
    "user-agent": "memoryos-tool-gateway",
    "accept": "application/json, */*;q=0.5",
    "accept-encoding": "identity",
    "connection": "close",
}
REQUESTS_MAX: Final = 256
"""Requests on their way at once; more wait for their turn within their own time."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_TRACER: Final = tracer("memoryos_toolgateway")
_log = logging.getLogger(__name__)
# This library logs whole URLs, and URLs hold arguments.
logging.getLogger("httpcore").setLevel(logging.WARNING)


class Contact(StrEnum):
    """How far it got."""

    ANSWERED = "answered"
    NOT_SENT = "not_sent"
    REFUSED = "refused"
    """The network guard lets nobody go there; nothing was sent."""
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `body` is empty unless `contact` is ANSWERED; `complete` says that all of it is there."""

    contact: Contact
    status: int = 0
    body: bytes = b""
    complete: bool = True
    location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may take: seconds in all, bytes of the answer, redirects followed."""

    timeout_s: float
    bytes_max: int
    redirects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hop:
    """One request of a chain of redirects; `until` is on the loop's clock."""

    request: RenderedRequest
    endpoint: Endpoint
    limits: Limits
    until: float
    progress: _Progress


class HttpSender:
    """Sends requests. Never raises but for cancellation, and never tells what an upstream said but in an Answer."""

    def __init__(self, guard: NetworkGuard, tls: ssl.SSLContext) -> None:
        """Take the guard, and what certificates are checked against."""
        self.guard = guard
        self._tls = tls
        self._turns = asyncio.Semaphore(REQUESTS_MAX)

    async def send(self, request: RenderedRequest, limits: Limits) -> Answer:
        """Send once (and follow redirects that may be) and give the answer, within the limits in all."""
        with _TRACER.span(f"HTTP {request.method}", kind=SpanKind.CLIENT, attributes=_where(request)) as span:
            until = asyncio.get_running_loop().time() + limits.timeout_s
            answer = await self._chain(request, limits, until)
            if answer.status:
                span.set_attribute(names.HTTP_STATUS_CODE, answer.status)
            if answer.contact is not Contact.ANSWERED or answer.status >= 400:
                fail_span(span, answer.contact if answer.contact is not Contact.ANSWERED else str(answer.status))
            return answer

    async def _chain(self, request: RenderedRequest, limits: Limits, until: float) -> Answer:
        allowed = (request.endpoint,)
        answer = await self._one(request, allowed, limits, until)
        for _ in range(limits.redirects):
            following = followed(request, answer.status, answer.location)
            if following is None:
                break
            request = following
            further = await self._one(request, allowed, limits, until)
            if further.contact is Contact.REFUSED:
                break  # the redirect stands as the answer: it led where nobody goes
            # What was sent before is sent: a later hop that was not says nothing of the whole.
            answer = Answer(contact=Contact.LOST) if further.contact is Contact.NOT_SENT else further
        return answer

    async def _one(self, request: RenderedRequest, allowed: tuple[str, ...], limits: Limits, until: float) -> Answer:
        sent = _Progress()
        try:
            endpoint = self.guard.check(request.endpoint, allowed)
            hop = _Hop(request=request, endpoint=endpoint, limits=limits, until=until, progress=sent)
            async with asyncio.timeout_at(until), self._turns:
                return await self._send(hop)
        except AddressRefused as refused:
            return _refused(refused)
        except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol):
            return Answer(contact=Contact.NOT_SENT)
        except (*_HTTP_ERRORS, TimeoutError, OSError, ValueError, RuntimeError):
            return Answer(contact=Contact.LOST if sent.started else Contact.NOT_SENT, status=sent.status)

    async def _send(self, hop: _Hop) -> Answer:
        request = hop.request
        remaining_s = max(hop.until - asyncio.get_running_loop().time(), 0.001)
        message = httpcore.Request(
            request.method,
            httpcore.URL(
                scheme=request.scheme.encode(), host=hop.endpoint.host.encode(), port=hop.endpoint.port,
                target=request.target.encode("ascii"),
            ),
            headers=_headers(request, hop.endpoint),
            content=request.body,
            extensions={
                "timeout": dict.fromkeys(("connect", "read", "write", "pool"), remaining_s),
                "trace": hop.progress.trace,
            },
        )  # fmt: skip
        connection = httpcore.AsyncHTTPConnection(
            origin=message.url.origin,
            ssl_context=self._tls,
            network_backend=GuardedBackend(self.guard, hop.endpoint),
        )
        try:
            response = await connection.handle_async_request(message)
            hop.progress.status = response.status
            return await _read(response, hop.limits.bytes_max)
        finally:
            await connection.aclose()


_HTTP_ERRORS: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


async def _read(response: httpcore.Response, bytes_max: int) -> Answer:
    found = {name.lower(): value.decode("latin-1") for name, value in response.headers}
    location = found.get(b"location", "")
    if found.get(b"content-encoding", "identity") != "identity":
        return Answer(contact=Contact.ANSWERED, status=response.status, complete=False, location=location)
    body, complete = bytearray(), True
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > bytes_max:
            complete = False
            break
    return Answer(
        contact=Contact.ANSWERED,
        status=response.status,
        body=bytes(body[:bytes_max]),
        complete=complete,
        location=location,
    )


def _refused(refused: AddressRefused) -> Answer:
    _log.warning("upstream not reached: it %s", refused)
    return Answer(contact=Contact.REFUSED)


def _headers(request: RenderedRequest, endpoint: Endpoint) -> list[tuple[bytes, bytes]]:
    plain = endpoint.port == _DEFAULT_PORTS[request.scheme]
    host = str(endpoint).rpartition(":")[0] if plain else str(endpoint)
    headers: Mapping[str, str] = {
        "host": host,
        **_BASE_HEADERS,
        **{name.lower(): value for name, value in request.headers.items()},
        "traceparent": current_traceparent() or "",
    }
    if request.body is not None:
        headers = {**headers, "content-length": str(len(request.body))}
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items() if value]


def _where(request: RenderedRequest) -> dict[str, str | int]:
    """The upstream, not the path: that holds arguments."""
    host, _, port = request.endpoint.rpartition(":")
    return {names.SERVER_ADDRESS: host, names.SERVER_PORT: int(port)}


class _Progress:
    """Notes when the first byte of the request could have left this machine."""

    def __init__(self) -> None:
        self.started = False
        self.status = 0

    async def trace(self, event: str, _: object) -> None:
        if event.endswith("send_request_headers.started"):
            self.started = True
