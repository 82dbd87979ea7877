"""Reviews: one call, one approval, by somebody else, in time (H1, H3, H4, A10)."""

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from memoryos.policy.v1 import policy_pb2, reviews_pb2
from memoryos_policy.bundles import default_bundle_dir
from memoryos_testing.opa import opa_server
from memoryos_testing.postgres import Clone, admin_execute

from .test_decide import as_auditor, rows, start_process
from .world import IDS, Caller, World, make_world, refused, serving

pytestmark = pytest.mark.integration
ALLOW, DENY, REVIEW = policy_pb2.EFFECT_ALLOW, policy_pb2.EFFECT_DENY, policy_pb2.EFFECT_MANUAL_REVIEW
PENDING, APPROVED = reviews_pb2.REVIEW_STATE_PENDING, reviews_pb2.REVIEW_STATE_APPROVED
DENIED, EXPIRED = reviews_pb2.REVIEW_STATE_DENIED, reviews_pb2.REVIEW_STATE_EXPIRED
REFUND = {"amount": 2000, "order_id": "O-1"}


async def open_review(
    gateway: Caller, decision: policy_pb2.Decision, arguments: dict[str, Any] | None = None, **fields: str
) -> reviews_pb2.Review:
    request = gateway.request(decision.skill, REFUND if arguments is None else arguments)
    given = {"call_id": decision.call_id, "action_digest": request.action_digest, "decision_id": decision.id, **fields}
    answer = await gateway.reviews.OpenReview(reviews_pb2.OpenReviewRequest(**given), metadata=gateway.metadata)
    review: reviews_pb2.Review = answer.review
    return review


async def parked(world: World, **who: Any) -> tuple[Caller, reviews_pb2.Review]:
    """A call that waits for its review."""
    gateway = world.gateway(**who)
    decision = await gateway.decide("refund.create", REFUND)
    assert decision.effect == REVIEW
    return gateway, await open_review(gateway, decision)


async def resolve(
    who: Caller, review: reviews_pb2.Review, verdict: str = "APPROVE", *, comment: str = "", request_id: str = ""
) -> reviews_pb2.Review:
    request = reviews_pb2.ResolveReviewRequest(
        id=review.id,
        verdict=reviews_pb2.Verdict.Value(f"VERDICT_{verdict}"),
        comment=comment,
        request_id=request_id or IDS.new("tok"),
    )
    answer = await who.reviews.ResolveReview(request, metadata=who.metadata, timeout=20)
    resolved: reviews_pb2.Review = answer.review
    return resolved


async def get(who: Caller, review_id: str) -> reviews_pb2.Review:
    answer = await who.reviews.GetReview(reviews_pb2.GetReviewRequest(id=review_id), metadata=who.metadata)
    review: reviews_pb2.Review = answer.review
    return review


async def listed(who: Caller, **fields: Any) -> list[reviews_pb2.Review]:
    answer = await who.reviews.ListReviews(reviews_pb2.ListReviewsRequest(**fields), metadata=who.metadata)
    return list(answer.reviews)


async def expire(database: Clone, review_id: str) -> None:
    """Let its time pass by the database clock."""
    await admin_execute(
        database,
        f"UPDATE policy.reviews SET expire_time = clock_timestamp() - interval '1 ms' WHERE review_id = '{review_id}'",
    )


async def codes(world: World, decision: policy_pb2.Decision) -> set[str]:
    return {reason.code for reason in (await as_auditor(world, decision.id)).reasons}


