"""The opa command as a bounded child: no environment, no network, one JSON answer."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 60.0
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024


class OpaFailed(Exception):
    """The command did not run, did not end in time, or its answer is no JSON; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How one command ended. `answer` is what it wrote as JSON, None when it wrote none."""

    code: int
    answer: Any
    errors: str


@dataclass(frozen=True, slots=True)
class OpaCommand:
    """One OPA executable."""

    binary: Path
    timeout_s: float = TIMEOUT_S

    async def run(self, *arguments: str | Path, stdin: bytes = b"") -> Ran:
        """Run `opa` with these arguments and give what it said. Raises OpaFailed; the child never outlives the call."""
        with tempfile.TemporaryFile() as out:
            try:
                child = await asyncio.create_subprocess_exec(
                    self.binary,
                    *map(str, arguments),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=out,
                    stderr=asyncio.subprocess.PIPE,
                    env={},
                )
            except OSError as error:
                raise OpaFailed(f"{self.binary} cannot be run: {error.strerror}") from None
            try:
                async with asyncio.timeout(self.timeout_s):
                    _, errors = await child.communicate(stdin)
            except TimeoutError:
                raise OpaFailed(f"opa {arguments[0]} did not end within {self.timeout_s:g} s") from None
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
            out.seek(0)
            written = out.read(OUTPUT_BYTES_MAX + 1)
        if len(written) > OUTPUT_BYTES_MAX:
            raise OpaFailed(f"opa {arguments[0]} wrote more than {OUTPUT_BYTES_MAX} bytes")
        return Ran(code=child.returncode or 0, answer=_json(written), errors=errors.decode(errors="replace"))


def _json(written: bytes) -> Any:
    try:
        return json.loads(written) if written.strip() else None
    except ValueError:
        return None


def rule_files(source: Path, *, tests: bool) -> Sequence[Path]:
    """Give the Rego files of a bundle folder, in order."""
    return [path for path in sorted(source.rglob("*.rego")) if tests or not path.name.endswith("_test.rego")]
