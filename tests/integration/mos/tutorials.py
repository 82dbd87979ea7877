"""Runs a tutorial as its reader does: `sh` blocks in a shell, `python` blocks line by line in `python -m asyncio`.

A `text` block is what the block before it prints; … in it stands for anything.
"""

from __future__ import annotations

import ast
import asyncio
import codeop
import contextlib
import inspect
import io
import os
import re
import sys
import tempfile
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.M | re.S)
SHELL_S = 120.0


@dataclass(frozen=True, slots=True)
class Block:
    """One block that is run, and what it is said to print (None: nothing is said)."""

    line: int
    language: str
    source: str
    printed: str | None


def blocks_of(page: Path) -> list[Block]:
    """Give the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        line, language, source = text.count("\n", 0, match.start()) + 1, match[1], match[2]
        if language == "text":
            found[-1] = Block(found[-1].line, found[-1].language, found[-1].source, source)
        else:
            found.append(Block(line, language, source, None))
    return found


def as_said(said: str, printed: str) -> bool:
    """Tell whether `printed` is what the tutorial says, apart from …"""
    pattern = ".*?".join(re.escape(part) for part in said.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


class Reader:
    """Somebody who types a tutorial in, from its first line to its last."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ = dict(environ)
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._compile = codeop.CommandCompiler()
        self._compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    async def run(self, block: Block) -> str:
        """Give what a block prints."""
        return await (self._shell(block) if block.language == "sh" else self._python(block))

    async def _shell(self, block: Block) -> str:
        argv = ("bash", "-euo", "pipefail", "-c", block.source)
        both = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        process = await asyncio.create_subprocess_exec(*argv, env=self._environ, cwd=self._folder, **both)
        out, _ = await asyncio.wait_for(process.communicate(), SHELL_S)
        assert process.returncode == 0, f"line {block.line}: {out.decode()}"
        return out.decode()

    async def _python(self, block: Block) -> str:
        out, typed = io.StringIO(), ""
        for line in (*block.source.splitlines(), ""):  # an empty line ends an indented block
            typed += line + "\n"
            with contextlib.redirect_stdout(out):
                code = self._compile(typed.rstrip("\n") if line else typed, f"<line {block.line}>", "single")
                if code is not None:
                    typed = ""
                    answer = types.FunctionType(code, self._names)()
                    if inspect.iscoroutine(answer):
                        await answer
        assert not typed.strip(), f"line {block.line}: the block ends within a statement"
        return out.getvalue()


async def main(page: Path) -> None:
    """Print what every block of a page prints: PAGE, on the deployment that MEMORYOS_DATA names."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        reader = Reader(os.environ, Path(folder))
        for block in blocks_of(page):
            printed = await reader.run(block)
            said = "" if block.printed is None else "as said" if as_said(block.printed, printed) else "NOT AS SAID"
            sys.stdout.write(f"--- line {block.line} {block.language} {said}\n{printed}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).absolute()))
