"""How OPA is run: loopback, a token on every question, one bundle, nothing phoned home.

`python -m memoryos_policy.opa --binary opa --run-dir DIR --token-file FILE --port N`
prepares the folder and becomes OPA: a supervisor has it as its direct child.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryos_core.canonical import canonical_json
from memoryos_core.clock import Clock, SystemClock

from memoryos_policy.bundles import (
    BundleInvalid,
    build_bundle,
    capabilities_file,
    default_authz_dir,
    default_bundle_dir,
)

HOST: Final = "127.0.0.1"
REQUEST_BYTES_MAX: Final = 1024 * 1024
"""An input is at most 256 kB of arguments and 16 kB of resource; more is no question of ours."""
CHECK_S_MAX: Final = 60
ENVIRONMENT: Final[dict[str, str]] = {"GOGC": "400"}
"""Nothing of ours: OPA_RUN_… variables would change its flags.
With GOGC the rules of 1,000 skills are walked by the collector a quarter as often, for 80 MB more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaSetup:
    """What one OPA server needs. `bundle_dir` None: no decision bundle at all (everything is then denied)."""

    binary: Path
    run_dir: Path
    token_file: Path
    port: int
    bundle_dir: Path | None
    host: str = HOST


def ensure_token(token_file: Path) -> str:
    """Give the token in the file; a new random one, readable by the owner only, when there is none."""
    try:
        descriptor = os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = token_file.read_text().strip()
        if not token:
            raise ValueError(f"{token_file}: empty") from None
        return token
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w") as file:
        file.write(token)
        file.flush()
        os.fsync(file.fileno())
    return token


def prepare(setup: OpaSetup, clock: Clock) -> list[str]:
    """Build what OPA serves into `run_dir` and give the command line that serves it.

    The token itself is neither in the command line nor in a file of OPA's, only
    its SHA-256. The bundle counts as confirmed by its source now. Raises
    BundleInvalid for rules that do not compile or call what rules may not.
    """
    token = ensure_token(setup.token_file)
    guard = setup.run_dir / "guard"
    shutil.rmtree(guard, ignore_errors=True)
    shutil.copytree(default_authz_dir(), guard, ignore=shutil.ignore_patterns("*_test.rego"))
    (guard / ".manifest").write_bytes(canonical_json({"revision": "", "roots": ["system"], "rego_version": 1}))
    _write_data(guard / "system" / "opa", {"token_sha256": hashlib.sha256(token.encode()).hexdigest()})
    confirm_time = clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    _write_data(guard / "system" / "build", {"confirm_time": confirm_time})
    bundles = [guard]
    if setup.bundle_dir is not None:
        bundle = build_bundle(setup.bundle_dir, setup.run_dir / "bundles").path
        _refuse_what_rules_may_not_call(setup.binary, bundle)
        bundles.append(bundle)
    return command(setup, bundles)


def command(setup: OpaSetup, bundles: Sequence[Path]) -> list[str]:
    """Give the command line of an OPA server over these bundles."""
    return [
        str(setup.binary),
        "run",
        "--server",
        f"--addr={setup.host}:{setup.port}",
        "--authentication=token",
        "--authorization=basic",
        "--skip-version-check",
        "--log-level=error",
        "--log-format=json",
        f"--set=server.decoding.max_length={REQUEST_BYTES_MAX}",
        "--bundle",
        *(str(path) for path in bundles),
    ]


def _refuse_what_rules_may_not_call(binary: Path, bundle: Path) -> None:
    """Compile the very archive that is served: the server has no such limit of its own."""
    command = [str(binary), "check", f"--capabilities={capabilities_file()}", "--bundle", str(bundle)]
    ran = subprocess.run(command, capture_output=True, text=True, env={}, timeout=CHECK_S_MAX, check=False)  # noqa: S603
    if ran.returncode:
        raise BundleInvalid(ran.stderr.strip() or ran.stdout.strip() or "opa check failed and did not say why")


def _write_data(folder: Path, data: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.json").write_bytes(canonical_json(dict(data)))


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m memoryos_policy.opa", description=__doc__)
    parser.add_argument("--binary", type=Path, required=True, help="the OPA executable")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder that OPA serves from, written here")
    parser.add_argument("--token-file", type=Path, required=True, help="made when absent; policy reads the same file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default=HOST)
    parser.add_argument(
        "--bundle-dir", type=Path, default=default_bundle_dir(), help="default: the rules of this package"
    )
    parser.add_argument("--without-bundle", action="store_true", help="serve no rules: every call is then denied")
    given = parser.parse_args()
    setup = OpaSetup(
        binary=given.binary,
        run_dir=given.run_dir,
        token_file=given.token_file,
        port=given.port,
        bundle_dir=None if given.without_bundle else given.bundle_dir,
        host=given.host,
    )
    try:
        arguments = prepare(setup, SystemClock())
    except BundleInvalid as error:
        sys.exit(f"these rules are not served: {error}")
    os.execve(arguments[0], arguments, ENVIRONMENT)  # noqa: S606 - becoming OPA is what this module is for


if __name__ == "__main__":
    _main()
