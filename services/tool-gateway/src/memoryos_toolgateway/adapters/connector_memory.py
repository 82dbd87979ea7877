"""The built-in connector: memory.read and memory.write, with the caller's own token.

What may be read or written is decided by MemoryFS from that token, as if the
caller had asked it directly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_core.canonical import canonical_json
from memoryos_core.errors import DeadlineExceeded, MemoryOSError
from memoryos_core.scope import Scope
from memoryos_grpc import scope as caller_scope
from memoryos_grpc.budget import set_deadline

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.results import result_json
from memoryos_toolgateway.domain.skill import BuiltinConnector, Operation, Skill
from memoryos_toolgateway.errors import ArgumentsInvalid
from memoryos_toolgateway.ports import Attempt

_log = logging.getLogger(__name__)
PLACES_MAX: Final = 8
"""Default places that one memory.read looks in."""
TOP_K_DEFAULT: Final = 10
_ORIGINS: Final = {
    "stated": item_pb2.ORIGIN_STATED,
    "observed": item_pb2.ORIGIN_OBSERVED,
    "inferred": item_pb2.ORIGIN_INFERRED,
}
_EXACTNESS: Final = {
    memoryfs_pb2.EXACTNESS_EXACT: "exact",
    memoryfs_pb2.EXACTNESS_APPROXIMATE: "approximate",
    memoryfs_pb2.EXACTNESS_TRUNCATED: "truncated",
}
# MemoryFS answered and did not do it. What is not here leaves doubt.
_REFUSALS: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: messages.REFUSED,
    grpc.StatusCode.FAILED_PRECONDITION: messages.REFUSED,
    grpc.StatusCode.NOT_FOUND: messages.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED: messages.FORBIDDEN,
    grpc.StatusCode.UNAUTHENTICATED: messages.FORBIDDEN,
    grpc.StatusCode.RESOURCE_EXHAUSTED: messages.BUSY,
    grpc.StatusCode.UNIMPLEMENTED: messages.REFUSED,
}


class MemoryConnector:
    """ports.Connector on MemoryFS."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._memory = memoryfs_pb2_grpc.MemoryFSStub(channel)

    def check(self, skill: Skill, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsInvalid when MemoryFS has no such request."""
        try:
            if _operation(skill) is Operation.MEMORY_WRITE:
                _entry(arguments, "")
        except (ValueError, TypeError):
            raise ArgumentsInvalid.of([("", "expected what MemoryFS takes")]) from None

    async def attempt(self, attempt: Attempt) -> Outcome:
        """Ask MemoryFS once; the call id makes a second write the first one."""
        # The call may have outlived the RPC that asked for it: its own time-out rules.
        set_deadline(asyncio.get_running_loop().time() + attempt.skill.timeout_s)
        try:
            if _operation(attempt.skill) is Operation.MEMORY_READ:
                value, facts = await self._read(caller_scope(), attempt)
            else:
                value, facts = await self._write(caller_scope(), attempt), frozenset()
        except grpc.aio.AioRpcError as error:
            _log.info("memory did not answer", extra={"call_id": attempt.call_id, "code": error.code().name})
            return _failure(error)
        except (DeadlineExceeded, MemoryOSError, ValueError, TypeError) as error:
            _log.warning("memory not asked", extra={"call_id": attempt.call_id, "error_type": type(error).__name__})
            return Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)
        result = result_json(canonical_json(value), attempt.skill, attempt.arguments)
        return Outcome(kind=OutcomeKind.SUCCEEDED, result=result, facts=facts)

    async def _read(self, scope: Scope, attempt: Attempt) -> tuple[dict[str, Any], frozenset[str]]:
        arguments = attempt.arguments
        top_k = arguments.get("top_k", TOP_K_DEFAULT)
        paths = [arguments["path"]] if "path" in arguments else _places(scope)
        answers = await asyncio.gather(
            *(
                self._memory.Read(_read_request(path, arguments, top_k), timeout=attempt.skill.timeout_s)
                for path in paths
            )
        )
        hits = sorted((hit for answer in answers for hit in answer.hits), key=_rank)[:top_k]
        exact = all(answer.exactness == memoryfs_pb2.EXACTNESS_EXACT for answer in answers)
        exactness = "exact" if exact else _EXACTNESS.get(answers[0].exactness, "truncated")
        return {"hits": [_hit(hit) for hit in hits], "exactness": exactness}, _facts(scope, hits)

    async def _write(self, scope: Scope, attempt: Attempt) -> dict[str, Any]:
        arguments = attempt.arguments
        request = memoryfs_pb2.WriteRequest(
            path=arguments.get("path") or _default_place(scope),
            entries=[_entry(arguments, attempt.call_id)],
            request_id=attempt.call_id,
        )
        answer = await self._memory.Write(request, timeout=attempt.skill.timeout_s)
        result = answer.results[0]
        state = item_pb2.State.Name(result.state).removeprefix("STATE_").lower()
        return {"id": result.id, "revision": result.revision, "state": state, "gated": result.gated}


def _operation(skill: Skill) -> Operation:
    assert isinstance(skill.connector, BuiltinConnector)
    return skill.connector.operation


def _places(scope: Scope) -> list[str]:
    """The places bound to the caller's token, else the episodic memory of its tenant."""
    if scope.read_paths is None:
        return [f"/tenants/{scope.tenant}/memory/episodic"]
    return [str(path) for path in scope.read_paths[:PLACES_MAX]]


def _default_place(scope: Scope) -> str:
    if scope.write_paths:
        return str(scope.write_paths[0])
    return f"/tenants/{scope.tenant}/memory/episodic/{scope.user}"


def _read_request(path: str, arguments: dict[str, Any], top_k: int) -> memoryfs_pb2.ReadRequest:
    request = memoryfs_pb2.ReadRequest(path=path, query=arguments.get("query", ""), top_k=top_k)
    request.filter.users.extend([arguments["user"]] if "user" in arguments else [])
    request.filter.tags_all.extend(arguments.get("tags", []))
    if "min_score" in arguments:
        request.min_score = arguments["min_score"]
    return request


def _entry(arguments: dict[str, Any], call_id: str) -> memoryfs_pb2.WriteEntry:
    entry = memoryfs_pb2.WriteEntry(
        content=arguments["content"],
        tags=arguments.get("tags", []),
        user=arguments.get("user", ""),
        origin=_ORIGINS[arguments.get("origin", "observed")],
        source=item_pb2.Source(call_id=call_id),
    )
    for name in ("confidence", "importance"):
        if name in arguments:
            setattr(entry, name, arguments[name])
    if "attributes" in arguments:
        entry.attributes_json = canonical_json(arguments["attributes"])
    if "event" in arguments:
        entry.event_key.CopyFrom(item_pb2.EventKey(**arguments["event"]))
    if "time" in arguments:
        valid_from = Timestamp()
        valid_from.FromJsonString(arguments["time"].upper())
        entry.valid_from.CopyFrom(valid_from)
    return entry


def _rank(hit: memoryfs_pb2.Hit) -> tuple[float, str]:
    return (-hit.score, hit.item.id)


def _hit(hit: memoryfs_pb2.Hit) -> dict[str, Any]:
    item = hit.item
    return {
        "id": item.id,
        "path": item.path,
        "content": item.content,
        "score": round(hit.score, 4),
        "time": item.valid_from.ToJsonString(),
        "user": item.user,
        "tags": list(item.tags),
        "confidence": item.confidence,
        "trust": "trusted" if item.trust == item_pb2.TRUST_TRUSTED else "untrusted",
    }


def _facts(scope: Scope, hits: Sequence[memoryfs_pb2.Hit]) -> frozenset[str]:
    """What the hits bring into a session, as MemoryFS says it: kept with the result for whoever reads that again."""
    items = [hit.item for hit in hits]
    untrusted = any(item.trust != item_pb2.TRUST_TRUSTED for item in items)
    personal = any(item.sensitivity > 0 or item.user not in ("", scope.user) for item in items)
    return frozenset(({"untrusted_content"} if untrusted else set()) | ({"personal_data"} if personal else set()))


def _failure(error: grpc.aio.AioRpcError) -> Outcome:
    sentence = _REFUSALS.get(error.code())
    if sentence is None:
        return Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)
    code = messages.THROTTLED_CODE if sentence == messages.BUSY else messages.REFUSED_CODE
    return Outcome(kind=OutcomeKind.REFUSED, error_code=code, agent_message=sentence)
