"""Which parameter schemas may be registered.

A schema passes when everything in it is understood, asserted and bounded:
known keywords and formats only, references to nothing that would have to be fetched, patterns
that run in linear time, names that can be told apart, limits on size and depth.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from memoryos_core.canonical import canonical_json

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.formats import FORMATS, NUMBER_FORMATS
from memoryos_toolgateway.domain.names import check_parameter_name
from memoryos_toolgateway.domain.patterns import PatternRefused, compile_pattern
from memoryos_toolgateway.domain.schema_keywords import ANNOTATIONS, IN_PLACE, KEYWORDS, subschemas
from memoryos_toolgateway.domain.schema_references import DIALECT, Resolver, every_schema, inside, root_resolver, target

SCHEMA_BYTES_MAX: Final = 65_536
SCHEMA_DEPTH_MAX: Final = 32
SUBSCHEMAS_MAX: Final = 2_000
ENUM_MAX: Final = 1_000
_MARKS: Final = ("x-sensitive", "x-recipient")


class SchemaRefused(ValueError):
    """The schema may not be registered; `pointer` says where the reason is."""

    def __init__(self, pointer: str, text: str) -> None:
        self.pointer = pointer
        super().__init__(text)


def lint_schema(schema: Any, documents: Mapping[str, Any] | None = None) -> None:
    """Return when the schema may be registered, else raise SchemaRefused.

    `documents` by address are the only ones beside the schema and the
    meta-schema that it may refer to.
    """
    if not isinstance(schema, dict | bool):
        raise SchemaRefused("", "a schema is an object or a boolean")
    if len(canonical_json(schema)) > SCHEMA_BYTES_MAX:
        raise SchemaRefused("", f"the schema has more than {SCHEMA_BYTES_MAX} bytes")
    _check_bounds(schema)
    error = next(iter(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)), None)
    if error is not None:
        raise SchemaRefused(pointers.join(error.absolute_path), f"breaks the rule {error.validator} of JSON Schema")
    documents = documents or {}
    walked = list(_walk(schema, root_resolver(schema, documents)))
    known = {id(inner) for _, inner, _ in walked} | {id(inner) for inner in every_schema(documents)}
    edges: dict[int, list[int]] = {}
    places = {id(inner): pointers.join(parts) for parts, inner, _ in walked}
    for parts, inner, resolver in walked:
        if isinstance(inner, dict):
            pointer = pointers.join(parts)
            _check_rules(pointer, inner)
            edges[id(inner)] = _in_place(pointer, inner, resolver, known)
    _check_cycles(edges, places)


def _check_bounds(schema: Any) -> None:
    count = 0
    pending: list[tuple[tuple[str, ...], Any, int]] = [((), schema, 0)]
    while pending:
        parts, here, depth = pending.pop()
        if depth > SCHEMA_DEPTH_MAX:
            raise SchemaRefused(pointers.join(parts), f"nested deeper than {SCHEMA_DEPTH_MAX}")
        count += 1
        if count > SUBSCHEMAS_MAX:
            raise SchemaRefused("", f"more than {SUBSCHEMAS_MAX} subschemas")
        if isinstance(here, dict):
            _check_keywords(parts, here)
            pending.extend((parts + more, inner, depth + 1) for _, more, inner in subschemas(here))


def _walk(schema: Any, resolver: Resolver) -> Iterator[tuple[tuple[str, ...], Any, Resolver]]:
    pending: list[tuple[tuple[str, ...], Any, Resolver]] = [((), schema, resolver)]
    while pending:
        parts, here, around = pending.pop()
        yield parts, here, around
        if isinstance(here, dict):
            pending.extend((parts + more, inner, inside(around, inner)) for _, more, inner in subschemas(here))


def _check_keywords(parts: tuple[str, ...], schema: dict[str, Any]) -> None:
    pointer = pointers.join(parts)
    for keyword, value in schema.items():
        if keyword == "$schema" and ((parts and "$id" not in schema) or value != DIALECT):
            raise SchemaRefused(pointer, f"$schema is {DIALECT}, at the top only; draft-04 to draft-07 are translated")
        if keyword in _MARKS and not isinstance(value, bool):
            raise SchemaRefused(f"{pointer}/{keyword}", "is true or false")
        if keyword not in KEYWORDS and not _is_annotation(keyword):
            close = difflib.get_close_matches(keyword, KEYWORDS, n=1)
            meant = f"; is {close[0]!r} meant?" if close else ": remove it, or name it x-…"
            raise SchemaRefused(pointer, f"the keyword {keyword!r} is not one that is checked{meant}")


def _is_annotation(keyword: str) -> bool:
    # A misspelt x-sensitive would mask nothing, and nobody would see that.
    return keyword in ANNOTATIONS or (
        keyword.startswith("x-") and not difflib.get_close_matches(keyword, _MARKS, 1, 0.75)
    )


def _check_rules(pointer: str, schema: dict[str, Any]) -> None:
    declared = schema.get("format")
    if declared is not None and declared not in FORMATS and declared not in NUMBER_FORMATS:
        raise SchemaRefused(
            pointer, f"the format {declared!r} is not one that is checked: use pattern, or leave it out"
        )
    for text in [*([schema["pattern"]] if "pattern" in schema else []), *schema.get("patternProperties", {})]:
        try:
            compile_pattern(text)
        except PatternRefused as error:
            raise SchemaRefused(pointer, str(error)) from None
    for name in [*schema.get("properties", {}), *schema.get("required", [])]:
        wrong = check_parameter_name(name)
        if wrong:
            raise SchemaRefused(pointer, wrong)
    if len(schema.get("enum", [])) > ENUM_MAX:
        raise SchemaRefused(pointer, f"an enum has more than {ENUM_MAX} values: use a rule with a file of values")


def _in_place(pointer: str, schema: dict[str, Any], resolver: Resolver, known: Collection[int]) -> list[int]:
    """Give the schemas that apply to the same value; raises SchemaRefused for a reference that leads nowhere."""
    found = [id(inner) for keyword, _, inner in subschemas(schema) if keyword in IN_PLACE and isinstance(inner, dict)]
    for keyword in ("$ref", "$dynamicRef"):
        if keyword not in schema:
            continue
        try:
            leads_to = target(resolver, schema[keyword])
        except LookupError:
            raise SchemaRefused(pointer, f"{keyword} leads to no schema inside this document") from None
        if not isinstance(leads_to, bool) and id(leads_to) not in known:
            raise SchemaRefused(pointer, f"{keyword} leads to what is no schema inside this document")
        found.append(id(leads_to))
    return found


def _check_cycles(edges: Mapping[int, list[int]], places: Mapping[int, str]) -> None:
    """Refuse schemas that lead back to themselves on the same value: no validator ends on them."""
    state: dict[int, bool] = {}  # False while on the way, True when done
    for start in edges:
        pending = [(start, False)]
        while pending:
            here, leaving = pending.pop()
            if leaving:
                state[here] = True
                continue
            if here in state:
                if not state[here]:
                    raise SchemaRefused(places.get(here, ""), "$ref leads back to itself")
                continue
            state[here] = False
            pending.append((here, True))
            pending.extend((to, False) for to in edges.get(here, ()))
