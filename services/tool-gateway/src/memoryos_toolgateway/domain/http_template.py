"""An HTTP request made of a template and arguments, with nothing that leads elsewhere.

Host and port are the template's. A value in the path becomes one escaped
segment; one that a server could read as a step up, or that holds control
characters, is refused. A value in a header is printable ASCII. Secrets stand
in headers and the query only, and come from the template, never from an
argument: what an argument says is not looked through for places.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from memoryos_core.canonical import JsonValue, canonical_json

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.skill import NO_BODY, WHOLE_BODY, RequestTemplate

URL_BYTES_MAX: Final = 8_000
"""Longer request lines are refused by common servers."""
HEADER_LENGTH_MAX: Final = 2_000
JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
ARGUMENT: Final = "$arg"
"""{"$arg": "/pointer"} in a body template stands for the argument, of whatever type it is."""
TEXT: Final = "$text"
"""{"$text": "… {argument} …"} in a body template is a string with arguments in it."""
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_SECRET: Final = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
_TOKEN: Final = re.compile(rf"{_SECRET.pattern}|{_PLACE.pattern}")
_STEPS: Final = re.compile(r"[/\\]")
_PRINTABLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")
_LITERAL: Final = re.compile(r"[\x20-\x7e]*\Z")


class CannotRender(ValueError):
    """An argument cannot stand where the template puts it; `pointer` names the argument."""

    def __init__(self, pointer: str, text: str) -> None:
        self.pointer = pointer
        super().__init__(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedRequest:
    """A request ready to be sent. `target` is path and query."""

    method: str
    scheme: str
    endpoint: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    @property
    def url(self) -> str:
        """The whole URL, which holds arguments and may hold secrets."""
        return f"{self.scheme}://{self.endpoint}{self.target}"


def places(path: str) -> list[str]:
    """Give the pointers of the arguments in a path template; ValueError where braces do not pair."""
    if any(segment in (".", "..") for segment in path.split("/")):
        raise ValueError("the path has a . or .. segment")
    return text_places(path)


def text_places(text: str) -> list[str]:
    """Give the pointers of the arguments in any template; ValueError where braces do not pair or are empty."""
    rest = _TOKEN.sub("", text)
    if "{" in rest or "}" in rest:
        raise ValueError("braces do not pair")
    found = ["/" + match[2] for match in _TOKEN.finditer(text) if match[1] is None]
    if "/" in found:
        raise ValueError("an empty place")
    return found


def secrets_of(text: str) -> list[str]:
    """Give the names of the secrets in a template."""
    return _SECRET.findall(text)


def header_places(text: str) -> list[str]:
    """Give the pointers of the arguments in a header template; ValueError for one that no header can hold."""
    if not _LITERAL.match(text):
        raise ValueError("a header is printable ASCII")
    return text_places(text)


def secret_names(template: RequestTemplate) -> frozenset[str]:
    """Give the names of all secrets that a request needs."""
    texts = [*template.headers.values(), *template.query.values()]
    return frozenset(name for text in texts for name in secrets_of(text))


def body_places(template: JsonValue) -> Iterator[str]:
    """Give the pointers of the arguments in a body template; ValueError for a place that is none."""
    if isinstance(template, dict):
        special = template.keys() & {ARGUMENT, TEXT}
        if not special:
            for inner in template.values():
                yield from body_places(inner)
            return
        ((name, value),) = template.items() if len(template) == 1 else (("", None),)
        if not isinstance(value, str) or secrets_of(value) or (name == ARGUMENT and not value.startswith("/")):
            raise ValueError(f'a place is {{"{ARGUMENT}": "/pointer"}} or {{"{TEXT}": "text with {{argument}}"}}')
        yield from [value] if name == ARGUMENT else text_places(value)
    elif isinstance(template, list):
        for inner in template:
            yield from body_places(inner)


def render(
    template: RequestTemplate, arguments: dict[str, Any], secrets: Mapping[str, str] | None = None
) -> RenderedRequest:
    """Give the request for these arguments, or raise CannotRender.

    Without `secrets` their places are filled with a dash: to see whether the
    arguments fit. A header or a query field of an absent argument is left out.
    """
    known = dict.fromkeys(secret_names(template), "-") if secrets is None else secrets
    path = _PLACE.sub(lambda match: _segment("/" + match[1], arguments), template.path)
    pairs = [(name, text) for name, source in template.query.items() for text in _query(source, arguments, known)]
    target = path + ("?" + _encoded(pairs) if pairs else "")
    if len(target) + len(template.endpoint) > URL_BYTES_MAX:
        raise CannotRender("", f"arguments that make a URL of at most {URL_BYTES_MAX} bytes")
    headers = {name: _header(text, arguments, known) for name, text in template.headers.items()}
    body = _body(template, arguments)
    if body is not None:
        headers["content-type"] = FORM_TYPE if template.form else JSON_TYPE
    return RenderedRequest(
        method=template.method,
        scheme=template.scheme,
        endpoint=template.endpoint,
        target=target,
        headers={name: text for name, text in headers.items() if text is not None},
        body=body,
    )


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


def _query(source: str, arguments: JsonValue, secrets: Mapping[str, str]) -> list[str]:
    if not source.startswith("/"):
        return [_SECRET.sub(lambda match: secrets[match[1]], source)]
    return _plain_values(source, arguments, "the query")


def _plain_values(pointer: str, arguments: JsonValue, where: str) -> list[str]:
    value = pointers.find(arguments, pointer)
    if value is pointers.MISSING or value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, dict | list) for item in values):
        raise CannotRender(pointer, f"a plain value or a list of them, for it stands in {where}")
    return [_plain(item) for item in values if item is not None]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def _encoded(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in pairs)


def _header(text: str, arguments: JsonValue, secrets: Mapping[str, str]) -> str | None:
    """Give the header's value; None when an argument in it is absent."""

    def one(pointer: str) -> str:
        value = pointers.find(arguments, pointer)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise CannotRender(pointer, "a string or an integer, for it stands in a header")
        if not _PRINTABLE.match(str(value)) or len(str(value)) > HEADER_LENGTH_MAX:
            raise CannotRender(pointer, f"at most {HEADER_LENGTH_MAX} printable ASCII characters in a header")
        return str(value)

    if any(pointers.find(arguments, pointer) is pointers.MISSING for pointer in text_places(text)):
        return None
    return _TOKEN.sub(lambda match: secrets[match[1]] if match[1] is not None else one("/" + match[2]), text)


