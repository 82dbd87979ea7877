"""Last: the request is parsed and every field rule of the proto holds, or all broken ones are named."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError
from memoryos_core.errors import FieldViolation, InvalidField
from memoryos_core.paths import PathInvalid

from memoryos_grpc.call import IncomingCall, Method
from memoryos_grpc.ports import Proceed
from memoryos_grpc.validation.messages import Checker, compile_checker
from memoryos_grpc.validation.violations import VIOLATIONS_MAX, Violation


class Validate:
    """Checks requests by rules compiled once per message type."""

    def __init__(self, methods: Iterable[Method]) -> None:
        self._checkers: dict[str, Checker] = {method.full_name: compile_checker(method.request) for method in methods}

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Set the request of the call, or refuse it."""
        try:
            request = call.method.parse(call.raw)
        except DecodeError:
            raise InvalidField("The request is no valid message, or a string is no UTF-8.") from None
        found: list[Violation] = []
        self._checkers[call.method.full_name](request, found)
        if found:
            raise _refusal(found)
        call.request = request
        await proceed(call)


def _refusal(found: list[Violation]) -> InvalidField | PathInvalid:
    violations = [FieldViolation(v.field, v.description) for v in found[:VIOLATIONS_MAX]]
    fields = ", ".join(v.field for v in violations[:3]) + (", …" if len(violations) > 3 else "")
    if all(v.is_path for v in found):
        return PathInvalid(f"{fields}: {violations[0].description}", violations=violations)
    return InvalidField(f"Fields break their rules: {fields}.", violations=violations)
