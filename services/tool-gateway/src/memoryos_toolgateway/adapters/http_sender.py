"""One HTTP request on a connection of its own, and what is known when it ends.

No proxy, no redirect, no cookie, no compression, no connection kept: a fresh
connection makes "could not connect" proof that nothing was sent, and an
answer on a reused one could belong to another call.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import httpx
from memoryos_telemetry import current_traceparent, names, tracer
from memoryos_telemetry.tracer import fail_span
from opentelemetry.trace import SpanKind

from memoryos_toolgateway.domain.http_template import RenderedRequest

USER_AGENT: Final = "memoryos-tool-gateway"
_TRACER: Final = tracer("memoryos_toolgateway")
# These libraries log whole URLs, and URLs hold arguments.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Contact(StrEnum):
    """How far it got."""

    ANSWERED = "answered"
    NOT_SENT = "not_sent"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `body` is empty unless `contact` is ANSWERED; `complete` says that all of it is there."""

    contact: Contact
    status: int = 0
    body: bytes = b""
    complete: bool = True


class HttpSender:
    """Sends requests. Never raises but for cancellation, and never tells what an upstream said but in `body`."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            http2=False,
            limits=httpx.Limits(max_connections=256, max_keepalive_connections=0),
            headers={"user-agent": USER_AGENT, "accept": "application/json, */*;q=0.5", "accept-encoding": "identity"},
        )

    async def close(self) -> None:
        """Give back all sockets."""
        await self._client.aclose()

    async def send(
        self, request: RenderedRequest, *, timeout_s: float, bytes_max: int, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send once and give the answer, within `timeout_s` in all."""
        with _TRACER.span(f"HTTP {request.method}", kind=SpanKind.CLIENT, attributes=_where(request)) as span:
            answer = await self._guarded(request, timeout_s, bytes_max, headers or {})
            if answer.status:
                span.set_attribute(names.HTTP_STATUS_CODE, answer.status)
            if answer.contact is not Contact.ANSWERED or answer.status >= 400:
                fail_span(span, answer.contact if answer.contact is not Contact.ANSWERED else str(answer.status))
            return answer

    async def _guarded(
        self, request: RenderedRequest, timeout_s: float, bytes_max: int, headers: dict[str, str]
    ) -> Answer:
        sent = _Progress()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._send(request, bytes_max, headers, sent, timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol):
            return Answer(contact=Contact.NOT_SENT)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, TimeoutError, OSError, ValueError):
            return Answer(contact=Contact.LOST if sent.connected else Contact.NOT_SENT, status=sent.status)

    async def _send(
        self, request: RenderedRequest, bytes_max: int, headers: dict[str, str], sent: _Progress, timeout_s: float
    ) -> Answer:
        all_headers = {**headers, "traceparent": current_traceparent()}
        if request.body is not None:
            all_headers["content-type"] = "application/json"
        message = self._client.build_request(
            request.method,
            request.url,
            content=request.body,
            headers={name: value for name, value in all_headers.items() if value},
            timeout=timeout_s,
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout_s), "trace": sent.trace},
        )
        response = await self._client.send(message, stream=True)
        try:
            sent.status = response.status_code
            body, complete = bytearray(), True
            if response.headers.get("content-encoding", "identity") != "identity":
                return Answer(contact=Contact.ANSWERED, status=response.status_code, complete=False)
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > bytes_max:
                    complete = False
                    break
            return Answer(
                contact=Contact.ANSWERED,
                status=response.status_code,
                body=bytes(body[:bytes_max]),
                complete=complete,
            )
        finally:
            await response.aclose()


def _where(request: RenderedRequest) -> dict[str, str | int]:
    """The upstream, not the path: that holds arguments."""
    host, _, port = request.endpoint.rpartition(":")
    return {names.SERVER_ADDRESS: host, names.SERVER_PORT: int(port)}


class _Progress:
    """Notes when the first byte could have left this machine."""

    def __init__(self) -> None:
        self.connected = False
        self.status = 0

    async def trace(self, event: str, _: object) -> None:
        if event.endswith("send_request_headers.started"):
            self.connected = True
