"""What an endpoint's refusal means, from its status and the machine-readable fields of its error object."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from memoryos_core.errors import MemoryOSError

from memoryos_models.errors import ModelContextExceeded, ModelNotFound, ModelRejected, ModelUnavailable

RETRY_AFTER_DEFAULT_S: Final = 1.0
_RETRY_AFTER_MAX_S: Final = 300.0
_OK: Final = 200
_WORTH_A_RETRY: Final = frozenset({408, 409, 425, 429})
_CONTEXT_CODES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, Groq
        "exceed_context_size_error",  # llama.cpp
        "context_window_exceeded",
        "string_above_max_length",
    }
)
# vLLM, SGLang and Ollama say it in a sentence alone (docs/how-to/connect-a-model.md): the one place where text of an
# endpoint decides, and only between two errors of the same status.
_CONTEXT_PHRASES: Final = (
    "maximum context length",
    "context length",
    "context window",
    "exceeds the available context",
)
_BUSY_CODES: Final = frozenset({"rate_limit_exceeded", "server_error", "overloaded_error", "unavailable_error"})
_PHRASE_BYTES_MAX: Final = 2_000


def refusal(status: int, raw: bytes, retry_after: str = "") -> MemoryOSError | None:
    """Give the error of a status and its body, None for 200. It holds the status and no text of the endpoint."""
    if status == _OK:
        return None
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    return _error_of(status, _error_object(body), _retry_after_s(retry_after))


def error_in_reply(body: dict[str, Any]) -> None:
    """Raise the error that stands in a reply with status 200, as proxies and streams send it."""
    stated = body.get("error")
    if stated is None or stated in ({}, "", False):
        return
    error = _error_object(body)
    code = error.get("code", error.get("status"))
    status = code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else 0
    if not status and isinstance(code, str) and code.isdecimal() and len(code) == 3:
        status = int(code)
    raise _error_of(status, error, RETRY_AFTER_DEFAULT_S)


def _error_of(status: int, error: dict[str, Any], retry_after_s: float) -> MemoryOSError:
    """Status 0 stands for an error that came without one: the request was fine when the reply began."""
    metadata = {"http_status": str(status)} if status else {}
    stated = f"the model answered HTTP {status}" if status else "the model answered an error"
    codes = {value for value in (error.get("code"), error.get("type")) if isinstance(value, str)}
    if status in _WORTH_A_RETRY or status >= 500 or codes & _BUSY_CODES:
        return ModelUnavailable(stated, metadata=metadata, retry_after_s=retry_after_s)
    if codes & _CONTEXT_CODES or (status in (0, 400, 413, 422) and _speaks_of_context(error.get("message"))):
        return ModelContextExceeded(metadata=metadata)
    if status == 404 or "model_not_found" in codes:
        return ModelNotFound(metadata=metadata)
    if not status:
        return ModelUnavailable(stated, retry_after_s=retry_after_s)
    return ModelRejected(stated, metadata=metadata)


def _error_object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        return {}
    stated = body.get("error", body)  # vLLM: the error is the body
    if isinstance(stated, str):
        return {"message": stated}
    return stated if isinstance(stated, dict) else {}


def _speaks_of_context(message: object) -> bool:
    text = message[:_PHRASE_BYTES_MAX].lower() if isinstance(message, str) else ""
    return any(phrase in text for phrase in _CONTEXT_PHRASES)


def _retry_after_s(text: str) -> float:
    """Give the seconds asked for; the date form, nonsense and endless waits become a bounded default."""
    try:
        seconds = float(text)
    except ValueError:
        return RETRY_AFTER_DEFAULT_S
    if not math.isfinite(seconds) or seconds < 0:
        return RETRY_AFTER_DEFAULT_S
    return min(seconds, _RETRY_AFTER_MAX_S)
