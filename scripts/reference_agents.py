"""The reference page of agent files, made from their published schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} of them"),
)
_PARTS = ("Memory", "Recall", "Limits", "Context", "OnFailure")


def agents_page(schema: Mapping[str, Any]) -> str:
    """Give the page."""
    lines = [
        "# Agent files\n",
        "Generated from [the schema](../../services/harness/schemas/agent.schema.json) by `make reference`. One YAML "
        "file an agent; unknown keys are errors. How to write one: [add an agent](../how-to/add-an-agent.md).\n",
        *_table(schema),
    ]
    for name in _PARTS:
        part = schema["$defs"][name]
        lines += [f"## {name}\n", f"{' '.join(part['description'].split())}\n", *_table(part)]
    return "\n".join(lines).rstrip() + "\n"


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | type | default | meaning |\n|---|---|---|---|"
    for name, field in schema["properties"].items():
        default = _default(name, field, schema.get("required", ()))
        meaning = " ".join([field.get("description", ""), _bounds(field)]).strip()
        yield f"| `{name}` | {_type(field)} | {default} | {meaning} |"
    yield ""


def _default(name: str, field: Mapping[str, Any], required: Any) -> str:
    if name in required:
        return "**required**"
    default = field.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict):
        return "–"  # of objects the parts say it
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    inner = field.get("additionalProperties")
    if isinstance(inner, Mapping):
        return f"map to {_type(inner)}"
    return str(field["type"])


def _bounds(field: Mapping[str, Any]) -> str:
    found = [text.format(field[key]) for key, text in _BOUNDS if key in field]
    return f"({', '.join(found)})" if found else ""
