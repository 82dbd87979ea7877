"""A streamed chat completion put together again, as if it had come in one piece. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from memoryos_models.errors import ModelReplyInvalid
from memoryos_models.refusals import error_in_reply
from memoryos_models.sse import SseReader

DONE: Final = "[DONE]"
TOOL_CALLS_MAX: Final = 64
_INDEX_MAX: Final = 1_000


@dataclass(slots=True)
class _Call:
    """One tool call as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    arguments_are_text: bool = True

    def add(self, call_id: str, function: dict[str, Any]) -> None:
        self.id = self.id or call_id
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name != self.name:  # some servers repeat the name in every piece
            self.name += name
        if isinstance(arguments, str):
            self.arguments.append(arguments)
        elif arguments is not None:
            self.arguments_are_text = False

    def whole(self) -> dict[str, Any]:
        arguments: Any = "".join(self.arguments) if self.arguments_are_text else {}
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(slots=True)
class StreamedReply:
    """Takes the bytes of a stream and gives the body of the completion that it was.

    `begun`: a piece of the reply has come, not only keep-alives. `finished`:
    the reply is whole (its finish_reason has come). `done`: nothing follows.
    An error that the endpoint sends in the stream is raised as it would be
    for a status (see `refusals`).
    """

    begun: bool = False
    finished: bool = False
    done: bool = False
    _events: SseReader = field(default_factory=SseReader)
    _content: list[str] = field(default_factory=list)
    _calls: list[_Call] = field(default_factory=list)
    _by_index: dict[int, _Call] = field(default_factory=dict)
    _finish_reason: Any = None
    _model: Any = None
    _usage: Any = None

    def feed(self, piece: bytes, *, last: bool = False) -> None:
        """Take a piece; raises `ModelReplyInvalid` when it is no stream of chat completion chunks."""
        for data in self._events.feed(piece, last=last):
            if self.done:
                return
            if data.strip() == DONE:
                self.done = True
            else:
                self._chunk(data)

    def body(self) -> dict[str, Any]:
        """Give the whole completion; raises `ModelReplyInvalid` when it never became whole."""
        if not self.finished:
            raise ModelReplyInvalid("the stream ended before the reply was whole")
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._content)}
        if self._calls:
            message["tool_calls"] = [call.whole() for call in self._calls]
        return {
            "model": self._model,
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish_reason}],
            "usage": self._usage,
        }

    def _chunk(self, data: str) -> None:
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ModelReplyInvalid("a piece of the stream is not JSON") from error
        if not isinstance(chunk, dict):
            raise ModelReplyInvalid("a piece of the stream is not a JSON object")
        error_in_reply(chunk)
        self._model = chunk.get("model") or self._model
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        choices = chunk.get("choices")
        if choices is None:
            return
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise ModelReplyInvalid("a piece of the stream holds no list of choices")
        for choice in choices:
            if choice.get("index") in (0, None):
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        self.begun = True
        delta = choice.get("delta")
        if delta is not None:
            if not isinstance(delta, dict):
                raise ModelReplyInvalid("a piece of the stream is not an object")
            self._delta(delta)
        if choice.get("finish_reason") is not None:
            self._finish_reason = choice["finish_reason"]
            self.finished = True

    def _delta(self, delta: dict[str, Any]) -> None:
        content, calls = delta.get("content"), delta.get("tool_calls")
        if content is not None and not isinstance(content, str):
            raise ModelReplyInvalid("the reply's content is not text")
        if content:
            self._content.append(content)
        if calls is None:
            return
        if not isinstance(calls, list):
            raise ModelReplyInvalid("the reply's tool calls are not a list")
        for entry in calls:
            function = entry.get("function") if isinstance(entry, dict) else None
            if not isinstance(entry, dict) or not isinstance(function, dict):
                raise ModelReplyInvalid("a tool call of the reply is not an object")
            call_id = entry["id"] if isinstance(entry.get("id"), str) else ""
            self._call_of(entry.get("index"), call_id).add(call_id, function)

    def _call_of(self, index: object, call_id: str) -> _Call:
        """Give the call that a piece belongs to: by index, and by id where servers give all calls one index or none."""
        if isinstance(index, bool) or not isinstance(index, int | None) or not 0 <= (index or 0) < _INDEX_MAX:
            raise ModelReplyInvalid("a tool call of the reply has no usable index")
        known = self._by_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if known is not None and call_id and known.id and call_id != known.id:
            known = next((call for call in self._calls if call.id == call_id), None)
        if known is None:
            if len(self._calls) >= TOOL_CALLS_MAX:
                raise ModelReplyInvalid(f"the reply has more than {TOOL_CALLS_MAX} tool calls")
            known = _Call()
            self._calls.append(known)
        if index is not None:
            self._by_index[index] = known
        return known
