"""`mos policy check` and `mos policy test`: a bundle folder before OPA is given it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memoryos_policy.bundles import ROOT, BundleInvalid, capabilities_file, read_files, skill_names
from memoryos_policy.rules.lint import Finding, lint_module
from memoryos_policy.rules.opa_command import OpaCommand, OpaFailed, rule_files

BUILT_IN_SKILLS: Final = frozenset({"memory.read", "memory.write"})
_PARSED_AT_ONCE: Final = 4
_MEND_CALL: Final = (
    "define the function; of OPA's own, rules may call what capabilities.json lists: nothing of network, environment "
    "or chance, and input.context.time is the time"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What the tests of a bundle said. `coverage` is in percent of the lines of its rules."""

    passed: int
    failed: Sequence[str]
    coverage: float
    uncovered: Sequence[tuple[str, int]]
    """File and line of rules that no test reaches."""

    @property
    def ok(self) -> bool:
        """Whether tests ran and none failed: a bundle without tests is not tested."""
        return self.passed > 0 and not self.failed


async def check(opa: OpaCommand, source: Path, schema: Path, skills: Iterable[str] | None) -> Sequence[Finding]:
    """Give the faults of a bundle folder in order: form, strict check against the input schema, our own lint.

    `skills` are the names that are registered beside the built-in ones; None does not check names. Raises OpaFailed.
    """
    try:
        read_files(source)
    except BundleInvalid as error:
        return [Finding("", 0, "bundle", str(error), "a bundle holds .rego and data.json files under memoryos/ only")]
    known = None if skills is None else frozenset(skills) | BUILT_IN_SKILLS
    found = [*_files_without_tests(source), *await _strict(opa, source, schema)]
    if not found or all(finding.rule == "no-tests" for finding in found):
        found.extend(await _lint(opa, source, known))
    if known is not None:
        found.extend(_data_names(source, known))
    return sorted(set(found))


async def test(opa: OpaCommand, source: Path) -> Tested:
    """Run the tests of a bundle folder. Raises OpaFailed when they cannot run."""
    may_call = f"--capabilities={capabilities_file()}"
    plain, covered = await asyncio.gather(
        opa.run("test", may_call, "--format=json", source),
        opa.run("test", may_call, "--coverage", "--format=json", source),
    )
    results = plain.answer if isinstance(plain.answer, list) else []
    if plain.answer is None and plain.code and plain.errors.strip():
        raise OpaFailed(plain.errors.strip())
    failed = [f"{one['package']}.{one['name']}" for one in results if one.get("fail") or one.get("error")]
    passed = sum(1 for one in results if not (one.get("fail") or one.get("error") or one.get("skip")))
    report = covered.answer if isinstance(covered.answer, dict) else {}
    return Tested(
        passed=passed,
        failed=failed,
        coverage=float(report.get("coverage", 0.0)),
        uncovered=list(_uncovered(report, source)),
    )


def _files_without_tests(source: Path) -> Iterator[Finding]:
    for path in rule_files(source, tests=False):
        if not path.with_name(f"{path.stem}_test.rego").is_file():
            name = path.relative_to(source).as_posix()
            yield Finding(name, 0, "no-tests", "no tests beside it", f"write {path.stem}_test.rego in the same folder")


async def _strict(opa: OpaCommand, source: Path, schema: Path) -> Sequence[Finding]:
    may_call = f"--capabilities={capabilities_file()}"
    ran = await opa.run("check", "--strict", may_call, f"--schema={schema}", "--format=json", source)
    if ran.code == 0:
        return []
    errors = _errors(ran.answer) or _errors(_parsed(ran.errors))
    if not errors:
        raise OpaFailed(ran.errors.strip() or "opa check failed and did not say why")
    return [_compile_error(error, source) for error in errors]


def _errors(answer: Any) -> list[Mapping[str, Any]]:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    return errors if isinstance(errors, list) else []


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _compile_error(error: Mapping[str, Any], source: Path) -> Finding:
    place = error.get("location") or {}
    code, message = str(error.get("code", "rego")), str(error.get("message", ""))
    mend = (
        _MEND_CALL
        if message.startswith("undefined function")
        else {
            "rego_type_error": "ask for what the input schema has: the closed list of fields is input.schema.json",
            "rego_parse_error": "mend the syntax; `opa fmt` shows how the file is read",
            "rego_unsafe_var_error": "give the variable a value in a positive condition first",
        }.get(code, "see the message; `opa check --strict` says the same")
    )
    return Finding(
        _relative(str(place.get("file", "")), source),
        int(place.get("row", 0)),
        code,
        message,
        mend,
    )


async def _lint(opa: OpaCommand, source: Path, known: frozenset[str] | None) -> Sequence[Finding]:
    gate = asyncio.Semaphore(_PARSED_AT_ONCE)

    async def one(path: Path) -> list[Finding]:
        async with gate:
            ran = await opa.run("parse", "--format=json", "--json-include=locations", path)
        if ran.code or not isinstance(ran.answer, dict):
            raise OpaFailed(ran.errors.strip() or f"opa parse gave nothing for {path.name}")
        return list(lint_module(path.relative_to(source).as_posix(), ran.answer, known))

    found = await asyncio.gather(*(one(path) for path in rule_files(source, tests=False)))
    return [finding for findings in found for finding in findings]


def _data_names(source: Path, known: frozenset[str]) -> Iterator[Finding]:
    """Give names of skills in folders and in the data documents by skill that no skill has."""
    for name in sorted(skill_names(source) - known):
        yield Finding(
            f"{ROOT}/skills/{name}", 0, "unknown-skill", f"no skill is called {name!r}", "rename or remove the folder"
        )
    for document, keys in _by_skill(source):
        for name in sorted(keys - known):
            yield Finding(
                document, 0, "unknown-skill", f"no skill is called {name!r}", "rename the key, or remove what it sets"
            )


def _by_skill(source: Path) -> Iterator[tuple[str, set[str]]]:
    for folder in ("limits", "groups"):
        yield f"{ROOT}/{folder}/data.json", set(_document(source / ROOT / folder / "data.json"))
    organisation = _document(source / ROOT / "organisation" / "data.json")
    named = set(organisation.get("grants", {})) | set(organisation.get("service_account_skills", []))
    yield f"{ROOT}/organisation/data.json", named


def _document(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_bytes()) if path.is_file() else {}
    return value if isinstance(value, dict) else {}


def _uncovered(report: Mapping[str, Any], source: Path) -> Iterator[tuple[str, int]]:
    for file, lines in (report.get("files") or {}).items():
        if not file.endswith("_test.rego"):
            for span in lines.get("not_covered") or ():
                for row in range(span["start"]["row"], span["end"]["row"] + 1):
                    yield _relative(file, source), row


def _relative(file: str, source: Path) -> str:
    path = Path(file)
    return path.relative_to(source).as_posix() if path.is_relative_to(source) else file
