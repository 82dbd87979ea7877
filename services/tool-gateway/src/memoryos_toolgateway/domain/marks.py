"""Where the parameters are marked x-sensitive or x-recipient, as pointers into arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.schema_keywords import IN_PLACE, subschemas

_ELEMENTS = ("items", "prefixItems", "contains", "unevaluatedItems")


class MarkOutOfReach(ValueError):
    """A mark stands where no pointer leads, so what it marks could not be found in arguments."""

    def __init__(self, pointer: str, text: str) -> None:
        self.pointer = pointer
        super().__init__(text)


def marked(schema: Any, mark: str) -> tuple[str, ...]:
    """Give pointers to the values that are marked, sorted; "*" is every element of a list.

    Raises MarkOutOfReach for a mark on the whole, on parameters without a name
    of their own, or within a type that holds itself.
    """
    reached: dict[int, None] = {}
    found = sorted({pointers.join(parts) for parts in _reached(schema, schema, (), mark, reached, ())})
    if "" in found:
        raise MarkOutOfReach("", f"{mark} stands on the whole; mark the parameters that are meant")
    for where, inner in _everything(schema, ()):
        if inner.get(mark) and id(inner) not in reached:
            text = f"{mark} stands where no pointer leads: mark a named parameter, or the elements of a list"
            raise MarkOutOfReach(pointers.join(where), text)
    return tuple(found)


def _reached(
    root: Any, schema: Any, parts: tuple[str, ...], mark: str, reached: dict[int, None], through: tuple[int, ...]
) -> Iterator[tuple[str, ...]]:
    if not isinstance(schema, dict):
        return
    if schema.get(mark):
        reached[id(schema)] = None
        yield parts
    for keyword, more, inner in subschemas(schema):
        if keyword == "properties":
            yield from _reached(root, inner, (*parts, more[1]), mark, reached, through)
        elif keyword in _ELEMENTS:
            yield from _reached(root, inner, (*parts, "*"), mark, reached, through)
        elif keyword in IN_PLACE:
            yield from _reached(root, inner, parts, mark, reached, through)
    target = _target(root, schema.get("$ref"))
    if target is None:
        return
    if id(target) in through:
        if any(inner.get(mark) for _, inner in _everything(target, ())):
            raise MarkOutOfReach("", f"{mark} stands in a type that holds itself: no list of pointers leads everywhere")
        return
    yield from _reached(root, target, parts, mark, reached, (*through, id(target)))


def _target(root: Any, reference: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    if reference in ("#", ""):
        return root
    here = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list):
            here = here[int(name)] if name.isdecimal() and int(name) < len(here) else None
        else:
            here = here.get(name) if isinstance(here, dict) else None
    return here


def _everything(schema: Any, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if isinstance(schema, dict):
        yield parts, schema
        for _, more, inner in subschemas(schema):
            yield from _everything(inner, (*parts, *more))
