"""A random world of tenants, people, places and items, and a set model of what each of them may see."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask
from memoryos.memoryfs.v1 import lifecycle_pb2, memoryfs_pb2

from .conftest import As, Service, request_id

PLACES: Final = (
    "episodic", "episodic/foo", "episodic/foobar", "episodic/foo/bar", "episodic/john_doe", "episodic/john-doe",
    "episodic/100%", "semantic", "semantic/客户/华东", "semantic/客户", "working/t",
)  # fmt: skip
COMMON: Final = "gemeinsam"
"""A word of every item."""


@dataclass(frozen=True)
class Person:
    """Someone with a token."""

    tenant: str
    user: str
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset({"user"})
    clearance: int = 0

    @property
    def principals(self) -> frozenset[str]:
        return frozenset(
            {f"user:{self.user}", "tenant:*", *(f"group:{g}" for g in self.groups), *(f"role:{r}" for r in self.roles)}
        )


PEOPLE: Final = (
    Person("acme", "ann", frozenset({"east"}), clearance=2),
    Person("acme", "ben", frozenset({"east", "west"})),
    Person("acme", "cem", roles=frozenset({"user", "auditor"}), clearance=9),
    Person("acme", "dee", roles=frozenset({"user", "tenant-admin"})),
    Person("acme", "east", frozenset({"ann"})),
    Person("evil", "ann", frozenset({"east"}), clearance=9, roles=frozenset({"user", "tenant-admin", "auditor"})),
    Person("evil", "mal", frozenset({"west"})),
)


@dataclass
class Known:
    """What the model knows of an item."""

    id: str
    tenant: str
    place: str
    owner: str
    readers: frozenset[str]
    sensitivity: int
    state: str
    words: list[str] = field(default_factory=list)
    """One that only this item has, for each of its revisions."""

    def readable(self, person: Person) -> bool:
        held = person.principals
        return (
            self.tenant == person.tenant
            and self.sensitivity <= person.clearance
            and (f"user:{self.owner}" in held or bool(self.readers & held))
        )

    def visible(self, person: Person) -> bool:
        own = self.owner == person.user
        return self.readable(person) and self.state != "forgotten" and (self.state != "candidate" or own)

    def served(self, person: Person) -> bool:
        return self.readable(person) and self.state == "active"

    def below(self, path: str) -> bool:
        place = f"/tenants/{self.tenant}/memory/{self.place}"
        return place == path or place.startswith(f"{path}/")


@dataclass
class World:
    """Everything there is."""

    service: Service
    items: dict[str, Known] = field(default_factory=dict)
    callers: dict[Person, As] = field(default_factory=dict)
    asked: int = 0
    """RPCs whose whole answer or error was compared with the model."""

    def caller(self, person: Person) -> As:
        if person not in self.callers:
            self.callers[person] = self.service.caller(
                person.user, person.tenant, groups=person.groups, roles=person.roles, clearance=person.clearance
            )
        return self.callers[person]

    def where(self, test: Any) -> set[str]:
        return {known.id for known in self.items.values() if test(known)}

    def assert_no_leak(self, raw: bytes, allowed: Iterable[str], asked: Iterable[str] = ()) -> None:
        """No id and no word of an item outside `allowed` stands in `raw`; ids of the request may be repeated."""
        may, named = set(allowed), set(asked)
        for known in self.items.values():
            if known.id in may:
                continue
            assert known.id in named or known.id.encode() not in raw, known
            assert not any(word.encode() in raw for word in known.words), known


async def make_world(service: Service, rng: random.Random, *, size: int) -> World:
    """Write `size` items as random people, then forget, correct and hide some of them."""
    world = World(service)
    for number in range(size):
        person = rng.choice(PEOPLE)
        sensitivity = rng.choice((0, 0, 0, 1, 3))
        known = Known("", person.tenant, rng.choice(PLACES), person.user, _readers(rng, person), sensitivity, "active")
        known.words.append(f"zq{number}first")
        entry = memoryfs_pb2.WriteEntry(
            content=f"{COMMON} {known.words[0]}",
            readers=sorted(known.readers),
            sensitivity=known.sensitivity,
            tags=[f"tag-{known.words[0]}"],
            user=rng.choice(("", "ann", "ben", "x")),
        )
        if rng.random() < 0.12:
            entry.confidence, known.state = 0.3, "candidate"
        request = memoryfs_pb2.WriteRequest(
            path=f"/tenants/{person.tenant}/memory/{known.place}",
            entries=[entry],
            request_id=request_id(),
            on_conflict=memoryfs_pb2.ON_CONFLICT_ADD,
        )
        known.id = (await world.caller(person).call("Write", request)).results[0].id
        world.items[known.id] = known
    for known in rng.sample(list(world.items.values()), size // 3):
        await _change(world, rng, known)
    return world


def _readers(rng: random.Random, person: Person) -> frozenset[str]:
    wide = ["tenant:*"] if "tenant-admin" in person.roles else []
    choices = ["user:ann", "user:ben", "user:east", "group:east", "group:west", "group:ann", "user:mal", *wide]
    return frozenset(rng.sample(choices, rng.choice((0, 0, 1, 1, 2))))


async def _change(world: World, rng: random.Random, known: Known) -> None:
    person = next(p for p in PEOPLE if (p.tenant, p.user) == (known.tenant, known.owner))
    caller, path = world.caller(person), f"/tenants/{known.tenant}/memory/{known.place}"
    if known.sensitivity > person.clearance:
        return  # its own owner may not see it
    if rng.random() < 0.4:
        await caller.call("Forget", lifecycle_pb2.ForgetRequest(path=path, ids=[known.id], request_id=request_id()))
        known.state = "forgotten"
        return
    known.readers, known.sensitivity = _readers(rng, person), rng.choice((0, 0, 2))
    known.words.append(known.words[0].replace("first", "second"))
    await caller.update(
        known.id,
        path=path,
        content=f"{COMMON} {known.words[-1]}",
        readers=sorted(known.readers),
        sensitivity=known.sensitivity,
        update_mask=FieldMask(paths=["content", "readers", "sensitivity"]),
    )
