"""kill -9 of gateways, policy, OPA, PostgreSQL and the upstream at random instants and every named crash point.

What may not be repeated happens at most once, nothing is lost silently, nothing approved is lost or used twice,
and the journal says what the books of a counting upstream say.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Final

import psycopg
import pytest
from memoryos.policy.v1 import reviews_pb2
from memoryos_core.crashpoints import CRASH_POINTS
from memoryos_toolgateway.domain.calls import MOVES, CallState

from .acting_deployment import ARMED, PARTS, Deployment, deployed
from .acting_invariants import Books, broken
from .acting_skills import RATE
from .acting_workers import Worker, World, reconcile, review

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(5400)]
KILLS: Final = 1_000
WORKERS: Final = 5
BUSY_S: Final = 0.5
"""Longest that everybody works before the next kill."""
CHECKED_EVERY: Final = 3
HURRIED_EVERY: Final = 5
"""Rounds between two ends of the pauses before a doubt or a notice is tried again: those last longer than a round."""
SETTLED_S: Final = 90
ARMED_SHARE: Final = 0.6
"""Of the processes that are started once every point has been died at; the others die at any instant."""
POINTS: Final = {
    "gateway": [name for name in CRASH_POINTS if name.startswith("gateway.")],
    "policy": [name for name in CRASH_POINTS if name.startswith("policy.")],
}


async def test_rounds_of_kills_while_skills_are_called(tmp_path: Path, acting_kills: int | None) -> None:
    kills = acting_kills or KILLS
    rng = random.Random(kills)
    async with deployed(tmp_path, Deployment) as deployment:
        world, books = World(deployment, rng), Books(deployment.effects_file)
        workers = [Worker(world, number) for number in range(WORKERS)]
        people = [asyncio.create_task(review(world, number)) for number in range(2)]
        people.append(asyncio.create_task(reconcile(world, books.happened)))
        working = [asyncio.create_task(worker.run()) for worker in workers]
        began, number = time.monotonic(), 0
        while sum(deployment.kills.values()) < kills or missed(deployment):
            await asyncio.sleep(rng.uniform(0.02, BUSY_S))  # the instant of the kill is what is drawn
            died = [task for task in (*working, *people) if task.done()]
            assert not died, await asyncio.gather(*died)
            victims = drawn(rng, deployment)
            await deployment.kill(victims)
            dead = [*victims, *(await deployment.bury())]
            await deployment.start(dead, to_arm(rng, deployment, dead))
            while dead := await deployment.bury():  # of a crash point, before everything served
                await deployment.start(dead)
            number += 1
            if number % HURRIED_EVERY == 0:
                await hurry(deployment)
            if number % CHECKED_EVERY == 0:
                assert await broken(deployment.admin_dsn, books, rate=RATE) == {}, (number, victims)
            elapsed_s = time.monotonic() - began
            print(  # noqa: T201
                number, f"{elapsed_s:.0f} s", sum(deployment.kills.values()), victims, len(world.asked), world.lost,
                sorted(missed(deployment)) if number % 20 == 0 else "", flush=True,
            )  # fmt: skip
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await deployment.start(await deployment.bury())
        await ended(world)
        for task in people:
            task.cancel()
        assert await settled(deployment, books) == {}
        await remembered(world, books)
        print(deployment.kills, deployment.fired, world.steps, ends(world), sep="\n")  # noqa: T201


def drawn(rng: random.Random, deployment: Deployment) -> list[str]:
    """Give who dies: one to three parts; what waits for its crash point is mostly left to it."""
    found = set(rng.sample(PARTS, rng.choice([1, 2, 2, 3])))
    return sorted(name for name in found if name not in deployment.armed or rng.random() < 0.2)


def to_arm(rng: random.Random, deployment: Deployment, dead: list[str]) -> dict[str, str]:
    """Give crash points for some that are started: those at which fewest have died."""
    found = {}
    for name in sorted(set(dead) & set(ARMED)):
        points = POINTS["policy" if name == "policy" else "gateway"]
        unseen = missed(deployment) & set(points)
        if unseen or rng.random() < ARMED_SHARE:
            point = min(points, key=lambda p: (deployment.fired[p] + rng.random(), p))
            found[name] = f"{point}:{1 if unseen else rng.choice([1, 2, 5])}"
    return found


def missed(deployment: Deployment) -> set[str]:
    """Give the crash points at which nobody has died yet."""
    return {point for points in POINTS.values() for point in points if not deployment.fired[point]}


async def hurry(deployment: Deployment) -> None:
    """Let pauses end that dead processes hold or doubts have earned; the test need not wait for them."""
    async with await psycopg.AsyncConnection.connect(deployment.admin_dsn, autocommit=True) as admin:
        await admin.execute("UPDATE toolgateway.due_notices SET due_time = clock_timestamp()")
        await admin.execute("UPDATE toolgateway.doubts SET due_time = clock_timestamp()")


async def keep_up(deployment: Deployment) -> None:
    """Start again what dies of a crash point that it was still armed with."""
    while True:
        await deployment.start(await deployment.bury())
        await asyncio.sleep(0.2)


async def ended(world: World) -> None:
    """Return when everybody has their answer: calls that were cut off, reviews, and what waited for them."""
    async with asyncio.timeout(SETTLED_S):
        for asked in world.asked:
            if asked.state is None or MOVES[asked.state]:
                await world.settle(asked)
        await world.to_review.join()
        for asked in world.waiting:  # whose caller was stopped before it could hand them to a reviewer
            if not asked.verdict:
                world.to_review.put_nowait(asked)
        await world.to_review.join()
        while waiting := world.waiting:
            for asked in waiting:
                await world.settle(asked)
        await world.doubtful.join()


async def settled(deployment: Deployment, books: Books) -> dict[str, list[str]]:
    """Give what comes to its end no more by itself."""
    until = time.monotonic() + SETTLED_S
    while found := await broken(deployment.admin_dsn, books, rate=RATE, settled=True):
        if time.monotonic() > until:
            break
        await hurry(deployment)
        await asyncio.sleep(0.25)
    return found


async def remembered(world: World, books: Books) -> None:
    """Ask for every call once more: what was answered is true, and what people have said was done."""
    for asked in world.asked:
        call = await world.ask(asked)
        state = asked.state
        assert state is not None
        if asked.verdict == reviews_pb2.VERDICT_APPROVE and not asked.cancelled:
            assert state is CallState.SUCCEEDED or (state is CallState.FAILED and call.error_code), call
        if asked.verdict == reviews_pb2.VERDICT_DENY:
            assert state in (CallState.DENIED, CallState.CANCELLED), call
        if asked.cancelled:
            assert state is CallState.CANCELLED, call
            assert not books.by_call[call.id], call
        if asked.request.skill in ("chaos.keyed", "chaos.reviewed") and call.dispatches:
            assert books.notices[call.id], ("nobody was told", call)


def ends(world: World) -> dict[str, int]:
    """Give how many calls of each skill ended how."""
    found: dict[str, int] = {}
    for asked in world.asked:
        key = f"{asked.request.skill} {asked.state} {asked.known.error_code if asked.known else ''}"
        found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items()))