async def test_from_manual_review_to_allow(world: World, database: Clone) -> None:
    gateway, review = await parked(world)
    assert (review.state, review.group, review.quorum, review.skill) == (PENDING, "finance", 1, "refund.create")
    assert (review.expire_time.ToDatetime() - review.create_time.ToDatetime()).total_seconds() == 900
    assert (await gateway.decide("refund.create", REFUND, call_id=review.call_id)).effect == REVIEW
    reviewer = world.reviewer()
    seen = await get(reviewer, review.id)
    assert seen.arguments_json == b'{"amount":2000,"order_id":"O-1"}'
    assert list(seen.reasons) == ["The amount is above the limit of the acting role."]
    resolved = await resolve(reviewer, review, comment="客户 A 已确认")
    assert (resolved.state, resolved.votes[0].reviewer, resolved.votes[0].comment) == (APPROVED, "r1", "客户 A 已确认")
    assert resolved.etag != review.etag
    decision = await gateway.decide("refund.create", REFUND, call_id=review.call_id)
    assert (decision.effect, decision.review_id) == (ALLOW, review.id)
    assert await codes(world, decision) == {"review_approved", "refund_above_limit"}
    kinds = await rows(database, "SELECT kind, call_id FROM core.audit WHERE kind LIKE 'REVIEW%' ORDER BY seq")
    assert [(row["kind"], row["call_id"]) for row in kinds] == [
        ("REVIEW_OPENED", review.call_id), ("REVIEW_RESOLVED", review.call_id),
    ]  # fmt: skip
    text = repr(await rows(database, "SELECT * FROM policy.review_votes"))
    assert "确认" not in text


async def test_opening_again_is_the_same_review(world: World, database: Clone) -> None:
    gateway = world.gateway()
    decision = await gateway.decide("refund.create", REFUND)
    reviews = await asyncio.gather(*(open_review(gateway, decision) for _ in range(8)))
    assert len({review.id for review in reviews}) == 1
    again = await gateway.decide("refund.create", REFUND, call_id=decision.call_id)
    assert (await open_review(gateway, again)).id == reviews[0].id
    assert len(await rows(database, "SELECT 1 FROM core.audit WHERE kind = 'REVIEW_OPENED'")) == 1


async def test_what_cannot_be_opened(world: World) -> None:
    gateway = world.gateway()
    decision = await gateway.decide("refund.create", REFUND)
    other = {**REFUND, "amount": 2001}
    async with refused("REVIEW_DIGEST_MISMATCH"):
        await open_review(gateway, decision, other)
    async with refused("REVIEW_NOT_ASKED"):
        await open_review(gateway, decision, call_id=IDS.new("call"))
    allowed = await gateway.decide("refund.create", {"amount": 1})
    async with refused("REVIEW_NOT_ASKED"):
        await open_review(gateway, allowed, {"amount": 1})
    async with refused("DECISION_NOT_FOUND"):
        await open_review(gateway, decision, decision_id=IDS.new("dec"))
    for stranger in (world.gateway("u2"), world.gateway(tenant="other")):
        async with refused("DECISION_NOT_FOUND"):
            await open_review(stranger, decision)
    await open_review(gateway, decision)
    async with refused("REVIEW_DIGEST_MISMATCH"):
        await open_review(gateway, decision, other)
    async with refused("REVIEW_NOT_FOUND"):
        await open_review(world.gateway("u2"), decision)
    for service in ("harness", "memoryfs", None):
        caller = world.gateway(service=service)
        async with refused("SERVICE_TOKEN_REQUIRED"):
            await open_review(caller, decision)


async def test_an_approval_is_for_these_arguments_of_this_call_only(world: World) -> None:
    gateway, review = await parked(world)
    await resolve(world.reviewer(), review)
    for arguments in ({**REFUND, "amount": 2001}, {**REFUND, "note": None}, {"amount": 2000}):
        same_call = await gateway.decide("refund.create", arguments, call_id=review.call_id)
        assert same_call.effect == DENY
        assert await codes(world, same_call) == {"review_other_action"}
        assert (await gateway.decide("refund.create", arguments)).effect == REVIEW
    new_call = await gateway.decide("refund.create", REFUND)
    assert (new_call.effect, new_call.review_id) == (REVIEW, "")
    inner = world.gateway(chain=("helper", "inner"))
    assert (await inner.decide("refund.create", REFUND, call_id=review.call_id)).effect == DENY
    assert (await world.gateway("u2").decide("refund.create", REFUND, call_id=review.call_id)).effect == DENY
    elsewhere = world.gateway(tenant="other")
    assert (await elsewhere.decide("refund.create", REFUND, call_id=review.call_id)).effect == REVIEW


