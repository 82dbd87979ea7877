"""The children of `mos up`: what they are, what they need, how they are asked whether they serve."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryos_cli.datafolder import DataFolder
from memoryos_cli.supervisor.child import ChildSpec
from memoryos_cli.supervisor.database import postgres_child
from memoryos_cli.supervisor.ports import HOST
from memoryos_cli.supervisor.probes import always, grpc_health, http_ok

PORT_NAMES: Final = ("postgres", "opa", "policy", "memoryfs", "tool-gateway", "harness")
CHILD_NAMES: Final = (*PORT_NAMES, "harness-worker", "audit-sealer", "memoryfs-upkeep")
SETTLE_S: Final = 2.0
"""A child without a port counts as ready when it has lived so long."""
HANDED_ON: Final = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"})
"""Variables that children get beside MEMORYOS_<SECTION>__<FIELD>."""

_MODULES: Final = {
    "policy": "memoryos_policy.main",
    "memoryfs": "memoryos_memoryfs.main",
    "tool-gateway": "memoryos_toolgateway.main",
    "harness": "memoryos_harness.main",
    "harness-worker": "memoryos_harness.worker",
    "audit-sealer": "memoryos_audit.sealer",
    "memoryfs-upkeep": "memoryos_memoryfs.upkeep",
}
_NEEDS: Final = {
    "opa": (),
    "policy": ("postgres", "opa"),
    "memoryfs": ("postgres",),
    "tool-gateway": ("postgres", "policy", "memoryfs"),
    "harness": ("postgres",),
    "harness-worker": ("postgres", "harness", "memoryfs", "tool-gateway"),
    "audit-sealer": ("postgres",),
    "memoryfs-upkeep": ("postgres",),
}
_KEYS: Final = {
    "policy": {"SERVICE_KEY_FILE": "policy.pem"},
    "memoryfs": {"SERVICE_KEY_FILE": "memoryfs.pem"},
    "tool-gateway": {"SERVICE_KEY_FILE": "tool-gateway.pem"},
    "harness": {"SERVICE_KEY_FILE": "harness.pem", "TASK_KEY_FILE": "tasks.pem"},
    "harness-worker": {"SERVICE_KEY_FILE": "harness.pem", "TASK_KEY_FILE": "tasks.pem"},
    "audit-sealer": {},
    "memoryfs-upkeep": {},
}
"""Private keys: each child is told of its own only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `mos up` was asked for, and what was chosen for it."""

    folder: DataFolder
    ports: Mapping[str, int]
    config_file: Path
    opa_binary: Path
    bundle_dir: str
    environ: Mapping[str, str]
    prepare_database: Callable[[], Awaitable[None]]
    embedded: bool
    without: frozenset[str] = frozenset()


def children(plan: Plan) -> list[ChildSpec]:
    """Give all children in the order in which they are shown."""
    specs = []
    for name in CHILD_NAMES:
        if name in plan.without or (name == "postgres" and not plan.embedded):
            continue
        if name == "postgres":
            specs.append(postgres_child(plan.folder, plan.ports["postgres"], plan.prepare_database))
        elif name == "opa":
            specs.append(_opa(plan))
        else:
            specs.append(_service(plan, name))
    return specs


def _opa(plan: Plan) -> ChildSpec:
    port = plan.ports["opa"]
    argv = _python(
        "memoryos_policy.opa",
        f"--binary={plan.opa_binary}",
        f"--run-dir={plan.folder.run / 'opa'}",
        f"--token-file={plan.folder.secrets / 'opa.token'}",
        f"--port={port}",
        *([f"--bundle-dir={plan.bundle_dir}"] if plan.bundle_dir else []),
    )
    return ChildSpec(
        name="opa",
        argv=lambda: argv,
        probe=http_ok(HOST, port, "/health"),
        log_file=plan.folder.logs / "opa.log",
        environment=_environment(plan.environ),
        address=f"{HOST}:{port}",
    )


def _service(plan: Plan, name: str) -> ChildSpec:
    argv = _python(_MODULES[name])
    port = plan.ports.get(name)
    environment = {
        **_environment(plan.environ),
        "MEMORYOS_CONFIG": str(plan.config_file),
        **{f"MEMORYOS_IDENTITY__{field}": str(plan.folder.keys / file) for field, file in _KEYS[name].items()},
    }
    if port is not None:
        environment |= {"MEMORYOS_GRPC__HOST": HOST, "MEMORYOS_GRPC__PORT": str(port)}
    left_out = plan.without | (set() if plan.embedded else {"postgres"})
    return ChildSpec(
        name=name,
        argv=lambda: argv,
        probe=always() if port is None else grpc_health(f"{HOST}:{port}"),
        settle_s=SETTLE_S if port is None else 0.0,
        log_file=plan.folder.logs / f"{name}.log",
        environment=environment,
        needs=tuple(needed for needed in _NEEDS[name] if needed not in left_out),
        address="" if port is None else f"{HOST}:{port}",
    )


def _python(module: str, *arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", module, *arguments]


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that a child inherits: few, and configuration fields."""
    fields = {name: value for name, value in environ.items() if name.startswith("MEMORYOS_") and "__" in name}
    return {name: environ[name] for name in HANDED_ON if name in environ} | fields
