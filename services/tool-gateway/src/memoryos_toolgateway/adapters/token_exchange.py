"""The caller's token for one that an upstream takes: OAuth 2.0 Token Exchange (RFC 8693).

A token that was given is kept until shortly before it ends, for the very
subject token that it was given for: a narrower token of the same user never
gets what a wider one got.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from memoryos_core.canonical import parse_json
from memoryos_core.clock import Clock
from memoryos_core.config import ConfigError
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.adapters.http_sender import Answer, Contact, HttpSender, Limits
from memoryos_toolgateway.config import TokenExchange
from memoryos_toolgateway.domain.http_template import FORM_TYPE, RenderedRequest
from memoryos_toolgateway.domain.skill import Exchange

TOKENS_MAX: Final = 10_000
ANSWER_BYTES_MAX: Final = 65_536
MARGIN_S: Final = 10.0
"""A token that ends sooner is not used: the request must arrive before it does."""
LIFETIME_S_MAX: Final = 3_600.0
_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 -- a name of RFC 8693
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}\Z")


class ExchangeRefused(Exception):
    """The authorisation server does not let this user there."""


class ExchangeFailed(Exception):
    """No token can be had at the moment, or never by this configuration; nothing was sent to the upstream."""


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str
    until_s: float


class TokenExchanges:
    """Gives tokens for upstreams."""

    def __init__(self, sender: HttpSender, servers: Mapping[str, TokenExchange], clock: Clock) -> None:
        self._sender = sender
        self._servers = servers
        self._clock = clock
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._locks: dict[bytes, asyncio.Lock] = {}

    def names(self) -> frozenset[str]:
        """Give the names that the configuration knows."""
        return frozenset(self._servers)

    async def token(self, exchange: Exchange, subject_token: str, timeout_s: float) -> str:
        """Give a token of this user for the upstream; raises ExchangeRefused or ExchangeFailed.

        Callers that want the same token at once are served by one exchange.
        """
        key = _key(exchange, subject_token)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(timeout_s), lock:
                kept = self._kept.get(key)
                if kept is not None and kept.until_s > self._clock.monotonic():
                    self._kept.move_to_end(key)
                    return kept.token
                return await self._exchange(key, exchange, subject_token, timeout_s)
        except TimeoutError:
            raise ExchangeFailed("the authorisation server did not answer in time") from None
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    def forget(self, exchange: Exchange, subject_token: str) -> None:
        """Drop a token that its upstream does not take any more."""
        self._kept.pop(_key(exchange, subject_token), None)

    async def _exchange(self, key: bytes, exchange: Exchange, subject_token: str, timeout_s: float) -> str:
        server = self._servers.get(exchange.server)
        if server is None:
            raise ExchangeFailed(f"{exchange.server} is not in the configuration tool-gateway.token_exchanges")
        answer = await self._sender.send(
            _request(server, exchange, subject_token), Limits(timeout_s=timeout_s, bytes_max=ANSWER_BYTES_MAX)
        )
        token, lifetime_s = _read(answer)
        if lifetime_s > MARGIN_S:
            self._kept[key] = _Kept(token, self._clock.monotonic() + min(lifetime_s, LIFETIME_S_MAX) - MARGIN_S)
            while len(self._kept) > TOKENS_MAX:
                self._kept.popitem(last=False)
        return token


def _key(exchange: Exchange, subject_token: str) -> bytes:
    parts = (exchange.server, exchange.audience, exchange.scope, exchange.resource, subject_token)
    return hashlib.sha256("\0".join(parts).encode()).digest()


def _request(server: TokenExchange, exchange: Exchange, subject_token: str) -> RenderedRequest:
    form = {
        "grant_type": _GRANT,
        "subject_token": subject_token,
        "subject_token_type": _ACCESS_TOKEN,
        "requested_token_type": _ACCESS_TOKEN,
        "audience": exchange.audience,
        "scope": exchange.scope,
        "resource": exchange.resource,
    }
    try:
        secret = "" if server.client_secret_file is None else server.client_secret_file.read()
    except (ConfigError, UnicodeDecodeError):
        raise ExchangeFailed("the client secret cannot be read") from None
    headers = {"content-type": FORM_TYPE}
    if secret:
        pair = f"{quote(server.client_id, safe='')}:{quote(secret, safe='')}"  # RFC 6749, 2.3.1
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    else:
        form["client_id"] = server.client_id
    return RenderedRequest(
        method="POST",
        scheme=server.scheme,
        endpoint=server.endpoint,
        target=server.path,
        headers=headers,
        body=urlencode({name: value for name, value in form.items() if value}).encode(),
    )


def _read(answer: Answer) -> tuple[str, float]:
    """Give token and lifetime in seconds (0: not said)."""
    if answer.contact is not Contact.ANSWERED or answer.status >= 500 or not answer.complete:
        raise ExchangeFailed("the authorisation server gives no answer")
    try:
        found: Any = parse_json(answer.body, max_bytes=ANSWER_BYTES_MAX)
    except InvalidField:
        raise ExchangeFailed("the authorisation server does not answer as RFC 8693 says") from None
    if not isinstance(found, dict):
        raise ExchangeFailed("the authorisation server does not answer as RFC 8693 says")
    if answer.status >= 400:
        if answer.status == 401 or found.get("error") in ("invalid_client", "unauthorized_client"):
            raise ExchangeFailed("the authorisation server does not take our client")
        raise ExchangeRefused
    token, kind, lifetime_s = found.get("access_token"), found.get("token_type"), found.get("expires_in", 0)
    bearer = isinstance(kind, str) and kind.lower() == "bearer"
    number = isinstance(lifetime_s, int | float) and not isinstance(lifetime_s, bool)
    if answer.status != 200 or not bearer or not isinstance(token, str) or not _TOKEN.match(token) or not number:
        raise ExchangeFailed("the authorisation server does not answer as RFC 8693 says")
    return token, float(lifetime_s)
