"""`python -m memoryos_policy.workbench check|test|try`: what `mos policy` runs, one JSON value on standard output.

Exit code 0: as it should be. 1: faults were found. 2: it could not be tried; the message is on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memoryos_policy.bundles import default_bundle_dir, default_schema_dir
from memoryos_policy.rules.check import check, test
from memoryos_policy.rules.evaluate import evaluate
from memoryos_policy.rules.opa_command import OpaCommand, OpaFailed
from memoryos_policy.rules.sample import SampleInvalid, sample_input

INPUT_SCHEMA = "input.schema.json"


async def run(arguments: Sequence[str], stdin: str) -> tuple[int, Any]:
    """Do what the command line asks and give exit code and answer. Raises OpaFailed and SampleInvalid."""
    given = _parser().parse_args(arguments)
    opa = OpaCommand(given.opa)
    bundle = given.bundle.resolve()
    if given.what == "check":
        skills = None if given.any_skill else given.skill
        findings = await check(opa, bundle, default_schema_dir() / INPUT_SCHEMA, skills)
        return int(bool(findings)), [asdict(finding) for finding in findings]
    if given.what == "test":
        tested = await test(opa, bundle)
        return int(not tested.ok), {**asdict(tested), "ok": tested.ok}
    document = sample_input(json.loads(stdin or "{}"))
    evaluation = await evaluate(opa, bundle, document)
    answer = {"input": document, "decision": evaluation.result, "fired": [asdict(fired) for fired in evaluation.fired]}
    return 0, answer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m memoryos_policy.workbench", description=__doc__)
    parser.add_argument("what", choices=("check", "test", "try"))
    parser.add_argument("--opa", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, default=default_bundle_dir())
    parser.add_argument("--skill", action="append", default=[], help="a skill that is registered; may be repeated")
    parser.add_argument("--any-skill", action="store_true", help="do not check names of skills")
    return parser


def _main() -> int:
    try:
        code, answer = asyncio.run(run(sys.argv[1:], "" if sys.stdin.isatty() else sys.stdin.read()))
    except (OpaFailed, SampleInvalid, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(_main())
