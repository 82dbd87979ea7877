"""Rerankers under one contract, against a real HTTP server, and how its failures show."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from memoryos_models.adapters.http_reranker import HttpReranker
from memoryos_models.build import build_reranker
from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelRejected, ModelReplyInvalid, ModelUnavailable
from memoryos_models.ports import Reranker
from memoryos_models.scripted import ScriptedServer
from memoryos_testing.contracts.reranker import RerankerContract


def common_words(query: str, texts: list[str]) -> list[float]:
    asked = set(query.split())
    return [len(asked & set(text.split())) / max(1, len(asked)) for text in texts]


def logits(query: str, texts: list[str]) -> list[float]:
    return [20 * score - 10 for score in common_words(query, texts)]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda _: "", rerank=common_words) as running:
        yield running


def endpoint(kind: str, url: str, **fields: object) -> ModelsSection:
    return ModelsSection.model_validate({"reranker": kind, "reranker_url": url, "reranker_model": "tiny", **fields})


class TestOpenAI(RerankerContract):
    @pytest.fixture
    async def reranker(self, server: ScriptedServer) -> AsyncIterator[Reranker]:
        reranker = HttpReranker(endpoint("openai", server.base_url))
        yield reranker
        await reranker.close()


class TestTei(RerankerContract):
    @pytest.fixture
    async def reranker(self, server: ScriptedServer) -> AsyncIterator[Reranker]:
        reranker = HttpReranker(endpoint("tei", server.base_url.removesuffix("/v1")))
        yield reranker
        await reranker.close()


class TestLogits(RerankerContract):
    @pytest.fixture
    async def reranker(self, server: ScriptedServer) -> AsyncIterator[Reranker]:
        server.rerank = logits
        reranker = HttpReranker(endpoint("openai", server.base_url))
        yield reranker
        await reranker.close()


class Recorder(ThreadingHTTPServer):
    """Answers every POST with `answer` after `gate` is open and keeps what was asked."""

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.gate = threading.Event()
        self.gate.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Recorder)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body, self.headers.get("authorization")))
        self.server.gate.wait(30)
        status, raw = self.server.answer(body)
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = Recorder(lambda _: (200, b"[]"))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()
    thread.join()


async def test_the_two_forms_on_the_wire(recorder: Recorder, tmp_path) -> None:
    (tmp_path / "key").write_text("k-1")
    recorder.answer = lambda body: (200, json.dumps([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]).encode())
    tei = HttpReranker(
        endpoint("tei", recorder.url + "/", reranker_key_file=str(tmp_path / "key"), reranker_text_chars_max=100)
    )
    assert await tei.rerank("q", ["a" * 200, "b"], deadline_s=5) == [0.1, 0.9]
    path, body, authorization = recorder.asked[-1]
    assert path == "/rerank"
    assert body == {"query": "q", "texts": ["a" * 100, "b"], "truncate": True, "raw_scores": False}
    assert authorization == "Bearer k-1"
    recorder.answer = lambda body: (200, b'{"results": [{"index": 0, "relevance_score": 0.5}]}')
    openai = HttpReranker(endpoint("openai", recorder.url + "/v1"))
    assert await openai.rerank("q", ["a"], deadline_s=5) == [0.5]
    path, body, authorization = recorder.asked[-1]
    assert path == "/v1/rerank"
    assert body == {"model": "tiny", "query": "q", "documents": ["a"], "top_n": 1, "return_documents": False}
    assert authorization is None
    await tei.close()
    await openai.close()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (503, b"", ModelUnavailable),
        (429, b"", ModelUnavailable),
        (401, b"", ModelRejected),
        (413, b"", ModelRejected),
        (200, b"secret", ModelReplyInvalid),
        (200, b"null", ModelReplyInvalid),
        (200, b'{"results": null}', ModelReplyInvalid),
        (200, b'[{"index": 0, "score": 0.5}]', ModelReplyInvalid),
        (200, b'[{"index": 0, "score": 0.5}, {"index": 0, "score": 0.5}]', ModelReplyInvalid),
        (200, b'[{"index": 0, "score": 0.5}, {"index": 2, "score": 0.5}]', ModelReplyInvalid),
        (200, b'[{"index": 0, "score": NaN}, {"index": 1, "score": 0.5}]', ModelReplyInvalid),
        (200, b'[{"index": 0, "score": "1"}, {"index": 1, "score": 0.5}]', ModelReplyInvalid),
        (200, b'[{"index": true, "score": 1}, {"index": 0, "score": 0.5}]', ModelReplyInvalid),
    ],
)
async def test_failures_are_typed_and_tell_nothing(recorder: Recorder, status: int, body: bytes, error: type) -> None:
    recorder.answer = lambda _: (status, body)
    reranker = HttpReranker(endpoint("tei", recorder.url))
    with pytest.raises(error) as failed:
        await reranker.rerank("q", ["a", "b"], deadline_s=5)
    assert "secret" not in str(failed.value)
    await reranker.close()


async def test_a_late_endpoint_is_unavailable_at_the_deadline(recorder: Recorder) -> None:
    recorder.gate.clear()
    reranker = HttpReranker(endpoint("tei", recorder.url))
    with pytest.raises(ModelUnavailable):
        await reranker.rerank("q", ["a"], deadline_s=0.1)
    await reranker.close()


def test_off_by_default_and_incomplete_settings_are_refused() -> None:
    assert build_reranker(ModelsSection()) is None
    with pytest.raises(ValueError, match="reranker_url"):
        build_reranker(ModelsSection(reranker="tei"))
    with pytest.raises(ValueError, match="reranker_model"):
        build_reranker(ModelsSection(reranker="openai", reranker_url="http://127.0.0.1:9/v1"))
