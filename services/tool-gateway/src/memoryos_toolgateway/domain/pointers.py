"""JSON pointers (RFC 6901) into arguments and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from memoryos_core.canonical import JsonValue

MISSING: Final = object()
"""What a pointer gives that leads nowhere; null is a value."""


def split(pointer: str) -> tuple[str, ...]:
    """Give the unescaped parts of a pointer; ValueError where it is none."""
    if pointer == "":
        return ()
    if not pointer.startswith("/"):
        raise ValueError("a JSON pointer starts with /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def join(parts: object) -> str:
    """Give the pointer of parts (keys and indexes)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)  # type: ignore[attr-defined]


def find(value: JsonValue, pointer: str) -> object:
    """Give what the pointer leads to, or MISSING."""
    here: object = value
    for part in split(pointer):
        if isinstance(here, dict) and part in here:
            here = here[part]
        elif isinstance(here, list) and part.isdecimal() and part.isascii() and int(part) < len(here):
            here = here[int(part)]
        else:
            return MISSING
    return here


def find_all(value: JsonValue, pointer: str) -> Iterator[object]:
    """Give everything that the pointer leads to, where a part "*" is every element of a list."""
    here: list[object] = [value]
    for part in split(pointer):
        here = [inner for outer in here for inner in _step(outer, part)]
    yield from here


def _step(outer: object, part: str) -> Iterator[object]:
    if isinstance(outer, dict) and part in outer:
        yield outer[part]
    elif isinstance(outer, list) and part == "*":
        yield from outer
    elif isinstance(outer, list) and part.isdecimal() and part.isascii() and int(part) < len(outer):
        yield outer[int(part)]


def replaced(value: JsonValue, pointer: str, new: JsonValue) -> JsonValue:
    """Give a copy of `value` with `new` at the pointer; ValueError where its parent does not exist."""
    changed: JsonValue = _replaced(value, split(pointer), new)
    return changed


def _replaced(here: Any, parts: tuple[str, ...], new: JsonValue) -> Any:
    if not parts:
        return new
    head, rest = parts[0], parts[1:]
    if isinstance(here, dict) and (head in here or not rest):
        return {**here, head: _replaced(here.get(head), rest, new)}
    if isinstance(here, list) and _index(head) < len(here):
        return [_replaced(item, rest, new) if at == _index(head) else item for at, item in enumerate(here)]
    raise ValueError("the pointer leads nowhere")


def _index(part: str) -> float:
    return int(part) if part.isdecimal() and part.isascii() and len(part) < 10 else float("inf")
