"""The edge at which a request gets its credentials: after every decision, and seen by nobody but the upstream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from memoryos_grpc.caller import outgoing_subject_token

from memoryos_toolgateway.adapters.http_sender import Answer, Contact, HttpSender, Limits
from memoryos_toolgateway.adapters.secrets import SecretMissing, Secrets
from memoryos_toolgateway.adapters.token_exchange import ExchangeFailed, ExchangeRefused, TokenExchanges
from memoryos_toolgateway.domain.http_template import render, secret_names
from memoryos_toolgateway.domain.skill import Exchange, RequestTemplate

_UNAUTHORISED: Final = 401
_log = logging.getLogger(__name__)


class NoCredentials(Exception):
    """The request was not sent, for lack of a secret or of a token. `by_user`: this user gets none."""

    def __init__(self, *, by_user: bool) -> None:
        super().__init__()
        self.by_user = by_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What came back, and every secret that went out with the request, so that an echo of it can be masked."""

    answer: Answer
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEdge:
    """Sends requests of skills with the credentials that their templates name."""

    sender: HttpSender
    secrets: Secrets
    exchanges: TokenExchanges

    async def send(
        self,
        template: RequestTemplate,
        arguments: dict[str, Any],
        *,
        timeout_s: float,
        exchange: Exchange | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Sent:
        """Send one request within `timeout_s` in all; raises CannotRender or NoCredentials, and then none was sent."""
        until = asyncio.get_running_loop().time() + timeout_s
        try:
            secrets = self.secrets.read(secret_names(template))
        except SecretMissing as missing:
            _log.error("request not sent: %s", missing)
            raise NoCredentials(by_user=False) from None
        request = render(template, arguments, secrets)
        subject_token = "" if exchange is None else _subject_token()
        more = dict(headers or {})
        if exchange is not None:
            token = await self._token(exchange, subject_token, timeout_s)
            more["authorization"] = f"Bearer {token}"
        limits = Limits(
            timeout_s=max(until - asyncio.get_running_loop().time(), 0),
            bytes_max=template.response_bytes_max,
            redirects=template.redirects,
        )
        answer = await self.sender.send(replace(request, headers={**request.headers, **more}), limits)
        if exchange is not None and answer.contact is Contact.ANSWERED and answer.status == _UNAUTHORISED:
            self.exchanges.forget(exchange, subject_token)
        sent_secrets = [*secrets.values(), *((token,) if exchange is not None else ())]
        return Sent(answer=answer, secrets=tuple({*sent_secrets, *(quote(text, safe="") for text in sent_secrets)}))

    async def _token(self, exchange: Exchange, subject_token: str, timeout_s: float) -> str:
        try:
            return await self.exchanges.token(exchange, subject_token, timeout_s)
        except ExchangeRefused:
            raise NoCredentials(by_user=True) from None
        except ExchangeFailed as failed:
            _log.warning("request not sent: %s", failed)
            raise NoCredentials(by_user=False) from None


def _subject_token() -> str:
    """The token of who makes the call at hand: nothing else stands for the user."""
    token = outgoing_subject_token()
    if not token:
        raise NoCredentials(by_user=True)
    return token
