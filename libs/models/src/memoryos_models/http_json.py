"""One bounded JSON POST to a model endpoint, with its failures as typed errors."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

import httpx

from memoryos_models.errors import ModelRejected, ModelReplyInvalid, ModelUnavailable

_RETRY_AFTER_DEFAULT_S = 1.0
_RETRY_AFTER_MAX_S = 300.0


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
    try:
        async with asyncio.timeout(deadline_s), client.stream("POST", url, json=body) as response:
            _raise_for_status(response)
            raw = bytearray()
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > reply_bytes_max:
                    raise ModelReplyInvalid(f"the reply is larger than {reply_bytes_max} bytes")
    except TimeoutError as error:
        raise ModelUnavailable("the model did not answer in time", retry_after_s=_RETRY_AFTER_DEFAULT_S) from error
    except httpx.DecodingError as error:
        raise ModelReplyInvalid("the reply cannot be decoded") from error
    except httpx.RequestError as error:
        raise ModelUnavailable("the model cannot be reached", retry_after_s=_RETRY_AFTER_DEFAULT_S) from error
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelReplyInvalid("the reply is not JSON") from error


def _raise_for_status(response: httpx.Response) -> None:
    status = response.status_code
    if status == httpx.codes.OK:
        return
    metadata = {"http_status": str(status)}
    if status in (408, 409, 425, 429) or status >= 500:
        raise ModelUnavailable(
            f"the model answered HTTP {status}", metadata=metadata, retry_after_s=_retry_after_s(response)
        )
    raise ModelRejected(f"the model answered HTTP {status}", metadata=metadata)


def _retry_after_s(response: httpx.Response) -> float:
    """Give the seconds asked for; the date form, nonsense and endless waits become a bounded default."""
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return _RETRY_AFTER_DEFAULT_S
    if not math.isfinite(seconds) or seconds < 0:
        return _RETRY_AFTER_DEFAULT_S
    return min(seconds, _RETRY_AFTER_MAX_S)
