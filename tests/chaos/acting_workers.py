"""Callers of skills, reviewers and an operator, who remember every answer they got.

A call that was not answered is sent again, with its request_id and to either gateway, until it is. What was
answered once stays true: an end is the same for ever, and a state is followed only by one that may follow it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from memoryos.policy.v1 import reviews_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos_grpc.status import remote_error
from memoryos_toolgateway.domain.calls import MOVES, CallState

from .acting_deployment import Deployment, Metadata
from .acting_skills import GROUP, SKILLS

_LOST: Final = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"}
"""What a caller sees of a killed process; UNKNOWN only without a word of ours."""
_CALL_S: Final = 8
_PAUSE_S: Final = 0.05
_APPROVED_SHARE: Final = 0.8
_BUSY = (pb.CALL_STATE_INTENDED, pb.CALL_STATE_DISPATCHED)
_CALLS_A_USER: Final = 150
"""Of a worker's calls, after which another user's rate is used up."""


@dataclass
class Asked:
    """One call as its caller knows it."""

    request: pb.CallSkillRequest
    metadata: Metadata
    known: pb.Call | None = None
    verdict: int = 0
    """What a reviewer has said and was told has been kept; 0: nothing yet."""
    cancelled: bool = False

    @property
    def state(self) -> CallState | None:
        return None if self.known is None else state_of(self.known)

    def learn(self, call: pb.Call) -> None:
        """Check an answer against what was answered before, and remember it."""
        was = self.known
        if was is not None:
            assert was.id == call.id, (was, call)
            before, now = state_of(was), state_of(call)
            if not MOVES[before]:
                assert call == was, ("an end has changed", was, call)
            else:
                assert now is before or _follows(before, now), (before, now, call)
        self.known = call


@dataclass
class World:
    """What all callers share."""

    deployment: Deployment
    rng: random.Random
    asked: list[Asked] = field(default_factory=list)
    to_review: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)
    doubtful: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)
    """Calls whose upstream cannot be asked, for a person."""
    steps: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    async def send(self, send: Callable[[], Awaitable[Any]], *allowed: str) -> Any:
        """Give the answer, however often it has to be sent; the reason where one is allowed."""
        while True:
            try:
                return await send()
            except grpc.aio.AioRpcError as error:
                told = remote_error(error)
                if told.reason in allowed:
                    return told.reason
                assert told.code in _LOST, (told.code, told.reason, told.message, told.metadata)
                assert told.code != "UNKNOWN" or not told.reason, told.reason
                self.lost += 1
                await asyncio.sleep(_PAUSE_S)

    @property
    def waiting(self) -> list[Asked]:
        """Calls that wait for a person, or for who goes on after one has spoken."""
        return [asked for asked in self.asked if asked.state is CallState.PARKED]

    @property
    def gateway(self) -> Any:
        """One of the gateways, drawn anew for every attempt."""
        return self.rng.choice(self.deployment.gateways)

    async def ask(self, asked: Asked) -> pb.Call:
        """Ask for a call (again) and learn the answer."""
        answer = await self.send(
            lambda: self.gateway.CallSkill(asked.request, metadata=asked.metadata, timeout=_CALL_S)
        )
        asked.learn(answer.call)
        return answer.call

    async def settle(self, asked: Asked) -> pb.Call:
        """Ask for a call until it has been sent and answered, or waits for a person."""
        while (call := await self.ask(asked)).state in _BUSY:  # noqa: ASYNC110 -- other processes
            await asyncio.sleep(_PAUSE_S)
        return call


class Worker:
    """Users and their agents, who call one skill after the other."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self._name, self._number = world, f"w{number}", 0
        self._rng = random.Random(world.rng.random())
        me = world.deployment.caller
        self._callers = [me(self._name, "user"), me(self._name, "agent", agent=True)]
        self._parked: list[Asked] = []

    async def run(self) -> None:
        """Work until cancelled."""
        steps = [self.call, self.call, self.call, self.twice, self.rated, self.reviewed, self.resume, self.resume]
        steps += [self.cancel, self.refuse, self.again]
        while True:
            step = self._rng.choice(steps)
            await step()
            self._world.steps[step.__name__] += 1

    def _new(self, skill: str, metadata: Metadata | None = None) -> Asked:
        self._number += 1
        name = f"{self._name}-{self._number}"
        request = pb.CallSkillRequest(skill=skill, arguments_json=json.dumps({"name": name}).encode(), request_id=name)
        asked = Asked(request, metadata or self._rng.choice(self._callers))
        self._world.asked.append(asked)
        return asked

    def _drawn(self) -> Asked:
        return self._new(self._rng.choice([name for name in SKILLS if name not in ("chaos.reviewed", "chaos.rated")]))

    def _doubt(self, asked: Asked) -> None:
        if asked.request.skill == "chaos.blind" and asked.state is CallState.UNKNOWN:
            self._world.doubtful.put_nowait(asked)

    async def call(self) -> None:
        asked = self._drawn()
        await self._world.settle(asked)
        self._doubt(asked)

    async def twice(self) -> None:
        """The same request at both gateways at once."""
        asked = self._drawn()
        other = Asked(asked.request, asked.metadata)
        await asyncio.gather(self._world.settle(asked), self._world.settle(other))
        assert asked.known is not None
        assert other.known is not None
        assert asked.known.id == other.known.id, asked
        await self._world.ask(asked)
        self._doubt(asked)

    async def rated(self) -> None:
        """A rate that is used up, every now and then another user's."""
        user = f"{self._name}-{self._number // _CALLS_A_USER}"
        await self._world.settle(self._new("chaos.rated", self._world.deployment.caller(user, "user")))

    async def reviewed(self) -> None:
        asked = self._new("chaos.reviewed")
        if (await self._world.settle(asked)).state == pb.CALL_STATE_PARKED:
            self._parked.append(asked)
            self._world.to_review.put_nowait(asked)

    async def resume(self) -> None:
        """Ask for a call that waited; sometimes both gateways are asked at once."""
        if not self._parked:
            return
        asked = self._parked.pop(self._rng.randrange(len(self._parked)))
        if self._rng.random() < 0.4:
            other = Asked(asked.request, asked.metadata, asked.known)
            await asyncio.gather(self._world.settle(asked), self._world.settle(other))
        if (await self._world.settle(asked)).state == pb.CALL_STATE_PARKED:
            self._parked.append(asked)

    async def cancel(self) -> None:
        """Withdraw a call that may wait, whether or not somebody approves it at this instant."""
        if not self._parked:
            return
        asked = self._rng.choice(self._parked)
        assert asked.known is not None
        request = pb.CancelCallRequest(id=asked.known.id)
        answer = await self._world.send(
            lambda: self._world.gateway.CancelCall(request, metadata=asked.metadata, timeout=_CALL_S)
        )
        self._withdrawn(asked, answer)

    async def refuse(self) -> None:
        """Withdraw by request id, before or while the call comes."""
        asked = self._drawn()
        request = pb.CancelCallRequest(call_request_id=asked.request.request_id)
        calling = asyncio.create_task(self._world.settle(asked)) if self._rng.random() < 0.5 else None
        answer = await self._world.send(
            lambda: self._world.gateway.CancelCall(request, metadata=asked.metadata, timeout=_CALL_S)
        )
        if calling is not None:
            await calling
        self._withdrawn(asked, answer)
        await self._world.settle(asked)
        self._doubt(asked)

    def _withdrawn(self, asked: Asked, answer: pb.CancelCallResponse) -> None:
        asked.cancelled = answer.call.state == pb.CALL_STATE_CANCELLED
        assert asked.cancelled or answer.proof != pb.CANCEL_PROOF_NOT_SENT, answer
        if answer.proof == pb.CANCEL_PROOF_SENT:
            assert answer.call.dispatches > 0

    async def again(self) -> None:
        """Ask for an old call again: it is the same, and nothing happens."""
        if self._world.asked:
            asked = self._rng.choice(self._world.asked)
            if asked.known is not None and not MOVES[state_of(asked.known)]:
                await self._world.ask(asked)


