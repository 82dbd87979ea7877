"""Bindings: paths attached to a session, a task or an agent; defaults and a ceiling, never a grant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from memoryos.memoryfs.v1 import bindings_pb2

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.paging import Pager
from memoryos_sdk.results import Binding, binding


class BindingCalls(Calls):
    """Default places and ceilings."""

    async def bind(
        self,
        *,
        session: str = "",
        task: str = "",
        agent: str = "",
        read_paths: Sequence[str] = (),
        write_paths: Sequence[str] = (),
        owns_working_memory: bool = False,
        ttl: timedelta | None = None,
        request_id: str | None = None,
    ) -> Binding:
        """Attach paths to one of session, task and agent; doing it again renews and replaces."""
        if sum(map(bool, (session, task, agent))) != 1:
            raise InvalidArgument.of("target", "give one of session, task and agent")
        request = bindings_pb2.BindRequest(request_id=request_id or new_request_id())
        target = request.binding
        if session:
            target.session_id = session
        elif task:
            target.task_id = task
        else:
            target.agent = agent
        target.read_paths.extend(read_paths)
        target.write_paths.extend(write_paths)
        target.owns_working_memory = owns_working_memory
        if ttl is not None:
            request.ttl.FromTimedelta(ttl)
        return binding((await self._invocation.unary(self._stub.Bind, request)).binding)

    async def unbind(self, id: str, *, request_id: str | None = None) -> int:
        """End a binding and give the number of working items that went with it."""
        request = bindings_pb2.UnbindRequest(id=id, request_id=request_id or new_request_id())
        return int((await self._invocation.unary(self._stub.Unbind, request)).forgotten_count)

    def list_bindings(self, *, session: str = "", task: str = "", agent: str = "") -> Pager[Binding]:
        """Give the caller's bindings, newest first."""
        request = bindings_pb2.ListBindingsRequest(session_id=session, task_id=task, agent=agent)
        return self._pager(self._stub.ListBindings, request, lambda answer: [binding(one) for one in answer.bindings])
