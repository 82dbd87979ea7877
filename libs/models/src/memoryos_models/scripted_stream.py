"""How the scripted server streams a reply, well or as broken endpoints do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, kw_only=True)
class ScriptedStream:
    """How a reply is streamed when the request asks for that."""

    piece_chars: int = 0
    """Characters of content or arguments in one event; 0: eight, more where a text is long."""
    write_bytes: int = 0
    """Bytes in one write, so that events and characters are split; 0: an event is a write."""
    keep_alives: bool = False
    """A comment before every event."""
    usage: bool = True
    done: bool = True
    """Whether [DONE] ends it."""
    fault: Literal["", "cut", "hang_up", "stall", "garbage", "error"] = ""
    """cut: the stream ends in good form; hang_up: without; stall: silence; garbage: no JSON; error: an error object."""
    fault_after: int = 0
    """Events before the fault."""
    error: Mapping[str, Any] | None = None
    """The error object of fault `error`."""


def stream_events(completion: Mapping[str, Any], how: ScriptedStream) -> Iterator[bytes]:
    """Give the events of a whole completion, faults aside."""
    head = {name: completion[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = completion["choices"][0]

    def event(delta: Mapping[str, Any], **more: Any) -> bytes:
        return _event({**head, "choices": [{"index": 0, "delta": delta, **more}]})

    yield event({"role": "assistant", "content": ""})
    for piece in _pieces(choice["message"].get("content") or "", how.piece_chars):
        yield event({"content": piece})
    for index, call in enumerate(choice["message"].get("tool_calls") or []):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield event({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
        for piece in _pieces(call["function"]["arguments"], how.piece_chars):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if "finish_reason" in choice:
        yield event({}, finish_reason=choice["finish_reason"])
    if how.usage:
        yield _event({**head, "choices": [], "usage": completion["usage"]})
    if how.done:
        yield DONE


def fault_bytes(how: ScriptedStream) -> bytes:
    """Give what a fault puts into the stream."""
    if how.fault == "garbage":
        return b"data: {not json\n\n"
    if how.fault == "error":
        return _event({"error": dict(how.error or {"message": "scripted fault", "type": "server_error", "code": 500})})
    return b""


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def _pieces(text: str, size: int) -> Iterator[str]:
    size = size or max(8, len(text) // 256)
    for start in range(0, len(text), size):
        yield text[start : start + size]
