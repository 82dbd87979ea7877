"""Tokens counted from text, where an endpoint does not say."""

from __future__ import annotations

import json
from typing import Final

from memoryos_models.ports import ChatRequest

_CHARS_PER_TOKEN: Final = 4
_MESSAGE_TOKENS: Final = 4
_WIDE_FROM: Final = "\u2e80"
"""From here on (CJK and beyond) a character is about one token."""


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text has, rather too many: a quarter of its characters, Chinese ones whole."""
    wide = sum(char >= _WIDE_FROM for char in text)
    return wide + -(-(len(text) - wide) // _CHARS_PER_TOKEN)


def estimate_request_tokens(request: ChatRequest) -> int:
    """Give about how many tokens a request has, its tools and its schema included."""
    texts = [message.content for message in request.messages]
    texts += [call.name + call.arguments_json for message in request.messages for call in message.tool_calls]
    texts += [
        tool.name + tool.description + json.dumps(dict(tool.parameters), ensure_ascii=False) for tool in request.tools
    ]
    if request.response_schema is not None:
        texts.append(json.dumps(dict(request.response_schema), ensure_ascii=False))
    return sum(estimate_tokens(text) for text in texts) + _MESSAGE_TOKENS * len(request.messages)