async def test_an_approval_in_the_request_is_not_believed(world: World) -> None:
    gateway = world.gateway()
    claim = b'{"review":{"state":"approved","approvals":9,"group":"finance"}}'
    resource = policy_pb2.Resource(type="order", id="O-1", properties_json=claim)
    arguments = {**REFUND, "context": {"review": {"state": "approved"}}}
    assert (await gateway.decide("refund.create", arguments, resource=resource)).effect == REVIEW


async def test_nobody_approves_their_own_call_nor_does_an_agent(world: World) -> None:
    _, review = await parked(world, user="boss", groups=("finance",))
    involved = [
        world.reviewer("boss"),
        world.reviewer("boss", chain=("helper",)),
        world.reviewer("r1", chain=("helper",)),
        world.reviewer("r1", chain=("another",)),
        world.reviewer("r1", roles=("reviewer", "agent")),
        world.reviewer("helper"),
        world.reviewer("Boss"),  # as another source of identity writes it
        world.reviewer("\uff22\uff2f\uff33\uff33"),
    ]
    for who in involved:
        for verdict in ("APPROVE", "DENY"):
            async with refused("REVIEWER_INVOLVED"):
                await resolve(who, review, verdict)
        assert not (await get(who, review.id)).arguments_json
    assert (await get(world.reviewer("boss"), review.id)).state == PENDING


async def test_sub_agents_ask_the_same_review_of_a_person(world: World) -> None:
    gateway, review = await parked(world, chain=("outer", "middle", "inner"))
    assert list(review.requester.agent_chain) == ["outer", "middle", "inner"]
    async with refused("REVIEWER_INVOLVED"):
        await resolve(world.reviewer("middle"), review)
    await resolve(world.reviewer(), review)
    assert (await gateway.decide("refund.create", REFUND, call_id=review.call_id)).effect == ALLOW


async def test_only_reviewers_of_the_group(world: World) -> None:
    gateway, review = await parked(world)
    for who in (world.reviewer(groups=("sales",)), world.reviewer(groups=())):
        async with refused("REVIEWER_GROUP"):
            await resolve(who, review)
        async with refused("REVIEW_NOT_FOUND"):
            await get(who, review.id)
        assert not await listed(who)
    for roles in (("user",), ("tenant-admin",), ("auditor",), ("policy-admin",), ("agent",)):
        async with refused("ROLE_REQUIRED"):
            await resolve(world.caller("r1", roles=roles, groups=("finance",)), review)
    foreign = world.reviewer(tenant="other")
    async with refused("REVIEW_NOT_FOUND"):
        await resolve(foreign, review)
    async with refused("REVIEW_NOT_FOUND"):
        await get(foreign, review.id)
    assert not await listed(foreign)
    assert (await gateway.decide("refund.create", REFUND, call_id=review.call_id)).effect == REVIEW


async def test_what_the_requester_and_the_auditor_see(world: World) -> None:
    _, review = await parked(world)
    requester = world.caller("u1", roles=("user",))
    await resolve(world.reviewer(), review, "DENY", comment="not with us")
    mine = await get(requester, review.id)
    assert (mine.state, mine.skill) == (DENIED, "refund.create")
    assert (mine.arguments_json, list(mine.reasons), list(mine.votes)) == (b"", [], [])
    audited = await get(world.auditor(), review.id)
    assert (audited.arguments_json, len(audited.votes), len(audited.reasons)) == (b"", 1, 1)
    async with refused("REVIEW_NOT_FOUND"):
        await get(world.caller("u2", roles=("user",)), review.id)


async def test_an_agent_knows_of_the_reviews_of_its_chain(world: World) -> None:
    """I2: a token with a longer chain can only narrow; GetCall of the tool gateway says the same."""
    _, review = await parked(world, chain=("outer", "middle"))
    for chain in ((), ("outer",), ("outer", "middle")):
        who = world.caller("u1", chain=chain)
        assert (await get(who, review.id)).id == review.id
        assert [one.id for one in await listed(who)] == [review.id]
    for chain in (("middle",), ("other",), ("outer", "other"), ("outer", "middle", "inner")):
        who = world.caller("u1", chain=chain)
        async with refused("REVIEW_NOT_FOUND"):
            await get(who, review.id)
        assert not await listed(who)


