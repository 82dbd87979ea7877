"""`make eval-tools`: schemas, calls, search and hostile arguments with the code of the tool gateway.

python -m evals.tools [--data DIR] [--out DIR] [--check]

DIR is laid out like the public evaluation data: tools/ and security/. The exit code is 1 when there is nothing to
evaluate, and with --check when a figure stays below its bar.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from memoryos_models.build import build_embedder
from memoryos_models.config import ModelsSection
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.domain.decisions import Decision, Question
from memoryos_toolgateway.domain.http_template import CannotRender, render
from memoryos_toolgateway.domain.patterns import PatternRefused, compile_pattern
from memoryos_toolgateway.domain.schema_check import CompiledSchema
from memoryos_toolgateway.domain.schema_dialects import modern
from memoryos_toolgateway.domain.schema_lint import SchemaRefused, lint_schema
from memoryos_toolgateway.domain.skill import RequestTemplate, Skill
from memoryos_toolgateway.errors import PolicyUnavailable, SkillFileInvalid
from memoryos_toolgateway.operations.search_skills import SkillSearch
from rich.console import Console

from evals.tool_collections import Asked, Collection, collections, rows

DEFAULT_DATA: Final = Path("../shared/eval/data")
BAR_SUITE: Final = 1290 / 1299
BAR_CALLS: Final = 1744 / 1747
"""By the schemas as published, which leave objects open; what a skill accepts, which closes them, is told beside it."""
BARS_SEARCH: Final = {"bfcl_tools": 0.92, "livemcp_tools": 0.48}
BM25_SEARCH: Final = {"bfcl_tools": (0.881, 0.937), "livemcp_tools": (0.376, 0.461)}
SLOW_S: Final = 0.5
_TEMPLATE: Final = RequestTemplate(
    endpoint="127.0.0.1:1", method="POST", path="/things/{name}", query={"q": "/name"}, body={"b": "/name"}
)
_IN_QUERY: Final = RequestTemplate(
    endpoint="127.0.0.1:1", method="POST", path="/things", query={"q": "/name"}, body={"b": "/name"}
)


class _ShowsAll:
    """Search is measured over every tool: who may see which is policy's own evaluation."""

    async def visible(self, skills: Sequence[Skill]) -> list[bool]:
        return [True] * len(skills)

    async def decide(self, question: Question) -> Decision:
        raise PolicyUnavailable

    async def open_review(self, call_id: str, action_digest: str, decision_id: str) -> str:
        raise PolicyUnavailable


@dataclass
class Report:
    """What was found, and what stays below a bar."""

    console: Console
    summary: dict[str, Any] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="evals.tools", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with tools/ and security/")
    parser.add_argument("--out", type=Path, help="folder for tools.json")
    parser.add_argument("--check", action="store_true", help="fail below the bars")
    options = parser.parse_args()
    report = Report(Console(width=None if sys.stdout.isatty() else 160))
    suite(options.data / "tools" / "jsonschema2020_12_required.json", report)
    for collection in collections(options.data / "tools"):
        asyncio.run(tools(collection, report))
    patterns(options.data / "security" / "redos_patterns.json", report)
    hostile(options.data / "security", report)
    if not report.summary:
        parser.error(f"nothing to evaluate in {options.data}: give --data DIR")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(report.summary, ensure_ascii=False, indent=2)
        (options.out / "tools.json").write_text(text + "\n", encoding="utf-8")
    for line in report.short:
        report.say(f"BELOW ITS BAR: {line}")
    sys.exit(1 if options.check and report.short else 0)


