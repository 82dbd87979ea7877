"""The deployment of the rounds of tool calls with a harness, two workers and a model before it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml
from memoryos.harness.v1 import sessions_pb2_grpc, tasks_pb2_grpc
from memoryos_postgres.embedded import EmbeddedPostgres

from .acting_deployment import Deployment
from .acting_skills import SKILLS

WORKERS: Final = ("worker-a", "worker-b")
MORTAL: Final = ("postgres", "opa", "policy", "gateway-a", "harness", *WORKERS)
"""Parts that are killed."""
LEASE_S: Final = 10.0
_HERE = Path(__file__).parent


class TasksDeployment(Deployment):
    """See `Deployment`. Upstream and model, which stand for the world outside, are not killed."""

    parts = ("postgres", "opa", "upstream", "model", "policy", "gateway-a", "harness", *WORKERS)
    serving = ("policy", "gateway-a", "harness")
    schemas = ("core", "memoryfs", "policy", "toolgateway", "harness")

    def __init__(self, folder: Path, postgres: EmbeddedPostgres) -> None:
        super().__init__(folder, postgres)
        self.tasks = tasks_pb2_grpc.TasksStub(self.channels["harness"])
        self.sessions = sessions_pb2_grpc.SessionsStub(self.channels["harness"])
        self.span_dir = folder / "spans"
        agents = folder / "agents"
        agents.mkdir()
        agent = {
            "name": "clerk",
            "instructions": "You file documents.",
            "skills": sorted(name for name in SKILLS if name != "chaos.rated"),
            "context": {"tokens": 1_000_000},
            "on_failure": {"*": {"retries": 2, "backoff_s": 0.1}},
            "same_failures": 10,
            "limits": {"steps": 500, "calls": 500, "seconds": 3600, "tokens": 10_000_000, "attempts": 20},
        }
        (agents / "clerk.yaml").write_text(yaml.safe_dump(agent))

    def _settings(self, bundle: Path, skills: Path) -> dict[str, Any]:
        settings = super()._settings(bundle, skills)
        # Every process that was killed leaves a file, and all of them are looked at in the end.
        settings["telemetry"] |= {"span_files_max": 1_000, "span_file_bytes_max": 268_435_456}
        settings["peers"]["tool_gateway"] = f"127.0.0.1:{self._ports['gateway-a']}"
        settings["identity"]["task_key_file"] = str(self._folder / "tasks.pem")
        settings["models"] = {"chat_url": f"http://127.0.0.1:{self._ports['model']}/v1", "chat_model": "scripted"}
        settings["harness"] = {
            "agents_dir": str(self._folder / "agents"), "lease_s": LEASE_S, "heartbeat_s": 1, "sweep_s": 0.2,
            "queue_poll_s": 0.2, "wake_up_grace_s": 2, "lost_worker_s": 5, "retry_base_s": 0.2, "retry_max_s": 2,
            "concurrency": 8,
        }  # fmt: skip
        return settings

    def _may_end(self, name: str) -> bool:
        """A worker that is started while the database is down for long ends, as supervisors start it again."""
        return name in WORKERS and self._log(name).rstrip().splitlines()[-1].startswith(
            "memoryos_postgres.errors.DatabaseUnavailable"
        )

    def _command(self, name: str) -> tuple[list[str], dict[str, str]]:
        if name == "model":
            return [sys.executable, str(_HERE / "tasks_model.py"), str(self._ports[name])], {}
        if name == "harness":
            return self._service(name, "memoryos_harness.main", "harness.pem")
        if name in WORKERS:
            argv, environ = self._service(name, "memoryos_harness.worker", "harness.pem")
            return argv, {**environ, "MEMORYOS_HARNESS__WORKER_NAME": name}
        return super()._command(name)
