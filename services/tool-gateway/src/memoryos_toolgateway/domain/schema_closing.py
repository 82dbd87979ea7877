"""Objects are closed unless their schema says otherwise.

A parameter that nobody declared is a mistake or an attack, so an object schema
without a word on further properties gets `additionalProperties: false`, or
`unevaluatedProperties: false` where its properties are spread over subschemas.
Within the arguments, `type: object` without a word on properties at all is a map
of names that the caller chooses (closed, it could only be empty): it stays open.
"""

from __future__ import annotations

from typing import Any

from memoryos_toolgateway.domain.schema_keywords import IN_PLACE, VALUE_POSITIONS, Holds
from memoryos_toolgateway.domain.schema_keywords import KEYWORDS as _KEYWORDS


def close_objects(schema: Any) -> Any:
    """Give the schema with every object closed that does not state how open it is.

    Subschemas that apply in place (allOf, if …) and $defs are not closed
    themselves: the schema that they describe the value with is.
    """
    return _closed(schema, is_value=True, is_whole=True)


def _closed(schema: Any, *, is_value: bool, is_whole: bool = False) -> Any:
    if not isinstance(schema, dict):
        return schema
    closed = {keyword: _inner(keyword, value) for keyword, value in schema.items()}
    stated = "additionalProperties" in schema or "unevaluatedProperties" in schema
    if not is_value or stated:
        return closed
    if "$ref" in schema or IN_PLACE & schema.keys():
        closed["unevaluatedProperties"] = False
    elif _describes_object(schema) and (is_whole or not _is_map(schema)):
        closed["additionalProperties"] = False
    return closed


def _inner(keyword: str, value: Any) -> Any:
    holds = _KEYWORDS.get(keyword, Holds.VALUE)
    is_value = keyword in VALUE_POSITIONS
    if holds is Holds.SCHEMA:
        return _closed(value, is_value=is_value)
    if holds is Holds.LIST:
        return [_closed(inner, is_value=is_value) for inner in value]
    if holds is Holds.MAP:
        return {name: _closed(inner, is_value=is_value) for name, inner in value.items()}
    return value


def _is_map(schema: dict[str, Any]) -> bool:
    return not {"properties", "patternProperties"} & schema.keys()


def _describes_object(schema: dict[str, Any]) -> bool:
    declared = schema.get("type")
    types = declared if isinstance(declared, list) else [declared]
    return "object" in types or "properties" in schema or "patternProperties" in schema