def _body(template: RequestTemplate, arguments: dict[str, Any]) -> bytes | None:
    if template.body_template is not None:
        filled = _filled(template.body_template, arguments)
        return canonical_json(None if filled is pointers.MISSING else filled)
    if template.body == NO_BODY:
        return None
    if template.body == WHOLE_BODY:
        mapped: Mapping[str, str] = {name: pointers.join((name,)) for name in arguments}
    else:
        mapped = template.body
    if template.form:
        pairs = [(name, text) for name, at in mapped.items() for text in _plain_values(at, arguments, "a form")]
        return _encoded(pairs).encode()
    found = {name: pointers.find(arguments, pointer) for name, pointer in mapped.items()}
    picked: dict[str, Any] = {name: value for name, value in found.items() if value is not pointers.MISSING}
    return canonical_json(picked)


def _filled(template: Any, arguments: dict[str, Any]) -> Any:
    """Give a body template with its places filled; MISSING for a place whose argument is absent."""
    if isinstance(template, list):
        return _present(_filled(inner, arguments) for inner in template)
    if not isinstance(template, dict):
        return template
    if template.keys() == {ARGUMENT}:
        return pointers.find(arguments, template[ARGUMENT])
    if template.keys() == {TEXT}:
        return _text(template[TEXT], lambda pointer: pointers.find(arguments, pointer))
    filled = {name: _filled(inner, arguments) for name, inner in template.items()}
    return {name: value for name, value in filled.items() if value is not pointers.MISSING}


def _present(values: Iterator[Any]) -> list[Any]:
    return [value for value in values if value is not pointers.MISSING]


def _text(text: str, find: Callable[[str], object]) -> str:
    """Give a text with its arguments; an absent one leaves nothing."""

    def one(match: re.Match[str]) -> str:
        value = find("/" + match[1])
        return "" if value is pointers.MISSING or value is None else _plain(value)

    return _PLACE.sub(one, text)
