"""A deployment for whole tasks: skills before an upstream that a scene plays, and a model that a scene plays."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import yaml
from memoryos_models.scripted import QuietServer, ScriptedServer
from memoryos_policy.bundles import default_bundle_dir
from memoryos_sdk import Client, connect
from memoryos_testing.stack import Stack, running_stack
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_locks import pin_skill
from memoryos_toolgateway.domain.skill_lock import Pin

TENANT: Final = "acme"
_RULES: Final = """\
package memoryos.skills["{name}"]

import data.memoryos.subjects

visible if subjects.known

allow contains {{"code": "ok", "text": "It may."}}
"""


@dataclass(frozen=True)
class Asked:
    """One request to the upstream."""

    method: str
    path: str
    key: str
    """Its idempotency key."""
    body: Mapping[str, Any]


Answer = Callable[[Asked], tuple[int, bytes] | None]
"""Status and body; None: hang up without a word. Runs in the upstream's threads."""


@contextmanager
def upstream(answer: Answer) -> Iterator[str]:
    """Serve until the block ends; give host:port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(self.command, self.path, self.headers.get("idempotency-key") or "", json.loads(raw or b"{}"))
            found = answer(asked)
            if found is None:
                self.close_connection = True
                return
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked has left, as after a time-out
                self.send_response(found[0])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(found[1])))
                self.end_headers()
                self.wfile.write(found[1])

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class TaskWorld:
    """What runs."""

    stack: Stack
    model: ScriptedServer

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[Client]:
        """Give a client that speaks for a user."""
        addresses: dict[str, Any] = dict(self.stack.addresses)
        client = connect(token=self.stack.token(TENANT, user, roles=("user",)), **addresses)
        try:
            yield client
        finally:
            await client.close()


@asynccontextmanager
async def running(
    script: Callable[[dict[str, Any]], Any],
    answer: Answer,
    *,
    skills: Sequence[Mapping[str, Any]],
    agents: Sequence[Mapping[str, Any]],
    settings: Sequence[str] = (),
    without: Sequence[str] = (),
) -> AsyncIterator[TaskWorld]:
    """Give a world of these skills and agents; it ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="memoryos-eval-tasks-"))
    try:
        with upstream(answer) as at, ScriptedServer(script) as model:
            _write(folder, skills, agents)
            wanted = [
                f"policy.bundle_dir={folder / 'bundle'}",
                f"tool-gateway.skill_dirs=[{folder / 'skills'}]",
                f"tool-gateway.endpoints={{UPSTREAM: '{at}'}}",
                f"tool-gateway.networks=['{at}']",
                f"harness.agents_dir={folder / 'agents'}",
                f"models.chat_url={model.base_url}",
                "models.chat_model=scripted",
                *settings,
            ]
            async with running_stack(settings=wanted, without=without) as stack:
                yield TaskWorld(stack, model)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def skill(name: str, effect_class: str, *, path: str = "", **more: Any) -> dict[str, Any]:
    """Give the document of a skill that sends its arguments to the upstream as they are."""
    connector = {"type": "http", "endpoint": "${UPSTREAM}", "method": "POST", "path": path or f"/{name}"}
    connector |= {"body": "arguments", "idempotency_header": "Idempotency-Key"}
    return {
        "name": name,
        "version": "1",
        "description": f"The tool {name} of an evaluation.",
        "parameters": {"type": "object", "additionalProperties": True},
        "effect_class": effect_class,
        "risk": "low",
        "egress": "none",
        "timeout_s": 10,
        "connector": connector | more.pop("connector", {}),
        **more,
    }


def _write(folder: Path, skills: Sequence[Mapping[str, Any]], agents: Sequence[Mapping[str, Any]]) -> None:
    shutil.copytree(default_bundle_dir(), folder / "bundle", ignore=shutil.ignore_patterns("*_test.rego"))
    for name in ("skills", "agents"):
        (folder / name).mkdir()
    for document in skills:
        name = str(document["name"])
        rules = folder / "bundle" / "memoryos" / "skills" / name
        rules.mkdir(parents=True, exist_ok=True)
        (rules / f"{name}.rego").write_text(_RULES.format(name=name), encoding="utf-8")
        file = folder / "skills" / f"{name}.yaml"
        file.write_text(yaml.safe_dump(dict(document)), encoding="utf-8")
        digest = load_skill(file, {"UPSTREAM": "127.0.0.1:1"}).definition_digest
        pin = Pin(digest=digest, opened=True, accepted_by="eval", accept_time="2026-01-01T00:00:00Z")
        pin_skill(folder / "skills", name, pin)
    for agent in agents:
        (folder / "agents" / f"{agent['name']}.yaml").write_text(yaml.safe_dump(dict(agent)), encoding="utf-8")
