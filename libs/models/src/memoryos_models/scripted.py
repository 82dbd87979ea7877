"""A scripted OpenAI-compatible server over real HTTP, for demo and tests. No model: a script gives every reply.

It can also misbehave as real endpoints do: late, busy, cut off, malformed, hung up.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from memoryos_models.scripted_stream import ScriptedStream, fault_bytes, stream_events

MODEL_NAME = "scripted"
_REQUESTS_KEPT = 1_000
_REQUEST_BYTES_MAX = 16_777_216


@dataclass(frozen=True, kw_only=True)
class ScriptedCall:
    """A tool call of the script. Arguments given as text go out as they are, malformed or not."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptedReply:
    """What the server answers to one request."""

    content: str = ""
    tool_calls: Sequence[ScriptedCall] = ()
    finish_reason: str | None = "auto"
    """auto: tool_calls or stop; `length` for a truncated reply; None leaves the field out."""
    status: int = 200
    """429, 503 and the like answer with an error body."""
    retry_after_s: float | None = None
    delay_s: float = 0.0
    body: bytes | None = None
    """Sent instead of a well-formed body."""
    hang_up: bool = False
    """Close the connection without an answer."""
    stream: ScriptedStream = field(default_factory=ScriptedStream)
    """How it is streamed, when the request asks for a stream."""


Script = Callable[[dict[str, Any]], ScriptedReply | str]
"""Request as JSON → reply; a text is a plain reply. Runs in the server's threads."""
Embed = Callable[[list[str]], list[list[float]]]
Rerank = Callable[[str, list[str]], list[float]]


class ScriptedServer:
    """Serves `/v1/chat/completions` by a script, `/v1/embeddings` where `embed` is given, and with `rerank`
    `/v1/rerank` and (as text-embeddings-inference) `/rerank`, both in the order of the scores.

    `with ScriptedServer(script) as server:` listens on a free port of
    127.0.0.1; `server.base_url` goes into `models.chat_url`. `server.requests`
    holds the newest 1,000 chat requests; `server.hung_up` is set when a client
    left in the middle of a stream.
    """

    def __init__(
        self,
        script: Script,
        *,
        embed: Embed | None = None,
        rerank: Rerank | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.script = script
        self.embed = embed
        self.rerank = rerank
        self.requests: deque[dict[str, Any]] = deque(maxlen=_REQUESTS_KEPT)
        self.stopping = threading.Event()
        self.hung_up = threading.Event()
        self._server = _Server((host, port), _Handler)
        self._server.scripted = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="scripted-model", daemon=True
        )

    @property
    def base_url(self) -> str:
        """Address for `models.chat_url` and `models.embedding_url`."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def start(self) -> ScriptedServer:
        """Listen, in threads of this process."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening; delayed replies are sent at once."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> ScriptedServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class QuietServer(ThreadingHTTPServer):
    """A server to which a client that hangs up is no error."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See BaseServer.handle_error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Server(QuietServer):
    scripted: ScriptedServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _scripted(self) -> ScriptedServer:
        return cast(_Server, self.server).scripted

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._send_json(200, {"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]})
        else:
            self._send_error(404)

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        if length > _REQUEST_BYTES_MAX:
            self.close_connection = True
            self._send_error(413)
            return
        try:
            request = json.loads(self.rfile.read(length))
        except ValueError:
            self._send_error(400)
            return
        path = self.path.rstrip("/")
        if path == "/v1/chat/completions":
            self._chat(request)
        elif path == "/v1/embeddings" and self._scripted.embed is not None:
            self._embeddings(request, self._scripted.embed)
        elif path in ("/v1/rerank", "/rerank") and self._scripted.rerank is not None:
            self._rerank(request, self._scripted.rerank, tei=path == "/rerank")
        else:
            self._send_error(404)

    def _chat(self, request: dict[str, Any]) -> None:
        self._scripted.requests.append(request)
        answer = self._scripted.script(request)
        reply = ScriptedReply(content=answer) if isinstance(answer, str) else answer
        if reply.delay_s:
            self._scripted.stopping.wait(reply.delay_s)
        if reply.hang_up:
            self.close_connection = True
        elif reply.body is not None:
            self._send(reply.status, reply.body, reply.retry_after_s)
        elif reply.status != 200:
            self._send_error(reply.status, reply.retry_after_s)
        elif request.get("stream") is True:
            self._stream(render_completion(request, reply), reply.stream)
        else:
            self._send_json(200, render_completion(request, reply))

    def _stream(self, completion: dict[str, Any], how: ScriptedStream) -> None:
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for number, event in enumerate(stream_events(completion, how)):
                if how.fault and number == how.fault_after:
                    self._chunk(fault_bytes(how), how.write_bytes)
                    if how.fault == "stall":
                        self._scripted.stopping.wait(60)
                    if how.fault in ("hang_up", "stall"):
                        self.close_connection = True
                        return
                    if how.fault in ("cut", "error"):
                        break
                self._chunk(b": keep-alive\n\n" * how.keep_alives + event, how.write_bytes)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
            self._scripted.hung_up.set()

    def _chunk(self, data: bytes, size: int) -> None:
        for start in range(0, len(data), size or len(data) or 1):
            piece = data[start : start + (size or len(data))]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()

    def _embeddings(self, request: dict[str, Any], embed: Embed) -> None:
        given = request["input"]
        vectors = embed([given] if isinstance(given, str) else list(given))
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        self._send_json(200, {"object": "list", "model": request.get("model", MODEL_NAME), "data": data})

    def _rerank(self, request: dict[str, Any], rerank: Rerank, *, tei: bool) -> None:
        scores = rerank(request["query"], list(request["texts" if tei else "documents"]))
        order = sorted(range(len(scores)), key=lambda position: -scores[position])
        name = "score" if tei else "relevance_score"
        results = [{"index": position, name: scores[position]} for position in order]
        self._send_json(200, results if tei else {"model": request.get("model", MODEL_NAME), "results": results})

    def _send_error(self, status: int, retry_after_s: float | None = None) -> None:
        body = {"error": {"message": f"scripted answer {status}", "type": "scripted", "code": status}}
        self._send(status, json.dumps(body).encode(), retry_after_s)

    def _send_json(self, status: int, value: object) -> None:
        self._send(status, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), None)

    def _send(self, status: int, body: bytes, retry_after_s: float | None) -> None:
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if retry_after_s is not None:
                self.send_header("retry-after", f"{retry_after_s:g}")
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has left, as clients do after their deadline

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests hold content."""


def render_completion(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    """Give the body of a chat completion; equal requests get equal ids."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:12]
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{digest}_{i}",
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments
                    if isinstance(call.arguments, str)
                    else json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for i, call in enumerate(reply.tool_calls)
        ]
    choice: dict[str, Any] = {"index": 0, "message": message}
    if reply.finish_reason == "auto":
        choice["finish_reason"] = "tool_calls" if reply.tool_calls else "stop"
    elif reply.finish_reason is not None:
        choice["finish_reason"] = reply.finish_reason
    asked = sum(len(str(entry.get("content") or "")) for entry in request.get("messages", []))
    usage = {"prompt_tokens": asked // 4 + 1, "completion_tokens": len(reply.content) // 4 + 1}
    return {
        "id": f"chatcmpl-{digest}",
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model", MODEL_NAME),
        "choices": [choice],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }
