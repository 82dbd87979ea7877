"""What is shown of an input: arguments that a skill's schema marks x-sensitive are masked, for everybody.

The upstream alone is given them (DESIGN §5). The pointers are those of the
skill as it was when the decision was made; they stand in the input itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from memoryos_core.canonical import JsonValue

MASK: Final = "[masked]"


def masked_input(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give an input document as people may see it.

    A resource whose name is a masked argument is masked, too.
    """
    pointers = document["action"]["sensitive_arguments"]
    if "args" not in document or not pointers:
        return dict(document)
    shown = {**document, "args": masked(document["args"], pointers)}
    resource = document.get("resource")
    if resource and resource["id"] in _hidden_texts(document["args"], pointers):
        shown["resource"] = {**resource, "id": MASK}
    return shown


def masked(value: JsonValue, pointers: Iterable[str]) -> JsonValue:
    """Give a copy with MASK at every pointer that leads somewhere; a part "*" is every element of a list."""
    for pointer in pointers:
        value = _masked(value, _parts(pointer))
    return value


def _masked(here: Any, parts: tuple[str, ...]) -> Any:
    if not parts:
        return MASK
    head, rest = parts[0], parts[1:]
    if isinstance(here, dict) and head in here:
        return {**here, head: _masked(here[head], rest)}
    if isinstance(here, list):
        return [_masked(item, rest) if _meant(head, at) else item for at, item in enumerate(here)]
    return here


def _hidden_texts(value: JsonValue, pointers: Iterable[str]) -> set[str]:
    """Give everything below the pointers as texts, as a resource would be named by it."""
    found: set[str] = set()
    for pointer in pointers:
        here: list[Any] = [value]
        for part in _parts(pointer):
            here = [inner for outer in here for inner in _step(outer, part)]
        for one in here:
            found.update(_texts(one))
    return found - {""}


def _step(outer: Any, part: str) -> Iterator[Any]:
    if isinstance(outer, dict) and part in outer:
        yield outer[part]
    elif isinstance(outer, list):
        yield from (item for at, item in enumerate(outer) if _meant(part, at))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    else:
        yield str(value)


def _meant(part: str, at: int) -> bool:
    return part in ("*", str(at))


def _parts(pointer: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
