"""A running deployment for end-to-end tests, evaluation and bench: `mos up` as a child, in a folder of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.tokens import EDGE_AUDIENCE, Identity, TokenSigner

ALL_BUT_MEMORY: Final = (
    "opa",
    "policy",
    "tool-gateway",
    "harness",
    "harness-worker",
    "audit-sealer",
    "memoryfs-upkeep",
)
"""Children to leave out where only MemoryFS and PostgreSQL are asked."""
START_S: Final = 120.0
STOP_S: Final = 60.0
TOKEN_TTL_S: Final = 6 * 3600


@dataclass(frozen=True)
class Stack:
    """What callers need of a running deployment."""

    folder: Path
    addresses: Mapping[str, str]
    """Keyword arguments of `memoryos_sdk.connect`."""
    process: asyncio.subprocess.Process

    def token(
        self,
        tenant: str,
        user: str,
        *,
        roles: Iterable[str] = ("agent", "user"),
        groups: Iterable[str] = (),
        **claims: Any,
    ) -> str:
        """Give a token of the development issuer; `claims` are further fields of Identity."""
        signer = TokenSigner.load(self.folder / "keys" / "dev.pem", SystemClock(), UlidSource())
        identity = Identity(tenant=tenant, user=user, roles=frozenset(roles), groups=frozenset(groups), **claims)
        return signer.subject(identity, audience=[EDGE_AUDIENCE], ttl_s=TOKEN_TTL_S)


class StackFailed(Exception):
    """The deployment did not start; the message ends with its own words."""


@asynccontextmanager
async def running_stack(
    *, without: Sequence[str] = (), settings: Sequence[str] = (), folder: Path | None = None
) -> AsyncIterator[Stack]:
    """Give a deployment that serves, and stop it afterwards.

    `settings` are section.field=value. Without `folder` the data goes with it.
    """
    home = folder or Path(tempfile.mkdtemp(prefix="memoryos-stack-"))
    argv = [sys.executable, "-m", "memoryos_cli.main", "up", "--data", str(home)]
    argv += [part for name in without for part in ("--without", name)]
    argv += [part for value in settings for part in ("--set", value)]
    log_file = home / "up.log"
    try:
        with log_file.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *argv, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL
            )
        try:
            yield Stack(home, await _addresses(home, process, log_file), process)
        finally:
            await _stop(process)
    finally:
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


async def _addresses(home: Path, process: asyncio.subprocess.Process, log_file: Path) -> Mapping[str, str]:
    """Wait until `mos up` writes the addresses, which it does once everything serves."""
    file = home / "run" / "addresses.json"
    try:
        async with asyncio.timeout(START_S):
            while not file.exists():
                if process.returncode is not None:
                    break
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise StackFailed(f"not serving within {START_S:g} s: {_tail(log_file)}") from None
    if process.returncode is not None:
        raise StackFailed(f"ended with {process.returncode}: {_tail(log_file)}")
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _tail(log_file: Path) -> str:
    return log_file.read_text(encoding="utf-8", errors="replace")[-2_000:]
