"""Lexical forms of string and bytes fields. Each check gives None or what is wrong."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from memoryos.type.v1 import field_pb2
from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField
from memoryos_core.ids import is_id
from memoryos_core.paths import MemoryPath, PathInvalid
from memoryos_core.principals import is_principal

FormatCheck = Callable[[Any], str | None]

_LABEL_ASCII: Final = re.compile(r"[A-Za-z0-9._:@/+-]+\Z")
_LABEL_SIGNS: Final = frozenset("._:@/+-")
# Letters, decimal digits, and the marks that many scripts write vowels with.
_LABEL_CATEGORIES: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Mn", "Mc"})
# Default-ignorable letters and fillers that look like nothing (Unicode DerivedCoreProperties).
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})


def is_invisible(char: str) -> bool:
    """Tell whether a reader sees nothing where `char` stands (spaces included)."""
    return (
        char in _INVISIBLE
        or unicodedata.category(char) in _INVISIBLE_CATEGORIES
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
    )


def check_label(text: str) -> str | None:
    """Check letters, digits and . _ : @ / + - of any script."""
    if _LABEL_ASCII.match(text):
        return None
    return None if _is_label(text) else "only letters, digits and . _ : @ / + - are allowed"


@lru_cache(maxsize=4096)
def _is_label(text: str) -> bool:
    return all(
        c in _LABEL_SIGNS or (unicodedata.category(c) in _LABEL_CATEGORIES and not is_invisible(c)) for c in text
    )


def check_text(text: str) -> str | None:
    """Check that a reader sees something."""
    # Most texts show something at once; the rest is judged by its distinct characters.
    if any(not is_invisible(c) for c in text[:16]) or any(not is_invisible(c) for c in set(text)):
        return None
    return "has no visible character"


@lru_cache(maxsize=4096)
def check_principal(text: str) -> str | None:
    """Check the form of a principal."""
    return None if is_principal(text) else "is no principal: user:…, group:…, role:…, agent:{user}/{name} or tenant:*"


@lru_cache(maxsize=4096)
def check_path(text: str) -> str | None:
    """Check the grammar of memory paths."""
    try:
        MemoryPath.parse(text)
    except PathInvalid as error:
        return error.violations[0].description
    return None


def id_check(prefix: str) -> FormatCheck:
    """Give the check of ids of one kind."""
    wrong = f"is no id of the form {prefix}_ and 26 characters"
    return lambda text: None if is_id(text, prefix) else wrong


def json_object_check(max_bytes: int) -> FormatCheck:
    """Give the check of JSON objects up to a size."""

    def check(raw: bytes) -> str | None:
        try:
            value = parse_json(raw, max_bytes=max_bytes)
        except InvalidField as error:
            return error.violations[0].description
        return None if isinstance(value, dict) else "is no JSON object"

    return check


def format_check(rules: field_pb2.FieldRules) -> FormatCheck | None:
    """Give the check of a field's format, or None when it has none."""
    fixed: dict[int, FormatCheck] = {
        field_pb2.FORMAT_PATH: check_path,
        field_pb2.FORMAT_PRINCIPAL: check_principal,
        field_pb2.FORMAT_LABEL: check_label,
        field_pb2.FORMAT_TEXT: check_text,
    }
    if rules.format == field_pb2.FORMAT_UNSPECIFIED:
        return None
    if rules.format == field_pb2.FORMAT_ID:
        return id_check(rules.id_prefix)
    if rules.format == field_pb2.FORMAT_JSON_OBJECT:
        return json_object_check(rules.max_bytes)
    return fixed[rules.format]
