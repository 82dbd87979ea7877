"""10,000 spoiled forms of an allow that is one while unspoiled: none is an allow (FAULTS P1)."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from memoryos_policy.adapters.faults import Fault
from memoryos_policy.adapters.input_check import fits_result
from memoryos_policy.adapters.opa import read_answer
from memoryos_policy.adapters.opa_answer import parse_answer, parse_result
from memoryos_policy.domain.verdicts import Effect

from .answers import APPROVAL, GOOD, OBLIGATIONS, REVISION, answer, at, paths, put, same, text
from .documents import question
from .test_opa_adapter import opa_stub

RESULT = ("result",)
LOOK_ALIKES = str.maketrans("aceopsi", "асеорѕі")
INVISIBLE = ["\u200b", "\ufeff", "\u0000", " ", "\n", "\u202e", "\u0308"]
OTHER_TYPES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    10**400,
    1.5,
    "",
    "allow",
    "true",
    [],
    ["allow"],
    {},
    {"allow": True},
]


def effect_of(body: bytes) -> Effect:
    """What the adapter makes of a body."""
    try:
        return parse_answer(read_answer(body)).effect
    except Fault:
        return Effect.DENY


PATHS: dict[int, list[Any]] = {id(good): list(paths(good)) for good in GOOD}
"""Places of each good answer, found once."""
CLOSED_OBJECTS: dict[int, list[Any]] = {
    id(good): [
        path
        for path in PATHS[id(good)]
        if path[:1] == RESULT and isinstance(at(good, path), dict) and "value" not in path
    ]
    for good in GOOD
}
"""Places of objects whose keys are closed."""


@st.composite
def other_keys(draw: st.DrawFn) -> bytes:
    """A key of a closed object is gone, renamed, doubled or joined by another one."""
    good = draw(st.sampled_from(GOOD))
    path = draw(st.sampled_from(CLOSED_OBJECTS[id(good)]))
    found = at(good, path)
    key = draw(st.sampled_from(sorted(found)))
    how = draw(st.sampled_from(["drop", "rename", "add", "double"]))
    if how == "drop":
        return text(put(good, path, {name: value for name, value in found.items() if name != key}))
    if how == "double":
        other = draw(st.sampled_from([found[key], *OTHER_TYPES]))
        pairs = [*found.items(), (key, other)] if draw(st.booleans()) else [(key, other), *found.items()]
        inner = "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs) + "}"
        marked = text(put(good, path, "HERE"))
        return marked.replace(b'"HERE"', inner.encode())
    strange = draw(
        st.sampled_from(
            [key.upper(), key.title(), key.translate(LOOK_ALIKES), f"{key}s", f"_{key}", "allow", "__proto__", ""]
            + [f"{key}{mark}" for mark in INVISIBLE]
        )
        | st.text(max_size=8)
    )
    assume(strange not in found)
    if how == "add":
        return text(put(good, path, {**found, strange: draw(st.sampled_from([found[key], *OTHER_TYPES]))}))
    return text(put(good, path, {strange if name == key else name: value for name, value in found.items()}))


@st.composite
def other_types(draw: st.DrawFn) -> bytes:
    """Something in the answer is of another type than it must be."""
    good = draw(st.sampled_from(GOOD))
    places = [
        path
        for path in PATHS[id(good)]
        if "value" not in path and path[:1] != ("decision_id",) and path[-1:] != ("guard",) and "guard" not in path
    ]
    path = draw(st.sampled_from(places))
    old = at(good, path)
    new = draw(st.sampled_from(OTHER_TYPES) | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
    how = draw(st.sampled_from(["replace", "list", "object"]))
    new = {"replace": new, "list": [old], "object": {"x": old}}[how]
    assume(kind_of(new) != kind_of(old))
    return text(put(good, path, new))


def kind_of(value: Any) -> str:
    """The JSON type; whole numbers and others are one."""
    return "number" if type(value) in (int, float) else type(value).__name__


BAD_VALUES: dict[str, list[Any]] = {
    "decision": ["ALLOW", "Allow", "deny, allow", "allow ", " allow", "аllow", "allow\u0000", "", "alow"],
    "risk": ["LOW", "none", "", "lоw", "low\n"],
    "code": ["", "Yes", "y e s", "é", "1a", "a" * 129, "a\u0000"],
    "policy": ["", "1a", "a b", "a" * 257, "data.memoryos\u0000"],
    "text": ["x" * 501, "a\u0000b"],
    "agent_message": ["x" * 501, "a\u0000b"],
    "confirm_time": ["", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+00:00", "now",
                     "2026-02-30T00:00:00Z",
                     "2026-01-01T25:00:00Z", "0000-01-01T00:00:00Z", "2026-01-01t00:00:00z", "２０26-01-01T00:00:00Z"],
    "revision": ["", "v1", "AB" * 32, "ab" * 31, "ab" * 33, f"{REVISION} ", "xy" * 32],
    "kind": ["", "Redact", "allow", "approval", "rewrite", "unknown", "read_only ", "sandbox\u0000"],
    "pointer": ["", "amount", "/~2", "a/b", "/" + "a" * 512, "/~"],
    "pointers": [["", "/a"], ["a"], ["/a"] * 65, [None]],
    "detectors": [["phone", "phone"], ["Phone"], ["all"], ["phone", None]],
    "facts": [[], ["untrusted"], ["personal_data", "personal_data"], ["untrusted_content", 1]],
    "patches": [[], [{"pointer": "/a", "value": 1}] * 33],
    "key": ["", "k" * 257, "a\u0000"],
    "limit": [-1, -0.001, 1e16, 10**400],
    "cost": [-1, 1e16, -(10**400)],
    "window_s": [0, -1, 1.5, 10**9],
    "level": [0, -1, 4, 1.5],
    "bytes": [0, -1, 0.5, 10**9],
    "channel": ["", "Ops", "a b", "a" * 129, "http://x"],
    "reasons": [[], [{"code": "a", "policy": "p", "text": ""}] * 65],
    "obligations": [[{"kind": "read_only"}] * 17, [APPROVAL], [*OBLIGATIONS, APPROVAL], [OBLIGATIONS[0]] * 2],
}  # fmt: skip


@st.composite
def other_values(draw: st.DrawFn) -> bytes:
    """Something has a value that it may not have, though of the right type."""
    good = draw(st.sampled_from(GOOD))
    places = [
        path
        for path in PATHS[id(good)]
        if path and path[-1] in BAD_VALUES and "guard" not in path and "value" not in path
    ]
    path = draw(st.sampled_from(places))
    new = draw(st.sampled_from(BAD_VALUES[str(path[-1])]))
    if path[-1] == "kind":
        assume(new != at(good, path))
    return text(put(good, path, new))


@st.composite
def other_texts(draw: st.DrawFn) -> bytes:
    """The body is no single JSON value, or a number in it is none."""
    raw = text(draw(st.sampled_from(GOOD)))
    how = draw(st.sampled_from(["cut", "more", "before", "number", "deep", "page", "large", "coding"]))
    if how == "cut":
        return raw[: draw(st.integers(0, len(raw) - 1))]
    if how == "more":
        return raw + draw(st.sampled_from([raw, b"}", b",", b"allow", b"\x00", b"null", b"<!-- -->", b"//", b"{}"]))
    if how == "before":
        return (
            draw(
                st.sampled_from(
                    [b"\xef\xbb\xbf", b"\x00", b")]}',\n", b"[", b"{}", b"while(1);", b"HTTP/1.1 200 OK\r\n"]
                )
            )
            + raw
        )
    if how == "number":
        bad = draw(
            st.sampled_from(
                [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"01", b"+1", b"0x1", b"1_0", b".5", b"9" * 1001]
            )
        )
        return text(answer(agent_message="HERE")).replace(b'"HERE"', bad)
    if how == "deep":
        depth = draw(st.integers(20, 3_000))
        return text(answer(obligations="HERE")).replace(b'"HERE"', b"[" * depth + b"]" * depth)
    if how == "page":
        return b"<!doctype html><html><body>" + raw + b"</body></html>"
    if how == "large":
        return raw[:-1] + b" " * (300_000) + b"}"
    return draw(
        st.sampled_from(
            [raw.decode().encode("utf-16"), raw.replace(b"allow", b"all\xffow"), raw.replace(b"allow", b"\\ud800")]
        )
    )


MUTATIONS = st.one_of(other_keys(), other_types(), other_values(), other_texts())


@pytest.mark.parametrize("good", GOOD, ids=str)
def test_each_is_an_allow_while_unspoiled(good: Any) -> None:
    assert effect_of(text(good)) is Effect.ALLOW
    assert fits_result(good["result"])


@pytest.mark.parametrize("good", GOOD)
@pytest.mark.parametrize("other", [True, False, None, "1", [1]])
def test_a_number_is_nothing_else(good: Any, other: Any) -> None:
    for path in PATHS[id(good)]:
        if path[:1] == RESULT and "value" not in path and type(at(good, path)) in (int, float):
            assert effect_of(text(put(good, path, other))) is Effect.DENY, path


@given(body=MUTATIONS)
@settings(max_examples=10_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_no_spoiled_allow_is_an_allow(body: bytes) -> None:
    with contextlib.suppress(ValueError, RecursionError):  # no JSON at all is no good answer either
        value = json.loads(body)
        assume(not any(same(value, good) for good in GOOD))
    assert effect_of(body) is Effect.DENY


RESULTS = st.one_of(
    st.sampled_from([good["result"] for good in GOOD]),
    st.sampled_from(
        [answer(decision="deny")["result"], answer(decision="manual_review", obligations=[APPROVAL])["result"]]
    ),
)


@st.composite
def results(draw: st.DrawFn) -> Any:
    """A result, changed in up to three places: for better or for worse."""
    value = draw(RESULTS)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list(paths(value))))
        pool: list[Any] = [*OTHER_TYPES, "deny", "manual_review", [APPROVAL], APPROVAL, OBLIGATIONS, *OBLIGATIONS]
        pool += BAD_VALUES.get(str(path[-1]) if path else "", [])
        value = put(value, path, draw(st.sampled_from(pool) | st.text(max_size=6) | st.floats(0, 100)))
    return value


@given(result=results())
@settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_parser_and_the_published_schema_say_the_same(result: Any) -> None:
    try:
        parse_result(result)
        parsed = True
    except Fault:
        parsed = False
    assert parsed == fits_result(result), result


async def test_over_the_wire_a_spoiled_allow_is_a_deny_with_its_own_reason() -> None:
    bodies: list[bytes] = []

    @given(body=MUTATIONS)
    @settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def collect(body: bytes) -> None:
        bodies.append(body)

    collect()
    turn: AsyncIterator[bytes] | Any = iter(bodies)

    async def give(_: web.Request) -> web.Response:
        return web.Response(body=next(turn), content_type="application/json")

    async with opa_stub(give) as point:
        for body in bodies:
            verdict = await point.decide(question())
            assert verdict.effect is effect_of(body), body
            if verdict.undecided:
                assert verdict.reasons[0].code.startswith(("policy_error:", "policy_missing"))
