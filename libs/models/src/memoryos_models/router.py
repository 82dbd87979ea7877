"""The chat model that all others ask: it finds the endpoint, and the next one when it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memoryos_core.errors import MemoryOSError

from memoryos_models.adapters.openai_chat import OpenAIChat
from memoryos_models.circuit import Circuit
from memoryos_models.endpoints import DEFAULT_ENDPOINT, Endpoint
from memoryos_models.errors import (
    ModelContextExceeded,
    ModelNotFound,
    ModelRejected,
    ModelReplyInvalid,
    ModelUnavailable,
)
from memoryos_models.http_json import ReplyLimits
from memoryos_models.metrics import Counted, reason_of
from memoryos_models.ports import ChatReply, ChatRequest, ModelTry

CIRCUIT_OPEN: Final = "CIRCUIT_OPEN"


@dataclass(frozen=True, slots=True)
class _Candidate:
    chat: OpenAIChat
    circuit: Circuit
    model: str | None

    @property
    def name(self) -> str:
        return self.chat.endpoint.name

    def failed_try(self, reason: str) -> ModelTry:
        return ModelTry(endpoint=self.name, model=self.model or "", reason=reason)


class RoutedChat:
    """A `ChatModel` over several endpoints.

    The next model is asked when one does not answer, answers nonsense or does
    not exist; when the conversation is too long for it, only one that is known
    to take more. Other refusals end the search. An endpoint whose circuit is
    open is passed over, unless none is left. The time left is shared out
    evenly among the models not asked yet; one that has begun to stream may use
    all of it. The error of a failed search is that of the first model, or of
    the last conversation that was too long.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], *, connect_timeout_s: float, idle_s: float, reply_bytes_max: int
    ) -> None:
        self._chats = {
            endpoint.name: OpenAIChat(endpoint, connect_timeout_s=connect_timeout_s) for endpoint in endpoints
        }
        self._circuits = {name: Circuit() for name in self._chats}
        self._idle_s = idle_s
        self._bytes_max = reply_bytes_max
        self._counted = Counted()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """See `ChatModel.complete`."""
        candidates = self._candidates(request)
        now = asyncio.get_running_loop().time
        end = now() + request.deadline_s
        tries: list[ModelTry] = []
        errors: list[MemoryOSError] = []
        asked = False
        for position, candidate in enumerate(candidates):
            last_resort = not asked and position == len(candidates) - 1
            if candidate.circuit.is_open(now()) and not last_resort:
                tries.append(candidate.failed_try(CIRCUIT_OPEN))
                continue
            if not _may_help(candidate, errors):
                continue
            left_s = end - now()
            if left_s <= 0:
                break
            asked = True
            begin_s = left_s / (len(candidates) - position)
            try:
                reply = await self._ask(candidate, request, deadline_s=left_s, begin_s=begin_s)
            except (ModelUnavailable, ModelReplyInvalid, ModelNotFound, ModelContextExceeded) as error:
                if isinstance(error, ModelContextExceeded):
                    error.metadata["context_tokens"] = str(candidate.chat.endpoint.context_tokens or 0)
                errors.append(error)
                tries.append(candidate.failed_try(reason_of(error)))
            except ModelRejected as error:
                errors.append(error)
                break
            else:
                return replace(reply, failed_tries=tuple(tries))
        raise _error_of(errors)

    def context_tokens(self, model: str | None = None) -> int | None:
        """See `ChatModel.context_tokens`."""
        chat = self._chats.get(model or DEFAULT_ENDPOINT) or self._chats.get(DEFAULT_ENDPOINT)
        return chat.endpoint.context_tokens if chat else None

    async def close(self) -> None:
        """See `ChatModel.close`."""
        for chat in self._chats.values():
            await chat.close()

    def _candidates(self, request: ChatRequest) -> list[_Candidate]:
        found: list[_Candidate] = []
        for name in (request.model, *request.fallback_models):
            chat = self._chats.get(name or DEFAULT_ENDPOINT)
            model = chat.endpoint.model if chat else name
            chat = chat or self._chats.get(DEFAULT_ENDPOINT)
            if chat is None:
                if name is None:
                    raise ModelRejected("no endpoint is the default one: models.chat_url is not set")
                continue
            candidate = _Candidate(chat, self._circuits[chat.endpoint.name], model)
            if (candidate.name, candidate.model) not in [(known.name, known.model) for known in found]:
                found.append(candidate)
        if not found:
            raise ModelNotFound("no endpoint has that name, and there is no default one")
        return found

    async def _ask(
        self, candidate: _Candidate, request: ChatRequest, *, deadline_s: float, begin_s: float
    ) -> ChatReply:
        loop = asyncio.get_running_loop()
        limits = ReplyLimits(deadline_s=deadline_s, begin_s=begin_s, idle_s=self._idle_s, bytes_max=self._bytes_max)
        circuit = candidate.circuit
        circuit.begin()
        start = loop.time()
        outcome = "CANCELLED"
        try:
            reply = await candidate.chat.ask(request, candidate.model, limits)
        except ModelUnavailable as error:
            circuit.failed(loop.time())
            outcome = reason_of(error)
            raise
        except MemoryOSError as error:
            circuit.answered()
            outcome = reason_of(error)
            raise
        else:
            circuit.answered()
            outcome = "OK"
            return reply
        finally:
            circuit.left()
            self._counted.tried(candidate.name, outcome, loop.time() - start)


def _may_help(candidate: _Candidate, errors: Sequence[MemoryOSError]) -> bool:
    """Tell whether a candidate is worth asking after a conversation was too long for the one before."""
    too_long = [error for error in errors if isinstance(error, ModelContextExceeded)]
    if not too_long:
        return True
    takes, refused = candidate.chat.endpoint.context_tokens, int(too_long[-1].metadata.get("context_tokens", "0"))
    return takes is not None and refused > 0 and takes > refused


def _error_of(errors: Sequence[MemoryOSError]) -> MemoryOSError:
    too_long = [error for error in errors if isinstance(error, ModelContextExceeded)]
    if too_long:
        return too_long[-1]
    return errors[0] if errors else ModelUnavailable("no endpoint had time to answer")