def suite(file: Path, report: Report) -> None:
    """JSON-Schema-Test-Suite: formats as annotations, as the suite has them, and asserted, as skills have them."""
    if not file.exists():
        return
    data = json.loads(file.read_bytes())
    remotes = {f"http://localhost:1234/{name}": document for name, document in data["remotes"].items()}
    total = right = strict_right = 0
    missed: dict[str, str] = {}
    for group_file in data["files"]:
        for group in group_file["groups"]:
            name = f"{group_file['file']}: {group['description']}"
            total += len(group["tests"])
            try:
                lint_schema(group["schema"], remotes)
            except SchemaRefused as error:
                missed |= {f"{name}: {case['description']}": f"refused: {error}" for case in group["tests"]}
                continue
            as_suite = CompiledSchema(group["schema"], remotes, formats=False)
            strict = CompiledSchema(group["schema"], remotes)
            for case in group["tests"]:
                holds = (not as_suite.violations(case["data"])) == case["valid"]
                right += holds
                strict_right += (not strict.violations(case["data"])) == case["valid"]
                if not holds:
                    missed[f"{name}: {case['description']}"] = "answered otherwise"
    report.say(
        f"JSON-Schema-Test-Suite: {right} of {total}; with formats asserted, as skills are checked: {strict_right}"
    )
    for case_name, why in missed.items():
        report.say(f"  missed: {case_name}: {why}")
    report.summary["json_schema_suite"] = {
        "right": right, "of": total, "right_with_formats_asserted": strict_right, "missed": missed,
    }  # fmt: skip
    if right < BAR_SUITE * total:
        report.short.append(f"JSON-Schema-Test-Suite {right} of {total}")


async def tools(collection: Collection, report: Report) -> None:
    """Register every tool of a collection, check the right calls, and search."""
    with tempfile.TemporaryDirectory() as folder:
        refused: dict[str, str] = {}
        ids: dict[str, str] = {}
        for tool_id, document in collection.documents.items():
            file = Path(folder) / f"{len(ids) + len(refused)}.json"
            file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
            ids[document["name"]] = tool_id
            try:
                load_skill(file, {})
            except SkillFileInvalid as error:
                refused[document["name"]] = f"{error.pointer}: {error.text}"
                file.unlink()
        registry = load_registry([Path(folder)], {})
    refused |= {f.skill.name: f"quarantined: {f.quarantined}" for f in registry.found() if f.quarantined}
    report.say(f"{collection.name}: {len(registry.all())} of {len(collection.documents)} tools register")
    for name, why in refused.items():
        report.say(f"  refused: {name}: {why}")
    figures: dict[str, Any] = {"registered": len(registry.all()), "of": len(collection.documents), "refused": refused}
    if refused:
        report.short.append(f"{collection.name}: {len(refused)} tools do not register")
    if collection.calls:
        _calls(collection, {ids[s.name]: s for s in registry.all()}, figures, report)
    if collection.asked:
        # As published: names that two tools share were told apart for the registry only.
        named = [replace(s, name=collection.names[ids[s.name]]) for s in registry.all()]
        by_digest = {s.definition_digest: ids[s.name] for s in registry.all()}
        await _search(collection, named, by_digest, figures, report)
    report.summary[collection.name] = figures


def _calls(collection: Collection, skills: dict[str, Skill], figures: dict[str, Any], report: Report) -> None:
    denied: list[str] = []
    for tool_id, arguments in collection.calls:
        found = skills[tool_id].schema.violations(arguments) if tool_id in skills else []
        if tool_id not in skills or found:
            denied.append(f"{tool_id}: " + "; ".join(f"{v.pointer} {v.rule}: {v.expectation}" for v in found[:3]))
    accepted = len(collection.calls) - len(denied)
    as_written = sum(_holds_as_written(collection.documents[tool_id], a) for tool_id, a in collection.calls)
    report.say(
        f"  ground-truth calls accepted: {accepted} of {len(collection.calls)}"
        f" (by the schemas as written, before objects are closed: {as_written})"
    )
    for line in denied:
        report.say(f"    not: {line}")
    figures["calls"] = {
        "accepted": accepted,
        "accepted_as_written": as_written,
        "of": len(collection.calls),
        "not": denied,
    }
    if as_written < BAR_CALLS * len(collection.calls):
        report.short.append(f"{collection.name}: {as_written} of {len(collection.calls)} calls accepted as written")


