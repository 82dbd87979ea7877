"""A chain of agents gives no more than each of its links gives, whoever wrote it."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memoryos_core.delegation import LINKS_MAX, ChainBroken, Link, checked_chain
from memoryos_core.paths import MemoryPath
from memoryos_core.tokens import ROLES, Identity, narrow

SERVICES = ("memoryfs", "tool-gateway", "policy")
PLACES = [f"/tenants/acme/memory/{kind}{rest}" for kind in ("episodic", "semantic") for rest in ("", "/a", "/a/b")]
AFTER = datetime(2026, 1, 1, tzinfo=UTC)

paths = st.lists(st.sampled_from(PLACES), unique=True, max_size=3).map(tuple)
ceilings = st.none() | paths
audiences = st.frozensets(st.sampled_from(SERVICES))
lives = st.integers(0, 3).map(lambda hours: AFTER + timedelta(hours=hours))


roots = st.builds(
    Identity,
    tenant=st.just("acme"),
    user=st.just("u42"),
    roles=st.frozensets(st.sampled_from(sorted(ROLES))),
    groups=st.frozensets(st.sampled_from(["east", "west"])),
    clearance=st.integers(0, 9),
    chain=st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
    read_paths=ceilings,
    write_paths=ceilings,
)
ANYTHING = {
    "tenant": st.sampled_from(["acme", "globex"]),
    "user": st.sampled_from(["u42", "u43"]),
    "roles": st.frozensets(st.sampled_from(["agent", "user", "auditor"])),
    "groups": st.frozensets(st.sampled_from(["east", "west"])),
    "clearance": st.integers(0, 2),
    "chain": st.lists(st.sampled_from(["a", "agent0", "agent1", ""]), max_size=3).map(tuple),
    "session_id": st.sampled_from(["ses_1", "ses_2", ""]),
    "task_id": st.sampled_from(["task_0", "task_1", "task_9", ""]),
    "read_paths": ceilings,
    "write_paths": ceilings,
    "expire_time": lives,
}


@st.composite
def chains(draw):
    """A chain that was made rightly, and then changed in one claim or two by somebody who holds the pen."""
    chain = draw(made_rightly())
    for _ in range(draw(st.integers(0, 2))):
        number, claim = draw(st.integers(0, len(chain) - 1)), draw(st.sampled_from([*ANYTHING, "audience"]))
        link = chain[number]
        if claim == "audience":
            chain[number] = dataclasses.replace(link, audience=draw(audiences))
        else:
            claims = dataclasses.replace(link.identity, **{claim: draw(ANYTHING[claim])})
            chain[number] = dataclasses.replace(link, identity=claims)
    return chain


@st.composite
def made_rightly(draw):
    """A chain as narrow makes it."""
    chain = [Link(identity=draw(roots), audience=frozenset(SERVICES))]
    for number in range(draw(st.integers(1, 3))):
        outer = chain[-1].identity
        inner = narrow(
            outer,
            agent=f"agent{number}",
            session_id="ses_1",
            task_id=f"task_{number}",
            read_paths=draw(paths) if outer.read_paths is None else outer.read_paths[:1],
            write_paths=draw(paths) if outer.write_paths is None else outer.write_paths[1:],
        )
        chain.append(Link(identity=inner, audience=chain[-1].audience))
    return chain


def reaches(identity, paths_of, place):
    ceiling = paths_of(identity)
    return ceiling is None or any(MemoryPath.parse(top).contains(MemoryPath.parse(place)) for top in ceiling)


@given(chains())
@settings(max_examples=400, deadline=None)
def test_whatever_passes_is_within_every_link_before_it(chain):
    try:
        last = checked_chain(chain)
    except ChainBroken:
        return
    for link in chain:
        outer = link.identity
        assert (last.tenant, last.user) == (outer.tenant, outer.user)
        assert last.chain[: len(outer.chain)] == outer.chain
        assert last.roles <= outer.roles | {"agent"}
        assert last.groups <= outer.groups
        assert last.clearance <= outer.clearance
        assert last.expire_time <= outer.expire_time
        assert chain[-1].audience <= link.audience
        for place in PLACES:
            for paths_of in (lambda i: i.read_paths, lambda i: i.write_paths):
                assert not reaches(last, paths_of, place) or reaches(outer, paths_of, place)
    assert len({link.identity.session_id for link in chain[1:]}) <= 1
    assert len(last.chain) - len(chain[0].identity.chain) == len(chain) - 1


@given(made_rightly())
def test_what_narrow_makes_passes(chain):
    assert checked_chain(chain) == chain[-1].identity


def sound():
    root = Identity(tenant="acme", user="u42", roles=frozenset({"user"}), groups=frozenset({"east"}), clearance=1)
    chain = [Link(identity=root, audience=frozenset(SERVICES))]
    for number, place in enumerate(("/a", "/a/b"), start=1):
        where = {f"/tenants/acme/memory/episodic{place}"}
        inner = narrow(chain[-1].identity, agent=f"agent{number}", session_id="ses_1", task_id=f"task_{number}",
                       read_paths=where, write_paths=where)  # fmt: skip
        chain.append(Link(identity=inner, audience=frozenset({"memoryfs"})))
    return chain


WIDER = {
    "tenant": {"tenant": "globex"},
    "user": {"user": "u43"},
    "chain": {"chain": ("agent2",)},
    "roles": {"roles": frozenset({"agent", "tenant-admin"})},
    "groups": {"groups": frozenset({"east", "west"})},
    "clearance": {"clearance": 2},
    "read_paths": {"read_paths": ("/tenants/acme/memory/episodic",)},
    "write_paths": {"write_paths": None},
    "session": {"session_id": "ses_2"},
    "task": {"task_id": "task_1"},
}


@pytest.mark.parametrize(("what", "change"), WIDER.items())
def test_a_link_that_was_changed_is_found(what, change):
    chain = sound()
    checked_chain(chain)
    chain[2] = dataclasses.replace(chain[2], identity=dataclasses.replace(chain[2].identity, **change))
    with pytest.raises(ChainBroken) as refused:
        checked_chain(chain)
    assert refused.value.metadata == {"link": "2", "what": what}


def test_links_do_not_live_longer_reach_more_services_or_change_their_places():
    root, middle, last = sound()
    short = dataclasses.replace(middle, identity=dataclasses.replace(middle.identity, expire_time=AFTER))
    wide = dataclasses.replace(last, audience=frozenset({"memoryfs", "tool-gateway"}))
    nothing = dataclasses.replace(last, audience=frozenset())
    for chain, what in (
        ([root, short, last], "life"),
        ([root, middle, wide], "audience"),
        ([root, middle, nothing], "audience"),
        ([root, last, middle], "chain"),
        ([root, last], "chain"),
        ([last, middle], "chain"),
        ([root, middle, middle], "chain"),
        ([], "length"),
        ([root, *[middle] * LINKS_MAX], "length"),
    ):
        with pytest.raises(ChainBroken) as refused:
            checked_chain(chain)
        assert refused.value.what == what
