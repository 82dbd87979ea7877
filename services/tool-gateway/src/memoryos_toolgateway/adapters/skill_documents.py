"""YAML and JSON files read as the one JSON value they can mean.

YAML here is the JSON part of YAML 1.2: no anchors, aliases, tags or merge
keys, no dates, no `yes`, no duplicate keys.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml
from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.domain import pointers

DOCUMENT_BYTES_MAX: Final = 262_144
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")
_PREFIX: Final = "tag:yaml.org,2002:"


class DocumentInvalid(ValueError):
    """The file is not readable as one JSON value."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with the JSON types only."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        peek: Any = self.peek_event
        event: Any = peek()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise DocumentInvalid("anchors and aliases are not allowed")
        if getattr(event, "tag", None) is not None:
            raise DocumentInvalid("tags are not allowed")
        return super().compose_node(parent, index)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise DocumentInvalid(f"line {key_node.start_mark.line + 1}: a key is no string")
        if key in result:
            raise DocumentInvalid(f"line {key_node.start_mark.line + 1}: the key {key!r} is there twice")
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {}
_Loader.add_implicit_resolver(f"{_PREFIX}null", re.compile(r"(?:null|~|)\Z"), ["n", "~", ""])
_Loader.add_implicit_resolver(f"{_PREFIX}bool", re.compile(r"(?:true|false)\Z"), ["t", "f"])
_Loader.add_implicit_resolver(f"{_PREFIX}int", _INTEGER, list("-0123456789"))
_Loader.add_implicit_resolver(f"{_PREFIX}float", _FLOAT, list("-0123456789"))
_Loader.add_constructor(f"{_PREFIX}null", lambda _, __: None)
_Loader.add_constructor(f"{_PREFIX}bool", lambda _, node: node.value == "true")
_Loader.add_constructor(f"{_PREFIX}int", lambda _, node: int(node.value))
_Loader.add_constructor(f"{_PREFIX}float", lambda _, node: float(node.value))
_Loader.add_constructor(f"{_PREFIX}str", lambda _, node: node.value)
_Loader.add_constructor(f"{_PREFIX}seq", _sequence)
_Loader.add_constructor(f"{_PREFIX}map", _mapping)


def read_document(file: Path) -> Any:
    """Give the JSON value of a file, or raise DocumentInvalid."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise DocumentInvalid(f"cannot be read: {error.strerror}") from None
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise DocumentInvalid(f"has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        if file.suffix == ".json":
            return parse_json(raw, max_bytes=DOCUMENT_BYTES_MAX, field=file.name)
        return yaml.load(raw.decode("utf-8"), Loader=_Loader)  # noqa: S506 -- narrower than SafeLoader
    except InvalidField as error:
        raise DocumentInvalid(str(error)) from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise DocumentInvalid(f"{line}{error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DocumentInvalid(str(error) if isinstance(error, DocumentInvalid) else "is no YAML in UTF-8") from None


def line_of(file: Path, pointer: str) -> int:
    """Give the line on which what the pointer leads to begins, or the nearest thing around it that is there."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return 1
    line = 1
    for part in pointers.split(pointer) if pointer.startswith("/") else ():
        found = _child(node, part)
        if found is None:
            return line
        line, node = found
    return line


def _child(node: yaml.Node | None, part: str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
        value = node.value[int(part)]
        return value.start_mark.line + 1, value
    return None
