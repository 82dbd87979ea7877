"""Parameter schemas of older dialects, said in 2020-12.

Tools that others publish mostly declare draft-07, or nothing and write as in
draft-04 or OpenAPI. What those drafts mean is kept, keyword by keyword.
"""

from __future__ import annotations

from typing import Any, Final

from memoryos_toolgateway.domain.schema_keywords import KEYWORDS, Holds
from memoryos_toolgateway.domain.schema_references import DIALECT

_OLDER: Final = frozenset(
    f"http://json-schema.org/{draft}/schema{end}" for draft in ("draft-04", "draft-06", "draft-07") for end in ("", "#")
)
_NEWER: Final = frozenset({"https://json-schema.org/draft/2019-09/schema", f"{DIALECT}#"})
_BESIDE_REF: Final = frozenset({"title", "description", "default", "examples", "definitions", "$defs", "$comment"})
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def modern(schema: Any) -> Any:
    """Give the schema in 2020-12; what declares that, or no known dialect, comes back as it is."""
    if not isinstance(schema, dict):
        return schema
    declared = schema.get("$schema")
    older = declared in _OLDER
    said = {k: v for k, v in schema.items() if k != "$schema"} if older or declared in _NEWER else schema
    if not older and "$schema" in said:
        return said
    return _modern(said, drops_beside_ref=older)


def _modern(schema: Any, *, drops_beside_ref: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    if drops_beside_ref and isinstance(schema.get("$ref"), str):
        schema = {k: v for k, v in schema.items() if k == "$ref" or k in _BESIDE_REF}
    said = {k: _inner(k, v, drops_beside_ref=drops_beside_ref) for k, v in schema.items()}
    _tuples(said)
    _dependencies(said)
    _exclusive_bounds(said)
    if said.pop("nullable", None) is True:
        _nullable(said)
    return said


def _inner(keyword: str, value: Any, *, drops_beside_ref: bool) -> Any:
    holds = Holds.MAP if keyword == "dependencies" else KEYWORDS.get(keyword, Holds.VALUE)
    if isinstance(value, list) and (holds is Holds.LIST or keyword == "items"):
        return [_modern(inner, drops_beside_ref=drops_beside_ref) for inner in value]
    if isinstance(value, dict) and holds is Holds.MAP:
        return {name: _modern(inner, drops_beside_ref=drops_beside_ref) for name, inner in value.items()}
    if holds is Holds.SCHEMA or keyword == "additionalItems":
        return _modern(value, drops_beside_ref=drops_beside_ref)
    return value


def _tuples(said: dict[str, Any]) -> None:
    further = said.pop("additionalItems", None)
    if isinstance(said.get("items"), list):
        said["prefixItems"] = said.pop("items")
        if further is not None:
            said["items"] = further
        if not said["prefixItems"]:
            del said["prefixItems"]


def _dependencies(said: dict[str, Any]) -> None:
    declared = said.get("dependencies")
    if not isinstance(declared, dict):
        return
    del said["dependencies"]
    names = {name: value for name, value in declared.items() if isinstance(value, list)}
    schemas = {name: value for name, value in declared.items() if not isinstance(value, list)}
    if names:
        said["dependentRequired"] = said.get("dependentRequired", {}) | names
    if schemas:
        said["dependentSchemas"] = said.get("dependentSchemas", {}) | schemas


def _exclusive_bounds(said: dict[str, Any]) -> None:
    """Draft 4 says `minimum: 0, exclusiveMinimum: true` for what is now `exclusiveMinimum: 0`."""
    for exclusive, bound in _BOUNDS:
        if not isinstance(said.get(exclusive), bool):
            continue
        if said.pop(exclusive) and bound in said:
            said[exclusive] = said.pop(bound)


def _nullable(said: dict[str, Any]) -> None:
    """OpenAPI 3.0: null is allowed beside the type."""
    declared = said.get("type")
    if isinstance(declared, str):
        said["type"] = [declared, "null"]
    if isinstance(said.get("enum"), list) and None not in said["enum"]:
        said["enum"] = [*said["enum"], None]
