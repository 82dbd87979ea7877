"""Drive a process into a crash point: it must die there, by SIGKILL, as `kill -9` would do it.

outcome = await run_until_crash("memoryos_memoryfs.main", point="memoryfs.write.before_commit",
                                environ={"MEMORYOS_CONFIG": str(file)}, drive=call_write)
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from memoryos_core.crashpoints import CRASH_POINTS


class DidNotCrash(AssertionError):
    """The process ended otherwise, or never reached its crash point; the message has what it said."""


async def run_until_crash(
    module: str,
    *,
    point: str,
    environ: Mapping[str, str],
    arguments: Sequence[str] = (),
    drive: Callable[[], Awaitable[object]] | None = None,
    timeout_s: float = 60,
) -> str:
    """Run `python -m module` armed with `point` ("name" or "name:n") until it kills itself there; gives its output.

    `drive` does what leads there (it may wait for readiness first); errors in
    it are expected, since its peer dies.
    """
    assert point.partition(":")[0] in CRASH_POINTS, f"unknown crash point {point}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        env={**environ, "MEMORYOS_CRASH_POINT": point, "PATH": os.defpath},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    driving = asyncio.ensure_future(drive()) if drive is not None else None
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        raise DidNotCrash(f"{module} did not reach {point} within {timeout_s} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if driving is not None:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
    text = output.decode(errors="replace")
    if process.returncode != -signal.SIGKILL:
        raise DidNotCrash(f"{module} ended with {process.returncode} instead of dying at {point}:\n{text[-4000:]}")
    return text
