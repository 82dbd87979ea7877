"""Good answers of OPA, and ways to spoil them."""

import copy
import json
from collections.abc import Iterator
from typing import Any

REVISION = "ab" * 32
Path = tuple[str | int, ...]

OBLIGATIONS: list[dict[str, Any]] = [
    {"kind": "rewrite_args", "patches": [{"pointer": "/amount", "value": {"a": [1, None]}}]},
    {"kind": "redact", "pointers": ["/customer/*/phone"], "detectors": ["phone", "cn_id_card"]},
    {"kind": "rate_limit", "key": "refund.create:u1", "limit": 500.5, "window_s": 60, "cost": 20},
    {"kind": "read_only"},
    {"kind": "sandbox", "level": 2},
    {"kind": "output_limit", "bytes": 4096},
    {"kind": "taint", "facts": ["untrusted_content"]},
    {"kind": "notify", "channel": "ops", "text": "已执行"},
]
APPROVAL = {"kind": "approval", "group": "finance", "quorum": 1, "expires_in_s": 900}


def answer(**fields: Any) -> dict[str, Any]:
    """A 200 answer of OPA that allows; `fields` replace those of its result."""
    return {
        "decision_id": "8e0e8a4e-9c11-4b5e-a1a3-4c3cf2a6ad1d",
        "provenance": {"bundles": {"bundle": {"revision": REVISION}, "guard": {"revision": ""}}},
        "result": {
            "decision": "allow",
            "risk": "low",
            "reasons": [{"code": "yes", "policy": "memoryos.skills.x-y", "text": "Yes."}],
            "agent_message": "",
            "obligations": [],
            "confirm_time": "2026-01-01T00:00:00.25Z",
            **fields,
        },
    }


GOOD = [
    answer(),
    answer(risk="critical", agent_message="好", confirm_time="2026-12-31T23:59:59Z"),
    answer(reasons=[{"code": f"r{n}:a.b", "policy": "memoryos.main", "text": "x" * 500} for n in range(3)]),
    *(answer(obligations=[one]) for one in OBLIGATIONS),
    answer(obligations=OBLIGATIONS),
]
"""Each is an allow."""


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: true is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place inside a JSON value, containers before what they hold."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, (*path, number))


def at(value: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """A copy with something else at a place."""
    if not path:
        return new
    whole = copy.deepcopy(value)
    at(whole, path[:-1])[path[-1]] = new
    return whole


def text(value: Any) -> bytes:
    """As OPA writes it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
