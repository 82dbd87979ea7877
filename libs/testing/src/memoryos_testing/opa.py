"""A real OPA server for tests, run exactly as `mos up` runs it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

START_S_MAX: Final = 20.0
_REPOSITORY: Final = Path(__file__).resolve().parents[4]


@dataclass(frozen=True, slots=True)
class OpaServer:
    """Where it listens, the file with its token, and its process."""

    port: int
    token_file: Path
    process: asyncio.subprocess.Process

    @property
    def url(self) -> str:
        """The address for bare HTTP."""
        return f"http://127.0.0.1:{self.port}"


def opa_binary() -> Path:
    """Give the OPA that `make setup` put into .tools, else the one on PATH; a test without one fails."""
    ours = _REPOSITORY / ".tools" / "bin" / "opa"
    found = str(ours) if ours.is_file() else shutil.which("opa")
    if found is None:
        raise RuntimeError("OPA is not there: run scripts/setup_opa.sh (part of `make setup`)")
    return Path(found)


def free_port() -> int:
    """Give a port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def opa_server(
    folder: Path, *, bundle_dir: Path | None = None, port: int | None = None, without_bundle: bool = False
) -> AsyncIterator[OpaServer]:
    """Run OPA over a bundle (default: the one in the repository) until the block ends.

    `folder` keeps what it serves and its token. `without_bundle` serves no
    decision rules at all.
    """
    port = port or free_port()
    token_file = folder / "opa.token"
    arguments = [
        sys.executable, "-m", "memoryos_policy.opa", "--binary", str(opa_binary()), "--run-dir", str(folder / "opa"),
        "--token-file", str(token_file), "--port", str(port),
    ]  # fmt: skip
    if bundle_dir is not None:
        arguments += ["--bundle-dir", str(bundle_dir)]
    if without_bundle:
        arguments.append("--without-bundle")
    with (folder / "opa.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*arguments, stdout=log, stderr=log)
    try:
        await _wait_healthy(process, port, folder / "opa.log")
        yield OpaServer(port, token_file, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _wait_healthy(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    async with asyncio.timeout(START_S_MAX):
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"OPA ended with {process.returncode}: see {log}")
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.write(b"GET /health HTTP/1.0\r\n\r\n")
            status = await reader.readline()
            writer.close()
            if b" 200 " in status:
                return
