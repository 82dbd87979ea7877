"""Model, tools and memory that answer at once, in a process of their own: `python -m bench.stubs PORTS_FILE`.

What is left of a task's time is what its durability costs. The model asks for
as many calls of the one tool as the number in the question says, one in each
reply, and then answers. Nobody's token is looked at.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from memoryos.memoryfs.v1 import bindings_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_testing.servicers import completed

SKILL: Final = "bench.look"
_TOOL: Final = "bench__look"
_LENGTH: Final = b"content-length: "


async def _empty(servicer: Any, request: Any, context: Any, empty: Any) -> Any:
    return empty


@completed("memoryos.toolgateway.v1.ToolGateway", _empty)
class _Tools(tool_gateway_pb2_grpc.ToolGatewayServicer):
    async def ListSkills(
        self, request: tool_gateway_pb2.ListSkillsRequest, context: Any
    ) -> tool_gateway_pb2.ListSkillsResponse:
        skill = tool_gateway_pb2.Skill(
            name=SKILL,
            description="Looks.",
            parameters_json=b'{"type":"object","properties":{"n":{"type":"integer"}}}',
        )
        return tool_gateway_pb2.ListSkillsResponse(skills=[skill])

    async def CallSkill(
        self, request: tool_gateway_pb2.CallSkillRequest, context: Any
    ) -> tool_gateway_pb2.CallSkillResponse:
        call = tool_gateway_pb2.Call(
            id="call_" + request.request_id.removeprefix("step_"),
            skill=request.skill,
            state=tool_gateway_pb2.CALL_STATE_SUCCEEDED,
            result_json=request.arguments_json,
        )
        return tool_gateway_pb2.CallSkillResponse(call=call)


@completed("memoryos.memoryfs.v1.MemoryFS", _empty)
class _Memory(memoryfs_pb2_grpc.MemoryFSServicer):
    async def Bind(self, request: bindings_pb2.BindRequest, context: Any) -> bindings_pb2.BindResponse:
        return bindings_pb2.BindResponse(binding=bindings_pb2.Binding(id="bind_01ARZ3NDEKTSV4RRFFQ69G5FAV"))

    async def Read(self, request: memoryfs_pb2.ReadRequest, context: Any) -> memoryfs_pb2.ReadResponse:
        return memoryfs_pb2.ReadResponse()


class _Model(asyncio.Protocol):
    """An OpenAI-compatible endpoint on kept connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        _, found, length = head.lower().partition(_LENGTH)
        if found and len(body) < int(length.split(b"\r\n")[0]):
            return
        self._data = b""
        answer = json.dumps(_reply(json.loads(body))).encode()
        lines = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
        self._transport.write(lines + answer)


def _reply(request: Mapping[str, Any]) -> dict[str, Any]:
    messages = request["messages"]
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    done = sum(message["role"] == "tool" for message in messages[asked:])
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if done < int(messages[asked]["content"]):
        call = {"id": f"c{done}", "type": "function", "function": {"name": _TOOL, "arguments": f'{{"n":{done}}}'}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "tool_calls" if message["content"] is None else "stop"
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


@asynccontextmanager
async def stubs(folder: Path) -> AsyncIterator[Mapping[str, str]]:
    """Run the stubs and give host:port of `model` and `peers`."""
    file = folder / "stubs.json"
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.stubs", str(file))
    try:
        async with asyncio.timeout(30):
            while not file.exists():  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)
        found: dict[str, int] = json.loads(file.read_text(encoding="ascii"))
        yield {name: f"127.0.0.1:{port}" for name, port in found.items()}
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _serve(file: Path) -> None:
    model = await asyncio.get_running_loop().create_server(_Model, "127.0.0.1", 0)
    peers = grpc.aio.server()
    # `completed` gives the methods that are not written out.
    tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server(_Tools(), peers)  # type: ignore[abstract]
    memoryfs_pb2_grpc.add_MemoryFSServicer_to_server(_Memory(), peers)  # type: ignore[abstract]
    port = peers.add_insecure_port("127.0.0.1:0")
    await peers.start()
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"model": model.sockets[0].getsockname()[1], "peers": port}), encoding="ascii")
    part.rename(file)
    await model.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
