"""Paths, commands and naughty strings as arguments, through the whole call path: refused by name, or literal."""

import json
from typing import Any

import pytest
from memoryos_core.errors import InvalidField
from memoryos_toolgateway.errors import ArgumentsInvalid

from .bench import Bench, skill_document, write_skills
from .eval_data import eval_data
from .policies import allow

pytestmark = pytest.mark.integration


def hostile() -> list[str]:
    names = ("path_traversal", "command_injection")
    payloads = [row["payload"] for name in names for row in eval_data(f"security/{name}.jsonl")[::97]]
    paths = [row["path"] for row in eval_data("security/sensitive_paths.jsonl")[::41]]
    return [*payloads, *paths, *eval_data("security/blns.json")[::17]]


def skills() -> list[dict[str, Any]]:
    in_path = skill_document("in.path", "ok")
    in_body = skill_document("in.body", "ok")
    in_body["connector"] |= {"path": "/echo/x", "body": {"note": "/name"}}
    in_form = skill_document("in.form", "ok")
    in_form["connector"] |= {"path": "/ok/x", "body": {"note": "/name"}, "body_format": "form", "query": {"q": "/name"}}
    in_header = skill_document("in.header", "ok")
    in_header["connector"] |= {"path": "/ok/x", "headers": {"x-name": "{name}"}}
    return [in_path, in_body, in_form, in_header]


async def test_hostile_arguments_are_refused_by_name_or_arrive(bench: Bench):
    """No state but SUCCEEDED, no error but one that names the argument: nothing is INTERNAL."""
    write_skills(bench.folder, *skills())
    replica, ended = bench.replica(), 0
    refusals: list[tuple[Any, int]] = []
    for name in ("in.path", "in.body", "in.form", "in.header"):
        bench.policy.rules[name] = allow
        for number, text in enumerate(hostile()):
            before = len(bench.upstream.requests)
            try:
                call = await bench.call(name, f"{name}-{number}", replica=replica, name=text)
            except (ArgumentsInvalid, InvalidField) as error:
                refusals.append((error.violations, len(bench.upstream.requests) - before))
                continue
            assert call.state == "SUCCEEDED", (name, text)
            assert json.loads(call.arguments) == {"name": text}
            ended += 1
            if name == "in.body":
                assert json.loads(call.result) == {"note": text}
    assert ended > len(hostile())
    for violations, sent in refusals:
        assert sent == 0
        assert all(violation.field.startswith("arguments_json") for violation in violations)
    assert all(request.path.startswith(("/ok/", "/echo/")) for request in bench.upstream.requests)
