"""Every block of every tutorial does what it says, on a running `mos up`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from .conftest import Deployment
from .tutorials import Block, Reader, as_said, blocks_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PAGES = sorted((Path(__file__).parents[3] / "docs" / "tutorials").glob("*.md"))
DEMO = Path(__file__).parents[3] / "deploy" / "demo"


@pytest.mark.asyncio
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_a_tutorial_runs_as_it_stands(
    deployment: Deployment, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{Path(sys.executable).parent}:{deployment.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("MEMORYOS_DATA", str(deployment.data))
    monkeypatch.chdir(tmp_path)
    reader = Reader({**deployment.environ, "PATH": path, "DEMO": str(DEMO)}, tmp_path)
    blocks = blocks_of(page)
    assert len(blocks) > 5
    try:
        for block in blocks:
            printed = await reader.run(block)
            said = block.printed is None or as_said(block.printed, printed)
            assert said, f"{page.name}:{block.line} prints {printed}"
    finally:
        await _end_what_it_started(reader, tmp_path)


async def _end_what_it_started(reader: Reader, folder: Path) -> None:
    """End what a page runs in its own folder, for it may stop half-way."""
    for status in folder.glob("*/run/status.json"):  # noqa: ASYNC240 -- nothing else runs here
        await reader.run(Block(0, "sh", f"mos down --data {status.parents[1]} || true", None))
    for file in folder.glob("*.pid"):  # noqa: ASYNC240
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGTERM)


def test_what_differs_from_what_a_tutorial_says_is_seen() -> None:
    assert as_said("mem_… is (1, 2)", "mem_01 is (1, 2)\n")
    assert not as_said("mem_… is (1, 2)", "mem_01 is (1, 3)")
    assert not as_said("one", "one\ntwo")
