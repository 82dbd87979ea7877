"""One bounded JSON POST to a model endpoint, answered at once or as a stream, with its failures as typed errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from memoryos_models.chat_stream import StreamedReply
from memoryos_models.errors import ModelReplyInvalid, ModelUnavailable
from memoryos_models.refusals import RETRY_AFTER_DEFAULT_S, refusal

_ERROR_BYTES_MAX: Final = 65_536
"""Of an error's body so much is read; more is cut off, and then it says less."""


@dataclass(frozen=True, kw_only=True)
class ReplyLimits:
    """How long and how much of a reply is waited for. Times in seconds."""

    deadline_s: float
    """From the request to the reply's end."""
    begin_s: float
    """From the request to the first piece of a stream, or to the end of a reply in one piece."""
    idle_s: float
    """Between two pieces of a stream that has begun."""
    bytes_max: int


def new_client(*, connect_timeout_s: float, api_key: str | None, connections_max: int) -> httpx.AsyncClient:
    """Give a client that follows no redirect and takes no setting from the environment."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.AsyncClient(
        headers=headers,
        follow_redirects=False,
        trust_env=False,
        timeout=httpx.Timeout(None, connect=connect_timeout_s),
        limits=httpx.Limits(max_connections=connections_max),
    )


async def post_json(
    client: httpx.AsyncClient, url: str, body: Mapping[str, Any], *, deadline_s: float, reply_bytes_max: int
) -> dict[str, Any]:
    """Give the JSON object that the endpoint answers; fails as `post_for_json` does, also when it is no object."""
    value = await post_for_json(client, url, body, deadline_s=deadline_s, reply_bytes_max=reply_bytes_max)
    if not isinstance(value, dict):
        raise ModelReplyInvalid("the reply is not a JSON object")
    return value


async def post_for_json(
    client: httpx.AsyncClient, url: str, body: Mapping[str, Any], *, deadline_s: float, reply_bytes_max: int
) -> Any:
    """Give the JSON value that the endpoint answers, within one total deadline.

    Raises `ModelUnavailable` (429, 5xx, connection, deadline), `ModelRejected`
    (any other status) or `ModelReplyInvalid` (not JSON, or too big).
    """
    async with _typed_failures(), asyncio.timeout(deadline_s), client.stream("POST", url, json=body) as response:
        await _raise_for_status(response)
        return _json(await _read(response, reply_bytes_max))


async def post_for_stream(
    client: httpx.AsyncClient, url: str, body: Mapping[str, Any], limits: ReplyLimits
) -> dict[str, Any]:
    """Give the completion that the endpoint streams, put together; an endpoint may also answer in one piece.

    Fails as `post_for_json` does, and with `ModelReplyInvalid` when the stream
    ends before the reply is whole. A reply that is whole counts although its
    connection is lost or silent afterwards. The connection is closed when this
    is cancelled or fails.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    reply = StreamedReply()
    size_bytes = 0
    try:
        async with _typed_failures(), asyncio.timeout_at(start + min(limits.begin_s, limits.deadline_s)) as patience:
            async with client.stream("POST", url, json=body, headers={"accept": "text/event-stream"}) as response:
                await _raise_for_status(response)
                if "json" in response.headers.get("content-type", ""):
                    return _object(_json(await _read(response, limits.bytes_max)))
                async for piece in response.aiter_bytes():
                    size_bytes += len(piece)
                    if size_bytes > limits.bytes_max:
                        raise ModelReplyInvalid(f"the reply is larger than {limits.bytes_max} bytes")
                    reply.feed(piece)
                    if reply.done:
                        break
                    if reply.begun:
                        patience.reschedule(min(start + limits.deadline_s, loop.time() + limits.idle_s))
            reply.feed(b"", last=True)
    except ModelUnavailable:
        if not reply.finished:
            raise
    return reply.body()


@asynccontextmanager
async def _typed_failures() -> AsyncIterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ModelUnavailable("the model did not answer in time", retry_after_s=RETRY_AFTER_DEFAULT_S) from error
    except httpx.DecodingError as error:
        raise ModelReplyInvalid("the reply cannot be decoded") from error
    except httpx.RequestError as error:
        raise ModelUnavailable("the model cannot be reached", retry_after_s=RETRY_AFTER_DEFAULT_S) from error


async def _read(response: httpx.Response, bytes_max: int) -> bytes:
    raw = bytearray()
    async for piece in response.aiter_bytes():
        raw += piece
        if len(raw) > bytes_max:
            raise ModelReplyInvalid(f"the reply is larger than {bytes_max} bytes")
    return bytes(raw)


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelReplyInvalid("the reply is not JSON") from error


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelReplyInvalid("the reply is not a JSON object")
    return value


async def _raise_for_status(response: httpx.Response) -> None:
    if response.status_code == httpx.codes.OK:
        return
    raw = bytearray()
    async for piece in response.aiter_bytes():
        raw += piece
        if len(raw) > _ERROR_BYTES_MAX:
            break
    error = refusal(response.status_code, bytes(raw), response.headers.get("retry-after", ""))
    if error is not None:
        raise error
