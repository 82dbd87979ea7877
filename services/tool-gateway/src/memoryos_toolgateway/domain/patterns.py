"""Regular expressions that run in linear time, whatever the text.

RE2 has no backtracking, so `^(a+)+$` costs what `^a+$` costs; `$` matches at
the very end only and `\\d` is ASCII. The dialect is the part of ECMA-262 that
RE2 has: look-around and back-references are refused at registration.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import re2  # type: ignore[import-untyped]

PATTERN_BYTES_MAX: Final = 1024
"""A longer pattern is refused: nobody can review it."""
_MEMORY_BYTES_MAX: Final = 1 << 20

# Forms that RE2 reads otherwise than ECMA-262 does, or that ECMA-262 lacks.
_FOREIGN: Final = re.compile(r"\\[AzQEC]|\(\?(?!:)|\[\[:")
_PROPERTY: Final = re.compile(r"\\([pP])\{(?:(?:General_Category|gc|Script|sc|Script_Extensions|scx)=)?([A-Za-z_]+)\}")
_CATEGORIES: Final = {
    "Letter": "L", "Cased_Letter": "L&", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk",
    "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Control": "Cc", "Other": "C",
}  # fmt: skip
"""ECMA-262 has long names of Unicode's general categories, RE2 the short ones."""
_UNICODE_ESCAPE: Final = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}|\\u([0-9a-fA-F]{4})")


class PatternRefused(ValueError):
    """The pattern is too long, is no regular expression, or needs backtracking."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        if len(text.encode()) > PATTERN_BYTES_MAX:
            raise PatternRefused(f"a pattern has more than {PATTERN_BYTES_MAX} bytes")
        if _FOREIGN.search(text.replace(r"\\", "")):
            raise PatternRefused("a pattern uses look-around, flags, named groups or escapes outside ECMA-262")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY_BYTES_MAX
        text = _PROPERTY.sub(lambda match: f"\\{match[1]}{{{_CATEGORIES.get(match[2], match[2])}}}", text)
        translated = _UNICODE_ESCAPE.sub(lambda match: f"\\x{{{match[1] or match[2]}}}", text)
        try:
            self._compiled: Any = re2.compile(translated, options)
        except re2.error:
            raise PatternRefused("a pattern is no regular expression, or not one that runs in linear time") from None

    def matches(self, text: str) -> bool:
        """Tell whether the pattern is found anywhere in `text`, as JSON Schema reads it."""
        return self._compiled.search(text) is not None


@functools.lru_cache(maxsize=4096)
def compile_pattern(text: str) -> Pattern:
    """Give the compiled pattern, or raise PatternRefused."""
    return Pattern(text)