async def review(world: World, number: int) -> None:
    """Approve or deny what is to be reviewed, sometimes twice, until cancelled."""
    rng = random.Random(world.rng.random())
    people = [world.deployment.caller(f"boss{number}{n}", "reviewer", groups=(GROUP,)) for n in "ab"]
    while True:
        asked = await world.to_review.get()
        assert asked.known is not None
        verdict = reviews_pb2.VERDICT_APPROVE if rng.random() < _APPROVED_SHARE else reviews_pb2.VERDICT_DENY
        request = reviews_pb2.ResolveReviewRequest(
            id=asked.known.review_id, verdict=verdict, request_id=f"{asked.known.review_id}-{number}"
        )
        for turn in range(rng.choice([1, 1, 2])):
            await world.send(
                lambda request=request: world.deployment.reviews.ResolveReview(
                    request, metadata=people[0], timeout=_CALL_S
                )
            )
            asked.verdict = verdict
            world.steps["voted again" if turn else "voted"] += 1
        if rng.random() < 0.2:  # somebody comes too late, with another word
            late = reviews_pb2.ResolveReviewRequest(
                id=request.id, verdict=reviews_pb2.VERDICT_APPROVE, request_id=f"{request.id}-late"
            )
            told = await world.send(
                lambda late=late: world.deployment.reviews.ResolveReview(late, metadata=people[1], timeout=_CALL_S),
                "REVIEW_CLOSED",
            )
            assert told == "REVIEW_CLOSED", told
        world.to_review.task_done()


async def reconcile(world: World, happened: Callable[[str], bool]) -> None:
    """Say of calls that no upstream can be asked about what its books say, until cancelled."""
    operator = world.deployment.caller("opal", "operator")
    while True:
        asked = await world.doubtful.get()
        assert asked.known is not None
        call_id, told = asked.known.id, "CALL_NOT_UNKNOWN"
        while told == "CALL_NOT_UNKNOWN":  # not before it can no longer happen
            outcome = pb.RECONCILE_OUTCOME_HAPPENED if happened(call_id) else pb.RECONCILE_OUTCOME_DID_NOT_HAPPEN
            request = pb.ReconcileCallRequest(id=call_id, outcome=outcome, comment="looked it up")
            told = await world.send(
                lambda request=request: world.gateway.ReconcileCall(request, metadata=operator, timeout=_CALL_S),
                "CALL_NOT_UNKNOWN",
            )
            if told == "CALL_NOT_UNKNOWN" and (await world.ask(asked)).state != pb.CALL_STATE_UNKNOWN:
                break  # its answer was lost, or it came late by itself
            await asyncio.sleep(_PAUSE_S)
        world.steps["reconciled by a person"] += 1
        world.doubtful.task_done()


def state_of(call: pb.Call) -> CallState:
    """Give the state of an answer."""
    return CallState(pb.CallState.Name(call.state).removeprefix("CALL_STATE_"))


def _follows(before: CallState, now: CallState) -> bool:
    """Tell whether `now` may come after `before`, over any steps between."""
    reached, further = set(), {before}
    while further - reached:
        reached |= further
        further = {state for seen in reached for state in MOVES[seen]}
    return now in reached
