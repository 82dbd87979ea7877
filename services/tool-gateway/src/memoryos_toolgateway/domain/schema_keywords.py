"""The keywords of JSON Schema 2020-12 that skills may use, and where subschemas are in them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final


class Holds(Enum):
    """What the value of a keyword is."""

    VALUE = "no subschema"
    SCHEMA = "one subschema"
    LIST = "a list of subschemas"
    MAP = "subschemas by name"


KEYWORDS: Final[dict[str, Holds]] = {
    **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "propertyNames"), Holds.SCHEMA),
    **dict.fromkeys(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"), Holds.SCHEMA),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), Holds.LIST),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"), Holds.MAP),
    **dict.fromkeys(("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum"), Holds.VALUE),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "format"), Holds.VALUE),
    **dict.fromkeys(("maxItems", "minItems", "uniqueItems", "maxContains", "minContains"), Holds.VALUE),
    **dict.fromkeys(("maxProperties", "minProperties", "required", "dependentRequired"), Holds.VALUE),
    **dict.fromkeys(("$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor"), Holds.VALUE),
    # Annotations: the text behind them is not looked into.
    **dict.fromkeys(("contentEncoding", "contentMediaType", "contentSchema"), Holds.VALUE),
    **dict.fromkeys(("$schema", "$comment", "title", "description", "default", "examples"), Holds.VALUE),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "x-sensitive", "x-recipient"), Holds.VALUE),
}

IN_PLACE: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose subschemas apply to the same value as the schema itself (beside $ref)."""

ANNOTATIONS: Final = frozenset(
    {"example", "enumNames", "enumDescriptions", "markdownDescription", "errorMessage", "displayName", "label"}
    | {"placeholder", "propertyOrder", "order", "group", "hint", "unit", "units", "externalDocs", "xml", "id"}
    | {"optional", "discriminator", "deprecationMessage", "$vocabulary", "internal", "note", "notes", "version"}
)
"""Words of other tools that say nothing about values; any x-… word is one, too."""

VALUE_POSITIONS: Final = frozenset(
    {"items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
    | {"prefixItems", "properties", "patternProperties"}
)
"""Keywords whose subschemas describe a value inside the value."""


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Give (keyword, parts of the pointer from here, subschema) for each direct subschema."""
    for keyword, value in schema.items():
        holds = KEYWORDS.get(keyword, Holds.VALUE)
        if holds is Holds.SCHEMA:
            yield keyword, (keyword,), value
        elif holds is Holds.LIST and isinstance(value, list):
            yield from ((keyword, (keyword, str(index)), inner) for index, inner in enumerate(value))
        elif holds is Holds.MAP and isinstance(value, dict):
            yield from ((keyword, (keyword, name), inner) for name, inner in value.items())