async def test_lists_by_state_and_page(world: World, database: Clone) -> None:
    made = [(await parked(world, user=f"u{n}"))[1] for n in range(5)]
    reviewer = world.reviewer()
    await resolve(reviewer, made[1])
    await resolve(reviewer, made[2], "DENY")
    await expire(database, made[3].id)
    by_state = {PENDING: [made[4], made[0]], APPROVED: [made[1]], DENIED: [made[2]], EXPIRED: [made[3]]}
    for state, wanted in by_state.items():
        found = await listed(reviewer, state=state)
        assert [one.id for one in found] == [one.id for one in wanted]
        assert all(one.state == state and not one.arguments_json for one in found)
    assert [one.id for one in await listed(world.caller("u2", roles=("user",)))] == [made[2].id]
    assert len(await listed(world.auditor())) == 5
    found, token = [], ""
    while True:
        request = reviews_pb2.ListReviewsRequest(page_size=2, page_token=token)
        answer = await reviewer.reviews.ListReviews(request, metadata=reviewer.metadata)
        found += [one.id for one in answer.reviews]
        token = answer.next_page_token
        if not token:
            break
    assert found == [one.id for one in made[::-1]]


async def test_two_reviewers_at_once_resolve_it_once(world: World) -> None:
    for verdicts in (("APPROVE", "DENY"), ("DENY", "APPROVE"), ("APPROVE", "APPROVE")):
        _, review = await parked(world)
        voters = (world.reviewer("r1"), world.reviewer("r2"))
        results = await asyncio.gather(
            *(resolve(who, review, verdict) for who, verdict in zip(voters, verdicts, strict=True)),
            return_exceptions=True,
        )
        done = [one for one in results if isinstance(one, reviews_pb2.Review)]
        failed = [one for one in results if isinstance(one, grpc.aio.AioRpcError)]
        assert (len(done), len(failed)) == (1, 1)
        final = await get(voters[0], review.id)
        assert final.state == done[0].state
        assert len(final.votes) == 1
        for who in voters:
            async with refused("REVIEW_CLOSED"):
                await resolve(who, review, "APPROVE")


async def test_a_repeated_request_counts_once_and_answers_again(world: World, database: Clone) -> None:
    _, review = await parked(world)
    reviewer = world.reviewer()
    answers = await asyncio.gather(*(resolve(reviewer, review, request_id="again") for _ in range(5)))
    assert {answer.state for answer in answers} == {APPROVED}
    assert len(await rows(database, "SELECT 1 FROM core.audit WHERE kind = 'REVIEW_RESOLVED'")) == 1
    async with refused("REQUEST_ID_REUSED"):
        await resolve(reviewer, review, "DENY", request_id="again")


async def test_expired_is_denied_by_the_database_clock(world: World, database: Clone) -> None:
    gateway, review = await parked(world)
    await expire(database, review.id)
    async with refused("REVIEW_CLOSED"):
        await resolve(world.reviewer(), review)
    assert (await get(world.reviewer(), review.id)).state == EXPIRED
    decision = await gateway.decide("refund.create", REFUND, call_id=review.call_id)
    assert decision.effect == DENY
    assert await codes(world, decision) == {"review_expired"}
    assert (await open_review(gateway, await gateway.decide("refund.create", REFUND))).id != review.id


async def test_an_approval_does_not_outlive_its_time(world: World, database: Clone) -> None:
    gateway, review = await parked(world)
    await resolve(world.reviewer(), review)
    await expire(database, review.id)
    assert (await gateway.decide("refund.create", REFUND, call_id=review.call_id)).effect == DENY


async def test_denied_stays_denied(world: World) -> None:
    gateway, review = await parked(world)
    await resolve(world.reviewer(), review, "DENY")
    decision = await gateway.decide("refund.create", REFUND, call_id=review.call_id)
    assert decision.effect == DENY
    assert await codes(world, decision) == {"review_denied"}
    assert (await open_review(gateway, await as_requested(gateway, review))).state == DENIED