def _holds_as_written(document: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return not CompiledSchema(modern(document["parameters"])).violations(arguments)


async def _search(
    collection: Collection, skills: Sequence[Skill], ids: dict[str, str], figures: dict[str, Any], report: Report
) -> None:
    embedder = build_embedder(ModelsSection())
    search = SkillSearch(skills, _ShowsAll(), embedder)
    started = time.monotonic()
    words, _ = await _recall(search, collection.asked, ids)
    await search.ready()
    ready_s = time.monotonic() - started
    both, words_only = await _recall(search, collection.asked, ids)
    await search.close()
    await embedder.close()
    line = BM25_SEARCH.get(collection.name, (0.0, 0.0))
    report.say(
        f"  SearchSkills over {len(skills)} tools, {len(collection.asked)} requests: R@5 {both[0]:.3f},"
        f" R@10 {both[1]:.3f} (words alone {words[0]:.3f}, {words[1]:.3f}; BM25 {line[0]:.3f}, {line[1]:.3f});"
        f" vectors and words after {ready_s:.0f} s"
    )
    figures["search"] = {
        "requests": len(collection.asked), "R@5": both[0], "R@10": both[1], "words_R@5": words[0],
        "words_R@10": words[1], "answered_by_words_alone": words_only,
    }  # fmt: skip
    if both[0] < BARS_SEARCH.get(collection.name, 0.0):
        report.short.append(f"{collection.name}: R@5 {both[0]:.3f}, bar {BARS_SEARCH[collection.name]:.2f}")


async def _recall(search: SkillSearch, asked: Sequence[Asked], ids: dict[str, str]) -> tuple[tuple[float, float], int]:
    """Give the mean share of needed tools among the first 5 and 10, and how often words alone decided."""
    at_5 = at_10 = 0.0
    alone = 0
    for one in asked:
        hits, words_only = await search.search(one.text, 10)
        alone += words_only
        given = [ids[skill.definition_digest] for skill, _ in hits]
        at_5 += sum(any(tool in given[:5] for tool in tools) for tools in one.needed) / len(one.needed)
        at_10 += sum(any(tool in given for tool in tools) for tools in one.needed) / len(one.needed)
    return (at_5 / len(asked), at_10 / len(asked)), alone


def patterns(file: Path, report: Report) -> None:
    """Patterns that can be made slow are refused, or are not slow here."""
    if not file.exists():
        return
    texts = ["a" * 100_000 + "!", "@." * 50_000, "x" * 100_000]
    refused = linear = 0
    slow: list[str] = []
    for case in json.loads(file.read_bytes()):
        try:
            pattern = compile_pattern(case["pattern"])
        except PatternRefused:
            refused += 1
            continue
        started = time.process_time()
        for text in texts:
            pattern.matches(text)
        if time.process_time() - started > SLOW_S:
            slow.append(case["pattern"])
        else:
            linear += 1
    report.say(f"ReDoS patterns: {refused} refused, {linear} linear, {len(slow)} slow")
    report.summary["redos"] = {"refused": refused, "linear": linear, "slow": slow}
    if slow:
        report.short.append(f"{len(slow)} patterns are slow")


def hostile(folder: Path, report: Report) -> None:
    """Hostile strings as arguments: refused, or literally the one value at its place of the request."""
    for name, key in (("path_traversal", "payload"), ("command_injection", "payload"), ("sensitive_paths", "path")):
        found = rows(folder / f"{name}.jsonl")
        if found is not None:
            _hostile(name, [row[key] for row in found], report)
    if (folder / "blns.json").exists():
        _hostile("blns", json.loads((folder / "blns.json").read_bytes()), report)


def _hostile(name: str, values: Sequence[str], report: Report) -> None:
    outcomes = {"refused in a path": 0, "literal in a path": 0, "refused": 0, "literal": 0, "other": 0}
    for value in values:
        for template, suffix in ((_TEMPLATE, " in a path"), (_IN_QUERY, "")):
            outcomes[_outcome(template, value, suffix)] += 1
    report.say(f"{name}: {len(values)} strings: " + ", ".join(f"{count} {what}" for what, count in outcomes.items()))
    report.summary[name] = {"strings": len(values)} | outcomes
    if outcomes["other"]:
        report.short.append(f"{name}: {outcomes['other']} strings changed a request")


def _outcome(template: RequestTemplate, value: str, suffix: str) -> str:
    try:
        request = render(template, {"name": value})
    except CannotRender:
        return f"refused{suffix}"
    address = urlsplit(request.url)
    path = address.path.split("/")
    there = address.netloc == template.endpoint and json.loads(request.body or b"{}") == {"b": value}
    there = there and parse_qs(address.query, keep_blank_values=True, errors="strict") == {"q": [value]}
    if suffix:
        there = there and len(path) == 3 and unquote(path[2], errors="strict") == value
    return f"literal{suffix}" if there and not address.fragment else "other"


if __name__ == "__main__":
    main()
