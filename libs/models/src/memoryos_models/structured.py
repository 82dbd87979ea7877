"""Replies that must be one JSON object of a schema: checked here, whatever the endpoint promised."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError
from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField

from memoryos_models.errors import ModelRejected
from memoryos_models.ports import ChatReply, FinishReason

_BYTES_MAX: Final = 1_048_576
_FENCED: Final = re.compile(r"```[a-zA-Z]{0,16}[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)


def read_structured(reply: ChatReply, schema: Mapping[str, Any]) -> ChatReply:
    """Give the reply with its object in `structured`, or with `structure_error` when it is not of the schema.

    A code fence around it is taken off. Calls and cut-off replies stay as they are.
    """
    if reply.tool_calls or reply.finish_reason is not FinishReason.STOP:
        return reply
    text = reply.content.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = parse_json(fenced[1] if fenced else text, max_bytes=_BYTES_MAX)
    except InvalidField:
        return replace(reply, structure_error="not JSON")
    if not isinstance(value, dict):
        return replace(reply, structure_error="not a JSON object")
    for error in checker(json.dumps(dict(schema), sort_keys=True)).iter_errors(value):
        where = "/".join(str(part) for part in error.schema_path)
        return replace(reply, structure_error=f"against the schema's rule /{where}")
    return replace(reply, content=json.dumps(value, ensure_ascii=False), structured=value)


@lru_cache(maxsize=64)
def checker(schema: str) -> Draft202012Validator:
    """Give the validator of a schema; it opens no reference and its patterns take linear time.

    Raises `ModelRejected` when it is no JSON Schema.
    """
    try:
        return Draft202012Validator(json.loads(schema), offline=True, pattern_options=RegexOptions())
    except (ValidationError, ValueError):
        raise ModelRejected("response_schema is not a JSON Schema that can be used here") from None