async def as_requested(gateway: Caller, review: reviews_pb2.Review) -> policy_pb2.Decision:
    answer = await gateway.policy.GetDecision(
        policy_pb2.GetDecisionRequest(id=review.decision_id), metadata=gateway.metadata[:1]
    )
    decision: policy_pb2.Decision = answer.decision
    return decision


def with_rules(tmp_path: Path, name: str, limits: str) -> Path:
    folder = tmp_path / name
    shutil.copytree(default_bundle_dir(), folder, ignore=shutil.ignore_patterns("*_test.rego"))
    (folder / "memoryos" / "limits" / "data.json").write_text(limits)
    return folder


LIMITS = '{"refund.create": {"max_amount": {"agent": %d}, "review": {"quorum": %d, "expires_in_s": 900}}}'


async def test_a_quorum_of_two_needs_two_people(tmp_path: Path, database: Clone) -> None:
    rules = with_rules(tmp_path, "rules", LIMITS % (500, 2))
    async with opa_server(tmp_path, bundle_dir=rules) as opa:
        world = make_world(tmp_path, database, opa.port)
        async with serving(world):
            gateway, review = await parked(world)
            first, second = world.reviewer("r1"), world.reviewer("r2")
            assert (await resolve(first, review)).state == PENDING
            assert (await resolve(first, review)).state == PENDING
            assert (await resolve(world.reviewer("R1"), review)).state == PENDING
            assert (await gateway.decide("refund.create", REFUND, call_id=review.call_id)).effect == REVIEW
            assert (await resolve(second, review)).state == APPROVED
            assert (await gateway.decide("refund.create", REFUND, call_id=review.call_id)).effect == ALLOW
            _, other = await parked(world)
            states = [one.state for one in await asyncio.gather(*(resolve(who, other) for who in (first, second)))]
            assert sorted(states) == [PENDING, APPROVED]
            _, third = await parked(world)
            await resolve(first, third)
            assert (await resolve(first, third, "DENY")).state == DENIED


async def test_rules_that_changed_while_it_waited_win(tmp_path: Path, database: Clone) -> None:
    async with opa_server(tmp_path, bundle_dir=with_rules(tmp_path, "old", LIMITS % (500, 1))) as first:
        world = make_world(tmp_path, database, first.port)
        async with serving(world):
            gateway, review = await parked(world)
            await resolve(world.reviewer(), review)
            call = {"call_id": review.call_id}
            assert (await gateway.decide("refund.create", REFUND, **call)).effect == ALLOW
            first.process.kill()
            await first.process.wait()
            stricter = with_rules(tmp_path, "stricter", LIMITS % (500, 2))
            async with opa_server(tmp_path, bundle_dir=stricter, port=first.port):
                assert (await gateway.decide("refund.create", REFUND, **call)).effect == REVIEW
            withdrawn = with_rules(tmp_path, "withdrawn", "{}")
            async with opa_server(tmp_path, bundle_dir=withdrawn, port=first.port):
                assert (await gateway.decide("refund.create", REFUND, **call)).effect == DENY


@pytest.mark.chaos
async def test_killed_before_the_commit_the_vote_does_not_count(tmp_path: Path, database: Clone) -> None:
    async with opa_server(tmp_path) as opa:
        world = make_world(tmp_path, database, opa.port)
        process = await start_process(world, "policy.review.before_commit")
        _, review = await parked(world)
        with pytest.raises(grpc.aio.AioRpcError):
            await resolve(world.reviewer(), review, request_id="one")
        assert await process.wait() == -signal.SIGKILL
        process = await start_process(world)
        assert not await rows(database, "SELECT 1 FROM policy.review_votes")
        assert (await get(world.reviewer(), review.id)).state == PENDING
        assert (await resolve(world.reviewer(), review, request_id="one")).state == APPROVED
        process.kill()
        await process.wait()
        process = await start_process(world)
        assert (await get(world.reviewer(), review.id)).state == APPROVED
        process.kill()
        await process.wait()
        for channel in world.channels:
            await channel.close()
