"""Tells people something by a webhook: a plain one, or the robot of a work group."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.config import ConfigError
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.adapters.http_sender import Contact, HttpSender, Limits
from memoryos_toolgateway.config import NotifyChannel
from memoryos_toolgateway.domain.http_template import JSON_TYPE, RenderedRequest

NOTIFY_S_MAX: Final = 5.0
TEXT_LENGTH_MAX: Final = 2_000
_ANSWER_BYTES_MAX: Final = 16_384
_URL: Final = re.compile(r"(https?)://([^/?#\s@\\]+)(/[\x21-\x22\x24-\x5b\x5d-\x7e]*)?\Z")
_PORTS: Final = {"http": 80, "https": 443}
_log = logging.getLogger(__name__)


class WebhookNotifier:
    """ports.Notifier over HTTP, once: a notice is no effect that anything rests on."""

    def __init__(self, sender: HttpSender, channels: Mapping[str, NotifyChannel]) -> None:
        self._sender = sender
        self._channels = channels

    def knows(self, channel: str) -> bool:
        """Tell whether the configuration has this channel."""
        return channel in self._channels

    async def notify(self, channel: str, text: str) -> bool:
        """Send `text` to a channel; tells whether it was taken. Raises nothing but for cancellation."""
        found = self._channels.get(channel)
        request = None if found is None else _request(found, text[:TEXT_LENGTH_MAX])
        if request is None:
            _log.error("nobody was notified: the channel is unknown or its URL cannot be used")
            return False
        answer = await self._sender.send(request, Limits(timeout_s=NOTIFY_S_MAX, bytes_max=_ANSWER_BYTES_MAX))
        taken = answer.contact is Contact.ANSWERED and 200 <= answer.status < 300 and _taken(answer.body)
        if not taken:
            _log.warning("nobody was notified", extra={"contact": answer.contact, "status": answer.status})
        return taken


def _request(channel: NotifyChannel, text: str) -> RenderedRequest | None:
    try:
        match = _URL.match(channel.url_file.read())
    except (ConfigError, UnicodeDecodeError):
        return None
    if match is None:
        return None
    scheme, host, target = match[1], match[2], match[3] or "/"
    has_port = re.search(r":[0-9]+\Z", host) is not None
    return RenderedRequest(
        method="POST",
        scheme=scheme,
        endpoint=host if has_port else f"{host}:{_PORTS[scheme]}",
        target=target,
        headers={"content-type": JSON_TYPE},
        body=canonical_json(_message(channel.robot, text)),
    )


def _message(robot: str, text: str) -> JsonValue:
    """Give the message in the form of the robot (their public documentation)."""
    if robot in ("wecom", "dingtalk"):
        return {"msgtype": "text", "text": {"content": text}}
    if robot == "feishu":
        return {"msg_type": "text", "content": {"text": text}}
    return {"text": text}


def _taken(body: bytes) -> bool:
    """Tell whether an answer of success is one: robots refuse with status 200 and a number."""
    try:
        found = parse_json(body, max_bytes=_ANSWER_BYTES_MAX)
    except InvalidField:
        return True
    return not isinstance(found, dict) or not (found.get("errcode") or found.get("code"))
