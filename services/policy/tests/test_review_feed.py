"""Reviews as they change, what they say of the call, and votes that do not come one by one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from memoryos.policy.v1 import policy_pb2, reviews_pb2
from memoryos_testing.postgres import Clone, admin_execute

from .test_decide import rows
from .test_decision_log import Watching
from .test_reviews import (
    APPROVED,
    DENIED,
    EXPIRED,
    PENDING,
    REFUND,
    expire,
    get,
    listed,
    open_review,
    parked,
    resolve,
)
from .world import Caller, World, refused, replica

pytestmark = pytest.mark.integration


def reviews(who: Caller, **fields: Any) -> Watching:
    return Watching(who.reviews.WatchReviews(reviews_pb2.WatchReviewsRequest(**fields), metadata=who.metadata))


async def stands(feed: Watching) -> tuple[str, int]:
    review = await feed.next("review")
    assert not review.arguments_json
    assert not review.votes
    return review.id, review.state


async def test_a_feed_begins_with_what_is_pending_and_tells_every_change(world: World, database: Clone) -> None:
    reviewer = world.reviewer()
    _, first = await parked(world)
    _, gone = await parked(world)
    await resolve(reviewer, gone, "DENY")
    _, second = await parked(world)
    feed = reviews(reviewer)
    assert [await stands(feed), await stands(feed)] == [(first.id, PENDING), (second.id, PENDING)]
    _, third = await parked(world)
    assert await stands(feed) == (third.id, PENDING)
    await resolve(reviewer, first)
    assert await stands(feed) == (first.id, APPROVED)
    feed.call.cancel()
    await resolve(world.reviewer("r2"), third, "DENY")
    again = reviews(reviewer, position=feed.position)
    assert await stands(again) == (third.id, DENIED)
    await expire_soon(database, second.id)
    assert await stands(again) == (second.id, EXPIRED)
    await again.nothing("review")


async def expire_soon(database: Clone, review_id: str) -> None:
    """As `expire`, at a time that the feed has not passed."""

    await admin_execute(
        database,
        "UPDATE policy.reviews SET expire_time = clock_timestamp() + interval '700 ms'"
        f" WHERE review_id = '{review_id}'",
    )


async def test_a_feed_taken_up_in_its_beginning_misses_nothing(world: World) -> None:
    made = [(await parked(world))[1].id for _ in range(3)]
    feed = reviews(world.reviewer())
    assert (await stands(feed))[0] == made[0]
    feed.call.cancel()
    await resolve(world.reviewer("r2"), await get(world.reviewer(), made[1]))
    again = reviews(world.reviewer(), position=feed.position)
    assert [await stands(again) for _ in range(2)] == [(made[2], PENDING), (made[1], APPROVED)]


async def test_what_expired_while_nobody_watched_is_told(world: World, database: Clone) -> None:
    _, review = await parked(world)
    feed = reviews(world.reviewer())
    await stands(feed)
    feed.call.cancel()
    await expire_soon(database, review.id)
    await asyncio.sleep(0.8)  # its time passes by the database clock; there is no sign of it but the clock
    again = reviews(world.reviewer(), position=feed.position)
    assert await stands(again) == (review.id, EXPIRED)


async def test_a_feed_shows_what_a_list_shows(world: World) -> None:
    _, review = await parked(world)
    shown = {
        "reviewer": world.reviewer(), "requester": world.caller("u1", roles=("user",)), "auditor": world.auditor(),
        "its agent": world.caller("u1", chain=("helper",)),
    }  # fmt: skip
    hidden = {
        "other group": world.reviewer(groups=("legal",)), "other user": world.caller("u2", roles=("user",)),
        "other agent": world.caller("u1", chain=("other",)), "other tenant": world.reviewer(tenant="globex"),
    }  # fmt: skip
    for name, who in shown.items():
        feed = reviews(who)
        seen = await feed.next("review")
        assert seen == (await listed(who))[0], name
        assert bool(seen.reasons) == (name in ("reviewer", "auditor")), name
        feed.call.cancel()
    feeds = {name: reviews(who) for name, who in hidden.items()}
    for name, who in hidden.items():
        assert await listed(who) == [], name
    await asyncio.gather(*(feed.nothing("review") for feed in feeds.values()))
    reviewing = reviews(shown["reviewer"])
    assert (await reviewing.next("review")).id == review.id
    async with refused("INVALID_PAGE_TOKEN"):
        request = reviews_pb2.WatchReviewsRequest(position=reviewing.position)
        await shown["auditor"].reviews.WatchReviews(request, metadata=shown["auditor"].metadata).read()


async def masked_review(world: World) -> reviews_pb2.Review:
    gateway = world.gateway()
    given = {**REFUND, "card": "4111-secret", "payees": [{"iban": "DE-secret"}]}
    request = gateway.request(
        "refund.create", given, resource=policy_pb2.Resource(type="order", id="O-1", properties_json=b"{}")
    )
    request.action.sensitive_arguments.extend(["/card", "/payees/*/iban"])
    return await open_review(gateway, await gateway.send(request), given)


async def test_a_review_says_what_is_done_to_what_and_masks_what_is_sensitive(world: World) -> None:
    review = await masked_review(world)
    seen = await get(world.reviewer(), review.id)
    assert json.loads(seen.arguments_json) == {**REFUND, "card": "[masked]", "payees": [{"iban": "[masked]"}]}
    assert (seen.skill_version, seen.effect_class) == ("1", policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT)
    assert (seen.risk, seen.resource_type, seen.resource_id) == ("high", "order", "O-1")
    resolved = await resolve(world.reviewer(), review)
    assert b"secret" not in resolved.arguments_json
    for other, risk in ((world.caller("u1", roles=("user",)), ""), (world.auditor(), "high")):
        seen = await get(other, review.id)
        assert (seen.arguments_json, seen.resource_id, seen.risk) == (b"", "", risk)
        assert (seen.effect_class, seen.resource_type) == (policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT, "order")
    (one,) = await listed(world.reviewer(), state=APPROVED)
    assert (one.resource_id, one.effect_class) == ("", policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT)


async def test_a_vote_is_of_who_was_in_the_group_when_it_was_cast(world: World, database: Clone) -> None:
    """Whoever leaves the group afterwards has voted; nobody who has left votes, nor changes a vote."""
    _, review = await parked(world)
    await set_quorum(database, review.id, 2)
    assert (await resolve(world.reviewer("r1"), review)).state == PENDING
    left = world.reviewer("r1", groups=("legal",))
    async with refused("REVIEWER_GROUP"):
        await resolve(left, review, "DENY")
    async with refused("REVIEW_NOT_FOUND"):
        await get(left, review.id)
    assert (await resolve(world.reviewer("r2"), review)).state == APPROVED


async def set_quorum(database: Clone, review_id: str, quorum: int) -> None:

    await admin_execute(database, f"UPDATE policy.reviews SET quorum = {quorum} WHERE review_id = '{review_id}'")


async def test_one_person_counts_once_and_may_think_again(world: World, database: Clone) -> None:
    _, review = await parked(world)
    await set_quorum(database, review.id, 2)
    first = world.reviewer("r1")
    assert {(await resolve(first, review)).state for _ in range(3)} == {PENDING}
    seen = await get(first, review.id)
    assert [(vote.reviewer, vote.verdict) for vote in seen.votes] == [("r1", reviews_pb2.VERDICT_APPROVE)]
    assert (await resolve(first, review, "DENY")).state == DENIED
    async with refused("REVIEW_CLOSED"):
        await resolve(first, review)


async def test_votes_at_once_count_each_and_end_it_once(world: World, database: Clone) -> None:
    _, review = await parked(world)
    await set_quorum(database, review.id, 3)
    states = await asyncio.gather(*(resolve(world.reviewer(f"r{n}"), review) for n in range(3)))
    assert sorted(one.state for one in states) == [PENDING, PENDING, APPROVED]
    resolved = await rows(database, "SELECT 1 FROM core.audit WHERE kind = 'REVIEW_RESOLVED'")
    assert len(resolved) == 3


async def test_two_replicas_count_and_tell_as_one(world: World, database: Clone) -> None:
    async with replica(world) as port:
        _, review = await parked(world)
        await set_quorum(database, review.id, 2)
        feed = reviews(world.reviewer("r3", port=port))
        assert await stands(feed) == (review.id, PENDING)
        voters = [world.reviewer("r1"), world.reviewer("r2", port=port)]
        states = await asyncio.gather(*(resolve(voter, review) for voter in voters))
        assert sorted(one.state for one in states) == [PENDING, APPROVED]
        seen = [await stands(feed)]
        while seen[-1][1] == PENDING:
            seen.append(await stands(feed))
        assert seen[-1] == (review.id, APPROVED)
        _, other = await parked(world)
        outcomes = await asyncio.gather(
            resolve(voters[0], other), resolve(voters[1], other, "DENY"), return_exceptions=True
        )
        assert sum(isinstance(one, Exception) for one in outcomes) == 1
        (winner,) = (one for one in outcomes if not isinstance(one, BaseException))
        assert (await get(world.reviewer(), other.id)).state == winner.state


async def test_the_same_request_after_the_end_answers_and_counts_nothing(world: World, database: Clone) -> None:
    _, review = await parked(world)
    done = await resolve(world.reviewer(), review, request_id="once")
    assert await resolve(world.reviewer(), review, request_id="once") == done
    async with refused("REQUEST_ID_REUSED"):
        await resolve(world.reviewer(), review, "DENY", request_id="once")
    _, late = await parked(world)
    await expire(database, late.id)
    for _ in range(2):
        async with refused("REVIEW_CLOSED"):
            await resolve(world.reviewer(), late, request_id="late")
    assert not await rows(database, f"SELECT 1 FROM policy.review_votes WHERE review_id = '{late.id}'")
