"""One incoming call on its way through the interceptors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.descriptor import Descriptor

from memoryos_grpc.methods import MethodRule

if TYPE_CHECKING:
    from memoryos_grpc.caller import Caller


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC that a server offers."""

    full_name: str
    """/package.Service/Method, as on the wire."""
    rule: MethodRule
    request: Descriptor
    parse: Callable[[bytes], Any]
    streams: bool

    @property
    def service(self) -> str:
        """Full name of the service."""
        return self.full_name[1:].partition("/")[0]

    @property
    def name(self) -> str:
        """Name of the method within its service."""
        return self.full_name.rpartition("/")[2]


class IncomingCall:
    """What interceptors know of a call. `request` is set by validate, `reply` by the handler."""

    __slots__ = ("caller", "code", "context", "error_type", "metadata", "method", "raw", "reply", "request")

    def __init__(self, method: Method, raw: bytes, context: grpc.aio.ServicerContext) -> None:
        self.method = method
        self.raw = raw
        self.context = context
        self.metadata: tuple[tuple[str, str | bytes], ...] = tuple(context.invocation_metadata() or ())
        self.request: Any = None
        self.reply: bytes | None = None
        self.caller: Caller | None = None
        self.code = grpc.StatusCode.OK
        self.error_type = ""

    def values(self, key: str) -> list[str | bytes]:
        """Give every value of a metadata key (lower case)."""
        return [value for name, value in self.metadata if name == key]
