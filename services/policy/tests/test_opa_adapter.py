"""Every answer that is not exactly a decision is a deny with its own reason (P1, P4, P8)."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from memoryos_policy.adapters.opa import CONNECTIONS_MAX, OpaDecisionPoint
from memoryos_policy.config import PolicySection
from memoryos_policy.domain.obligations import Approval
from memoryos_policy.domain.verdicts import Effect, Verdict

from .documents import listing, question

REVISION = "ab" * 32
GOOD = {
    "provenance": {"bundles": {"bundle": {"revision": REVISION}, "guard": {"revision": ""}}},
    "result": {
        "decision": "allow",
        "risk": "low",
        "reasons": [{"code": "yes", "policy": "memoryos.skills.x-y", "text": "Yes."}],
        "agent_message": "",
        "obligations": [],
        "confirm_time": "2026-01-01T00:00:00Z",
    },
}
APPROVAL = {"kind": "approval", "group": "finance", "quorum": 1, "expires_in_s": 900}


def section(port: int, timeout_s: float = 2.0) -> PolicySection:
    return PolicySection(opa_port=port, opa_timeout_s=timeout_s, opa_token_file=Path("token"))


@asynccontextmanager
async def opa_stub(
    handler: Callable[[web.Request], object], *, timeout_s: float = 2.0
) -> AsyncIterator[OpaDecisionPoint]:
    app = web.Application(client_max_size=10**8)
    app.router.add_route("*", "/{tail:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    point = OpaDecisionPoint(section(runner.addresses[0][1], timeout_s), "opa-token")
    await point.start()
    try:
        yield point
    finally:
        await point.close()
        await runner.cleanup()


async def ask(body: object, *, status: int = 200, content_type: str = "application/json") -> Verdict:
    async def answer(_: web.Request) -> web.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=raw, status=status, content_type=content_type)

    async with opa_stub(answer) as point:
        return await point.decide(question())


def changed(**fields: object) -> dict:
    body = copy.deepcopy(GOOD)
    body["result"].update(fields)
    return body


def without(field: str) -> dict:
    body = copy.deepcopy(GOOD)
    del body["result"][field]
    return body


async def test_a_good_answer_is_believed() -> None:
    verdict = await ask(GOOD)
    assert (verdict.effect, verdict.revision, verdict.approval) == (Effect.ALLOW, REVISION, None)
    review = await ask(changed(decision="manual_review", obligations=[APPROVAL]))
    assert review.approval == Approval("finance", 1, 900)


def decided_by(*revisions: str) -> dict:
    bundles = {f"bundle{number}": {"revision": revision} for number, revision in enumerate(revisions)}
    return {**GOOD, "provenance": {"bundles": bundles}}


HOSTILE = {
    "empty": ({}, "undefined"),
    "null result": ({"result": None}, "not_an_object"),
    "empty result": ({"result": {}}, "keys"),
    "allow as text": ({"result": {"allow": "false"}}, "keys"),
    "boolean": ({"result": True}, "not_an_object"),
    "number result": ({"result": 1}, "not_an_object"),
    "list result": ({"result": [GOOD["result"]]}, "not_an_object"),
    "number": (1, "not_an_answer"),
    "list": ([], "not_an_answer"),
    "text": ("allow", "not_an_answer"),
    "null": (None, "not_an_answer"),
    "nothing": (b"", "not_json"),
    "cut off": (json.dumps(GOOD).encode()[:-1], "not_json"),
    "two values": (json.dumps(GOOD).encode() * 2, "not_json"),
    "not UTF-8": (b'{"result": "\xff"}', "not_json"),
    "NaN": (json.dumps(GOOD).encode().replace(b'"agent_message": ""', b'"agent_message": NaN'), "not_json"),
    "infinite": (json.dumps(GOOD).encode().replace(b'"agent_message": ""', b'"agent_message": 1e999'), "not_json"),
    "said twice": (b'{"result": {"decision": "deny", "decision": "allow"}}', "not_json"),
    "deep": (b'{"result":' + b"[" * 5000 + b"]" * 5000 + b"}", "not_json"),
    "five megabytes": (json.dumps(changed(agent_message="x" * 5_000_000)).encode(), "too_large"),
    "extra key": (changed(allow=True), "keys"),
    **{f"no {key}": (without(key), "keys") for key in GOOD["result"]},
    **{
        f"decision {value!r}": (changed(decision=value), "decision")
        for value in ("ALLOW", "Allow", "allow ", "", "permit", True, 1, None, ["allow"], {"allow": True})
    },
    "no reasons": (changed(reasons=[]), "reasons"),
    "many reasons": (changed(reasons=GOOD["result"]["reasons"] * 65), "reasons"),
    "reason of text": (changed(reasons=["yes"]), "reasons"),
    "reason code": (changed(reasons=[{"code": "No!", "policy": "p", "text": ""}]), "reasons"),
    "reason with more": (changed(reasons=[{"code": "a", "policy": "p", "text": "", "x": 1}]), "reasons"),
    "long text": (changed(reasons=[{"code": "a", "policy": "p", "text": "x" * 501}]), "reasons"),
    "message of another type": (changed(agent_message=None), "agent_message"),
    "allow with approval": (changed(obligations=[APPROVAL]), "obligations"),
    "allow with half an obligation": (changed(obligations=[{"kind": "redact"}]), "obligations"),
    "allow with unknown obligation": (changed(obligations=[{"kind": "audit"}]), "obligations"),
    "deny with an obligation": (changed(decision="deny", obligations=[{"kind": "read_only"}]), "obligations"),
    "obligations as object": (changed(obligations={}), "obligations"),
    "review without approval": (changed(decision="manual_review"), "obligations"),
    "review by two groups": (changed(decision="manual_review", obligations=[APPROVAL, APPROVAL]), "obligations"),
    **{
        f"review with {field} {value!r}": (
            changed(decision="manual_review", obligations=[{**APPROVAL, field: value}]),
            "obligations",
        )
        for field, value in [
            ("kind", "redact"), ("group", ""), ("group", None), ("group", "a b"), ("quorum", 0), ("quorum", True),
            ("quorum", 1.5), ("quorum", 11), ("expires_in_s", -1), ("expires_in_s", 10**9), ("extra", 1),
        ]
    },
    "no provenance": ({"result": GOOD["result"]}, "revision"),
    **{f"risk {value!r}": (changed(risk=value), "risk") for value in ("", "LOW", None, 1, ["low"], "none")},
    "two revisions": (decided_by(REVISION, "c" * 64), "revision"),
    "revision of another form": (decided_by("v1"), "revision"),
    "no bundle time": (changed(confirm_time=""), "confirm_time"),
    "local time": (changed(confirm_time="2026-01-01T00:00:00"), "confirm_time"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_whatever_is_not_a_decision_is_a_deny(body: object, kind: str) -> None:
    verdict = await ask(body)
    assert verdict.effect is Effect.DENY
    assert [reason.code for reason in verdict.reasons] == [f"policy_error:{kind}"]
    assert (verdict.revision, verdict.approval) == ("", None)


@pytest.mark.parametrize("status", [201, 204, 301, 400, 401, 403, 404, 500, 502, 503, 504])
async def test_other_statuses_are_a_deny(status: int) -> None:
    verdict = await ask(GOOD if status not in (204,) else b"", status=status)
    assert [reason.code for reason in verdict.reasons] == [f"policy_error:http_{status}"]


async def test_html_is_a_deny() -> None:
    verdict = await ask(b"<html>allow</html>", content_type="text/html")
    assert verdict.reasons[0].code == "policy_error:not_json"
    disguised = await ask(json.dumps(GOOD).encode(), content_type="text/html")
    assert disguised.effect is Effect.DENY


async def test_no_bundle_is_policy_missing() -> None:
    verdict = await ask({"provenance": {"bundles": {"guard": {"revision": ""}}}})
    assert [reason.code for reason in verdict.reasons] == ["policy_missing"]


async def test_a_redirect_takes_the_token_nowhere() -> None:
    visits: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        visits.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    async with opa_stub(answer) as point:
        assert (await point.decide(question())).effect is Effect.DENY
    assert visits == ["/v1/data/memoryos/main/decision"]


async def test_hang_and_slow_drip_end_at_the_deadline() -> None:
    release = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await release.wait()
        return web.json_response(GOOD)

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        for byte in json.dumps(GOOD).encode():
            await response.write(bytes([byte]))
            await asyncio.sleep(0.02)
        return response

    for handler in (hang, drip):
        async with opa_stub(handler, timeout_s=0.3) as point:
            async with asyncio.timeout(1.5):
                verdict = await point.decide(question())
            assert [reason.code for reason in verdict.reasons] == ["policy_error:timeout"]
            release.set()


async def test_a_page_of_200_a_flood_and_garbage_are_denied_and_forgotten() -> None:
    bad = [
        (b"<html>ok</html>", "text/html"),
        (b"<html>ok</html>", "application/json"),
        (b"x" * 5_000_000, "application/json"),
        (bytes(range(256)) * 4, "application/json"),
        (json.dumps(GOOD).encode(), "text/plain"),
    ]
    turn = iter(bad)

    async def answer(_: web.Request) -> web.Response:
        body, kind = next(turn, (json.dumps(GOOD).encode(), "application/json"))
        return web.Response(body=body, content_type=kind)

    async with opa_stub(answer) as point:
        for _ in bad:
            assert (await point.decide(question())).undecided
        assert (await point.decide(question())).effect is Effect.ALLOW


async def test_a_hung_opa_denies_a_crowd_within_one_time_out() -> None:
    release = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await release.wait()
        return web.json_response(GOOD)

    async with opa_stub(hang, timeout_s=0.5) as point:
        async with asyncio.timeout(3):
            verdicts = await asyncio.gather(*(point.decide(question()) for _ in range(500)))
        assert {verdict.reasons[0].code for verdict in verdicts} == {"policy_error:timeout"}
        release.set()
        assert (await point.decide(question())).effect is Effect.ALLOW


async def test_an_input_that_is_not_of_the_closed_form_is_not_asked() -> None:
    async def answer(_: web.Request) -> web.Response:
        raise AssertionError("asked")

    spoiled: list[dict] = []
    for place in ("subject", "actor", "action", "resource", "context"):
        for key in question()[place]:
            without_it = question()
            without_it[place] = {name: value for name, value in without_it[place].items() if name != key}
            other = question()
            other[place][key] = ["x", None]
            more = question()
            more[place][f"{key}_"] = other[place][key]
            spoiled += [without_it, other, more]
    spoiled += [{k: v for k, v in question().items() if k != key} for key in question()]
    spoiled += [question(purpose="probe"), question(version=2), question(version=True), question(token="secret")]
    spoiled += [question(purpose="list"), listing() | {"args": {}}, listing() | {"action_digest": "a" * 64}]
    async with opa_stub(answer) as point:
        for document in spoiled:
            verdict = await point.decide(document)
            assert [reason.code for reason in verdict.reasons] == ["policy_error:input"], document


async def test_a_listing_is_of_the_closed_form() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(GOOD)

    async with opa_stub(answer) as point:
        assert (await point.decide(listing())).effect is Effect.ALLOW


async def test_nobody_listening() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(GOOD)

    async with opa_stub(answer) as point:
        port = point._client.port
    late = OpaDecisionPoint(section(port), "opa-token")
    await late.start()
    try:
        assert (await late.decide(question())).reasons[0].code == "policy_not_ready"
        assert (await late.probe()).undecided
        late._answered = True
        assert (await late.decide(question())).reasons[0].code == "policy_error:unreachable"
    finally:
        await late.close()


async def test_a_cut_connection_is_a_deny_after_one_more_try() -> None:
    tries = 0

    async def cut(request: web.Request) -> web.Response:
        nonlocal tries
        tries += 1
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with opa_stub(cut) as point:
        assert (await point.decide(question())).reasons[0].code == "policy_error:unreachable"
    assert tries == 2


async def test_the_question_is_asked_one_way() -> None:
    seen: list[tuple[str, str, str, dict]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path_qs, request.headers["authorization"], await request.json()))
        return web.json_response(GOOD)

    async with opa_stub(answer) as point:
        for skill in ("x/../../policies/p", "a?explain=full#", "..", "memoryos.main"):
            await point.decide(question(skill))
    assert {one[:3] for one in seen} == {
        ("POST", "/v1/data/memoryos/main/decision?strict-builtin-errors=true&provenance=true", "Bearer opa-token")
    }
    assert [one[3]["input"]["action"]["skill"] for one in seen][:2] == ["x/../../policies/p", "a?explain=full#"]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", {1: 2}, object(), [[["x"] * 3, float("-inf")]]]
)
async def test_what_is_no_json_is_not_asked(value: object) -> None:
    async def answer(_: web.Request) -> web.Response:
        raise AssertionError("asked")

    async with opa_stub(answer) as point:
        verdict = await point.decide(question(args={"x": value}))
    assert [reason.code for reason in verdict.reasons] == ["policy_error:input"]


async def test_cancelling_is_not_a_verdict() -> None:
    async def hang(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with opa_stub(hang) as point:
        task = asyncio.create_task(point.decide(question()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_many_questions_at_once_do_not_time_each_other_out() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.json_response(GOOD)

    # Four rounds of CONNECTIONS_MAX take longer than one question may.
    async with opa_stub(slow, timeout_s=3.5) as point:
        verdicts = await asyncio.gather(*(point.decide(question()) for _ in range(4 * CONNECTIONS_MAX)))
    assert {verdict.effect for verdict in verdicts} == {Effect.ALLOW}
