"""Second: errors become rich statuses; what nobody foresaw becomes INTERNAL without text."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NoReturn

import grpc
from memoryos_core.errors import Code, InternalError, MemoryOSError
from memoryos_telemetry.context import current_trace_id
from memoryos_telemetry.tracer import error_type

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.ports import AuditSink, DenialKind, Proceed
from memoryos_grpc.status import from_unknown, grpc_code, public_message, to_trailers

AUDIT_TIMEOUT_S: Final = 2.0
_DENIALS: Final = {
    Code.UNAUTHENTICATED: DenialKind.AUTH_FAILED,
    Code.PERMISSION_DENIED: DenialKind.PERMISSION_DENIED,
}
_log = logging.getLogger(__name__)


class Errors:
    """Answers every exception, and has denials recorded, whoever raised them."""

    def __init__(self, audit: AuditSink) -> None:
        self._audit = audit
        self._recording: set[asyncio.Task[None]] = set()

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Run the call; abort it with a status when it raises."""
        try:
            await proceed(call)
        except grpc.aio.AbortError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this call: something that it awaited was. gRPC would leave the caller waiting.
            await self._refuse(call, InternalError(), error)
        except MemoryOSError as error:
            await self._refuse(call, error, error)
        except Exception as error:
            await self._refuse(call, from_unknown(error), error)

    async def _refuse(self, call: IncomingCall, answer: MemoryOSError, error: BaseException) -> NoReturn:
        call.code, call.error_type = grpc_code(answer), error_type(error)
        if answer.code is Code.INTERNAL:
            _log.error("internal error in %s", call.method.full_name, exc_info=error)
        denial = _DENIALS.get(answer.code)
        if denial is not None:
            # Shielded: a caller that hangs up at once is recorded all the same.
            task = asyncio.create_task(self._record(denial, call, answer.reason))
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)
            await asyncio.shield(task)
        trace_id = current_trace_id()
        await call.context.abort(call.code, public_message(answer, trace_id), to_trailers(answer, trace_id))
        raise AssertionError("abort returned")

    async def _record(self, kind: DenialKind, call: IncomingCall, reason: str) -> None:
        try:
            async with asyncio.timeout(AUDIT_TIMEOUT_S):
                await self._audit.denied(kind, call.method.full_name, call.caller, reason)
        except Exception as error:
            # The call is refused in any case; only the record is missing.
            _log.error("denial not recorded", exc_info=error, extra={"kind": str(kind), "reason": reason})
