"""Which parameter schemas may be registered.

A schema passes when everything in it is understood, asserted and bounded:
known keywords and formats only, references only inside the document, patterns
that run in linear time, names that can be told apart, limits on size and depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from memoryos_core.canonical import canonical_json

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.formats import FORMATS
from memoryos_toolgateway.domain.names import check_parameter_name
from memoryos_toolgateway.domain.patterns import PatternRefused, compile_pattern
from memoryos_toolgateway.domain.schema_keywords import IN_PLACE, KEYWORDS, subschemas

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_BYTES_MAX: Final = 65_536
SCHEMA_DEPTH_MAX: Final = 32
SUBSCHEMAS_MAX: Final = 2_000
ENUM_MAX: Final = 1_000


class SchemaRefused(ValueError):
    """The schema may not be registered; `pointer` says where the reason is."""

    def __init__(self, pointer: str, text: str) -> None:
        self.pointer = pointer
        super().__init__(text)


def lint_schema(schema: Any) -> None:
    """Return when the schema may be registered, else raise SchemaRefused."""
    if not isinstance(schema, dict | bool):
        raise SchemaRefused("", "a schema is an object or a boolean")
    if len(canonical_json(schema)) > SCHEMA_BYTES_MAX:
        raise SchemaRefused("", f"the schema has more than {SCHEMA_BYTES_MAX} bytes")
    known: dict[str, Any] = {}
    for parts, inner in _walk(schema):
        known[pointers.join(parts)] = inner
        if len(known) > SUBSCHEMAS_MAX:
            raise SchemaRefused("", f"more than {SUBSCHEMAS_MAX} subschemas")
        if isinstance(inner, dict):
            _check_keywords(parts, inner)
    error = next(iter(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)), None)
    if error is not None:
        raise SchemaRefused(pointers.join(error.absolute_path), f"breaks the rule {error.validator} of JSON Schema")
    for pointer, inner in known.items():
        if isinstance(inner, dict):
            _check_rules(pointer, inner, known)
    _check_cycles(known)


def _walk(schema: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    pending: list[tuple[tuple[str, ...], Any, int]] = [((), schema, 0)]
    while pending:
        parts, here, depth = pending.pop()
        if depth > SCHEMA_DEPTH_MAX:
            raise SchemaRefused(pointers.join(parts), f"nested deeper than {SCHEMA_DEPTH_MAX}")
        yield parts, here
        if isinstance(here, dict):
            pending.extend((parts + more, inner, depth + 1) for _, more, inner in subschemas(here))


def _check_keywords(parts: tuple[str, ...], schema: dict[str, Any]) -> None:
    pointer = pointers.join(parts)
    for keyword, value in schema.items():
        if keyword not in KEYWORDS:
            raise SchemaRefused(pointer, f"the keyword {keyword!r} is not one that is checked")
        if keyword == "$schema" and (parts or value != DIALECT):
            raise SchemaRefused(pointer, f"$schema is {DIALECT}, at the top only")
        if keyword in ("x-sensitive", "x-recipient") and not isinstance(value, bool):
            raise SchemaRefused(f"{pointer}/{keyword}", "is true or false")


def _check_rules(pointer: str, schema: dict[str, Any], known: dict[str, Any]) -> None:
    declared = schema.get("format")
    if declared is not None and declared not in FORMATS:
        raise SchemaRefused(pointer, f"the format {declared!r} is not one that is checked")
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
        raise SchemaRefused(pointer, f"an enum has more than {ENUM_MAX} values")
    reference = schema.get("$ref")
    if reference is not None and _target(reference) not in known:
        raise SchemaRefused(pointer, "$ref leads to no schema inside this document")


def _target(reference: str) -> str | None:
    # Only "#" and "#/json/pointer": no scheme, no file, no anchor, no percent-encoding.
    return reference[1:] if reference == "#" or reference.startswith("#/") else None


def _check_cycles(known: dict[str, Any]) -> None:
    """Refuse schemas that lead back to themselves on the same value: no validator ends on them."""
    state: dict[str, bool] = {}  # False while on the way, True when done
    for start in known:
        pending = [(start, False)]
        while pending:
            here, leaving = pending.pop()
            if leaving:
                state[here] = True
                continue
            if here in state:
                if not state[here]:
                    raise SchemaRefused(here, "$ref leads back to itself")
                continue
            state[here] = False
            pending.append((here, True))
            pending.extend((target, False) for target in _in_place(here, known[here]))


def _in_place(pointer: str, schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield schema["$ref"][1:]
    for keyword, more, _ in subschemas(schema):
        if keyword in IN_PLACE:
            yield pointer + pointers.join(more)
