"""An HTTP request made of a template and arguments, with nothing that leads elsewhere.

Host and port are the template's. A value in the path becomes one escaped
segment; one that a server could read as a step up, or that holds control
characters, is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from memoryos_core.canonical import JsonValue, canonical_json

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.skill import NO_BODY, WHOLE_BODY, RequestTemplate

URL_BYTES_MAX: Final = 8_000
"""Longer request lines are refused by common servers."""
ENDPOINT: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})\Z")
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_STEPS: Final = re.compile(r"[/\\]")


class CannotRender(ValueError):
    """An argument cannot stand where the template puts it; `pointer` names the argument."""

    def __init__(self, pointer: str, text: str) -> None:
        self.pointer = pointer
        super().__init__(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedRequest:
    """A request ready to be sent."""

    method: str
    endpoint: str
    url: str
    body: bytes | None


def places(path: str) -> list[str]:
    """Give the pointers of the arguments in a path template; ValueError where braces do not pair."""
    rest = _PLACE.sub("", path)
    if "{" in rest or "}" in rest:
        raise ValueError("braces in the path do not pair")
    if any(segment in (".", "..") for segment in rest.split("/")):
        raise ValueError("the path has a . or .. segment")
    found = ["/" + name for name in _PLACE.findall(path)]
    if "/" in found:
        raise ValueError("an empty place in the path")
    return found


def render(template: RequestTemplate, arguments: dict[str, Any]) -> RenderedRequest:
    """Give the request for these arguments, or raise CannotRender."""
    path = _PLACE.sub(lambda match: _segment("/" + match[1], arguments), template.path)
    pairs = [
        f"{quote(name, safe='')}={quote(text, safe='')}"
        for name, pointer in template.query.items()
        for text in _query_values(pointer, arguments)
    ]
    url = f"{template.scheme}://{template.endpoint}{path}" + ("?" + "&".join(pairs) if pairs else "")
    if len(url) > URL_BYTES_MAX:
        raise CannotRender("", f"arguments that make a URL of at most {URL_BYTES_MAX} bytes")
    return RenderedRequest(method=template.method, endpoint=template.endpoint, url=url, body=_body(template, arguments))


def _segment(pointer: str, arguments: JsonValue) -> str:
    value = pointers.find(arguments, pointer)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise CannotRender(pointer, "a string or an integer, for it stands in the path")
    text = str(value)
    if not text or any(step.strip() in ("", ".", "..") for step in _STEPS.split(text)):
        raise CannotRender(pointer, "no empty, . or .. steps, for it stands in the path")
    if any(unicodedata.category(c) == "Cc" for c in text):
        raise CannotRender(pointer, "no control characters, for it stands in the path")
    return quote(text, safe="")


def _query_values(pointer: str, arguments: JsonValue) -> list[str]:
    value = pointers.find(arguments, pointer)
    if value is pointers.MISSING or value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, dict | list) for item in values):
        raise CannotRender(pointer, "a plain value or a list of them, for it stands in the query")
    return [_plain(item) for item in values if item is not None]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def _body(template: RequestTemplate, arguments: dict[str, Any]) -> bytes | None:
    if template.body == NO_BODY:
        return None
    if template.body == WHOLE_BODY:
        return canonical_json(arguments)
    assert isinstance(template.body, Mapping)
    found = {name: pointers.find(arguments, pointer) for name, pointer in template.body.items()}
    picked: dict[str, Any] = {name: value for name, value in found.items() if value is not pointers.MISSING}
    return canonical_json(picked)
