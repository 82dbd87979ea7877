"""Tool calls that a model wrote into its text, read strictly. No I/O.

Taken for a call is only an object {"name" or "tool": …, "arguments" or
"parameters": {…}} of an offered tool, at the very beginning of the text: bare,
in a code fence, or in <tool_call> tags (Qwen, Hermes). Several may follow each
other. A text that says something first and then shows JSON is a text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField

from memoryos_models.errors import ModelReplyInvalid

ARGUMENTS_BYTES_MAX: Final = 262_144
_CALLS_MAX: Final = 16
_FENCE: Final = re.compile(r"```[a-zA-Z_]{0,16}[ \t]*\r?\n?")
_OPEN_TAG: Final = "<tool_call>"
_CLOSE_TAG: Final = "</tool_call>"
_NAMES: Final = ("name", "tool")
_ARGUMENTS: Final = ("arguments", "parameters")
_BROKEN: Final = re.compile(r'\{\s*"(?:name|tool)"\s*:\s*"([^"\\]{1,128})"\s*,\s*"(?:arguments|parameters)"\s*:')
_DECODER: Final = json.JSONDecoder()


def find_calls(text: str, offered: frozenset[str]) -> list[tuple[str, str]]:
    """Give (tool, arguments as JSON text) of each call that the text begins with; none: it is a text.

    Raises `ModelReplyInvalid` for what is meant as a call and cannot be made
    or told: a whole text that is a call of a tool that was not offered, or a
    <tool_call> tag without a readable call. A call of an offered tool whose
    JSON is broken is given with the text as it is, for the model to be told.
    """
    if not offered:
        return []
    calls: list[tuple[str, str]] = []
    rest = text.strip()
    while rest and len(calls) < _CALLS_MAX:
        found = _first(rest)
        if found is None:
            break
        value, after, tagged = found
        call = _call(value)
        if call is None or call[0] not in offered:
            if not calls and (tagged or (call is not None and not after)):
                raise ModelReplyInvalid("the reply calls a tool that was not offered")
            break
        calls.append(call)
        rest = after
    return calls or _broken(text.strip(), offered)


def arguments_error(text: str) -> str | None:
    """Say in one safe sentence why a text is no JSON object with one reading; None when it is one."""
    try:
        value = parse_json(text, max_bytes=ARGUMENTS_BYTES_MAX)
    except InvalidField:
        return "arguments are not valid JSON"
    return None if isinstance(value, dict) else "arguments are not a JSON object"


def _first(text: str) -> tuple[str, str, bool] | None:
    """Give the JSON text that `text` begins with, what follows it, and whether it stood in a tag."""
    tagged = text.startswith(_OPEN_TAG)
    fence = _FENCE.match(text)
    start = len(_OPEN_TAG) if tagged else fence.end() if fence else 0
    body = text[start:].lstrip()
    if not body.startswith("{"):
        return None
    try:
        _, end = _DECODER.raw_decode(body)
    except (ValueError, RecursionError):
        return None
    after = body[end:].lstrip()
    closing = _CLOSE_TAG if tagged else "```" if fence else ""
    if closing and after:  # small models lose the closing mark at the very end
        if not after.startswith(closing):
            return None
        after = after.removeprefix(closing).lstrip()
    return body[:end], after, tagged


def _call(text: str) -> tuple[str, str] | None:
    try:
        value: Any = parse_json(text, max_bytes=ARGUMENTS_BYTES_MAX)
    except InvalidField:
        return None
    if not isinstance(value, dict) or len(value) != 2:
        return None
    names = [value[key] for key in _NAMES if key in value]
    arguments = [value[key] for key in _ARGUMENTS if key in value]
    if len(names) != 1 or len(arguments) != 1 or not isinstance(names[0], str):
        return None
    given = arguments[0]
    return names[0], given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _broken(text: str, offered: frozenset[str]) -> list[tuple[str, str]]:
    tagged = text.startswith(_OPEN_TAG)
    fence = _FENCE.match(text)
    body = text[len(_OPEN_TAG) if tagged else fence.end() if fence else 0 :].lstrip()
    begun = _BROKEN.match(body)
    if begun and begun[1] in offered and _is_unreadable(body):
        return [(begun[1], body[:ARGUMENTS_BYTES_MAX])]
    if tagged:
        raise ModelReplyInvalid("the reply's tool call cannot be read")
    return []


def _is_unreadable(body: str) -> bool:
    try:
        _, end = _DECODER.raw_decode(body)
    except (ValueError, RecursionError):
        return True
    return arguments_error(body[:end]) is not None
