"""One question asked of a bundle at rest, with the rules that were true on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memoryos_core.canonical import canonical_json

from memoryos_policy.bundles import capabilities_file
from memoryos_policy.domain.decisions import Fired
from memoryos_policy.rules.opa_command import OpaCommand, OpaFailed

QUERY: Final = "data.memoryos.main.decision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the rules said. `result` is None where the decision is undefined."""

    result: Any
    fired: Sequence[Fired]


async def evaluate(
    opa: OpaCommand, source: Path, document: Mapping[str, Any], *, beside: Path | None = None
) -> Evaluation:
    """Ask the bundle folder `source` for its decision on an input document.

    `beside`: a folder of data documents that are no part of the bundle.
    Raises OpaFailed when it cannot be asked: a rule that does not compile, a built-in that fails, no answer in time.
    """
    ran = await opa.run(
        "eval",
        f"--capabilities={capabilities_file()}",
        f"--bundle={source}",
        *([f"--data={beside}"] if beside else []),
        "--stdin-input",
        "--strict-builtin-errors",
        "--explain=full",
        "--format=json",
        QUERY,
        stdin=canonical_json(dict(document)),
    )
    if ran.code or not isinstance(ran.answer, dict) or ran.answer.get("errors"):
        raise OpaFailed(_errors(ran.answer) or ran.errors.strip() or "opa eval gave no answer")
    found = ran.answer.get("result") or []
    result = found[0]["expressions"][0]["value"] if found else None
    return Evaluation(result=result, fired=sorted(set(_fired(ran.answer.get("explanation") or [], source))))


def _fired(events: Sequence[Mapping[str, Any]], source: Path) -> Iterator[Fired]:
    """Give the rules that were left with a value: an Exit event whose node is a rule, defaults left out."""
    lines: dict[str, list[str]] = {}
    for event in events:
        node, place = event.get("Node"), event.get("Location") or {}
        if event.get("Op") != "Exit" or not isinstance(node, dict) or "head" not in node or node.get("default"):
            continue
        file = place.get("file", "")
        if file not in lines:
            lines[file] = _lines(file, source)
        row = int(place.get("row", 0))
        head = lines[file][row - 1].strip() if 0 < row <= len(lines[file]) else str(node["head"].get("name", ""))
        yield Fired(_relative(file, source), row, head.removesuffix("{").strip())


def _lines(file: str, source: Path) -> list[str]:
    path = Path(file) if Path(file).is_file() else source / file.lstrip("/")
    return path.read_text().splitlines() if path.is_file() else []


def _relative(file: str, source: Path) -> str:
    path = Path(file)
    return path.relative_to(source).as_posix() if path.is_relative_to(source) else file.lstrip("/")


def _errors(answer: Any) -> str:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return "; ".join(str(one.get("message", one)) for one in errors) if errors else ""
