"""Rules of items without I/O: gate, caps, expiry, changes, keys of places, payload bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_core.errors import InvalidField
from memoryos_core.ids import SequenceIds
from memoryos_core.paths import Kind, MemoryPath
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.drafts import Moment, changed_item, new_item
from memoryos_memoryfs.domain.gate import GATE, capped_confidence, gated_state
from memoryos_memoryfs.domain.items import EmbedState, EventKey, Origin, Payload, Source, State, Trust
from memoryos_memoryfs.domain.payloads import decode_payload, encode_payload
from memoryos_memoryfs.domain.place_keys import event_key_hash, path_key, subtree_end
from memoryos_memoryfs.domain.settings import effective
from memoryos_memoryfs.errors import PathNotAllowed, ReadersTooWide
from memoryos_memoryfs.messages import draft_of, floats_of, instant, stamp_of
from memoryos_testing import scope_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = MemoryPath.parse("/tenants/acme/memory/episodic/a")
KEY = b"k" * 32


def moment(now: datetime = NOW) -> Moment:
    return Moment(scope=scope_of(user="alice"), path=PATH, now=now, new_id=SequenceIds().new, holding=effective([]))


def draft(**fields):
    return draft_of(memoryfs_pb2.WriteEntry(**fields), "entries[0]")


@pytest.mark.parametrize(
    ("asked", "origin", "expected"),
    [
        (None, Origin.STATED, 1.0),
        (None, Origin.INFERRED, 0.9),
        (1.0, Origin.INFERRED, 0.9),
        (1.0, Origin.OBSERVED, 0.95),
        (0.3, Origin.STATED, 0.3),
        (0.0, Origin.STATED, 0.0),
    ],
)
def test_confidence(asked, origin, expected):
    assert capped_confidence(asked, origin) == expected


def test_the_gate_lets_its_own_value_through_and_never_promotes():
    assert gated_state(GATE, None) is State.ACTIVE
    assert gated_state(GATE - 1e-9, None) is State.CANDIDATE
    assert gated_state(1.0, State.CANDIDATE) is State.CANDIDATE
    assert gated_state(0.1, State.ACTIVE) is State.CANDIDATE


def test_a_new_item_has_every_default_written_down():
    item = new_item(draft(content="x"), moment())
    assert (item.owner, item.state, item.trust, item.origin) == (
        "user:alice",
        State.ACTIVE,
        Trust.TRUSTED,
        Origin.STATED,
    )
    assert (item.confidence, item.importance, item.revision) == (1.0, 0.5, 1)
    assert item.valid_from == item.create_time == item.update_time == NOW
    assert item.expire_time is None
    assert item.data_subject == "alice"
    assert replace(item, user="u9").data_subject == "u9"


def test_a_candidate_never_outlives_a_day():
    day = timedelta(hours=24)
    assert new_item(draft(content="x", confidence=0.1), moment()).expire_time == NOW + day
    long = new_item(draft(content="x", confidence=0.1, ttl={"seconds": 10**6}), moment())
    assert long.expire_time == NOW + day
    short = new_item(draft(content="x", confidence=0.1, ttl={"seconds": 60}), moment())
    assert short.expire_time == NOW + timedelta(seconds=60)
    later = changed_item(long, draft(id=long.id, content="y"), moment(NOW + timedelta(hours=20)))
    assert later.expire_time == NOW + day


@pytest.mark.parametrize("ttl", [{"seconds": 0}, {"seconds": -1}, {"seconds": 10**15}, {"seconds": 315_576_000_000}])
def test_a_ttl_outside_its_limits_is_refused(ttl):
    with pytest.raises(InvalidField):
        new_item(draft(content="x", ttl=ttl), moment())


def test_an_unchanged_text_keeps_its_vector():
    item = replace(new_item(draft(content="x"), moment()), embedding_model="m", embed_state=1)
    assert changed_item(item, draft(id=item.id, tags=["t"]), moment()).embedding_model == "m"
    assert changed_item(item, draft(id=item.id, content="x"), moment()).embedding_model == "m"
    assert changed_item(item, draft(id=item.id, content="y"), moment()).embedding_model == ""


def test_etags_differ_by_revision_and_item():
    first = new_item(draft(content="x"), moment())
    second = changed_item(first, draft(id=first.id, content="y"), moment())
    third = changed_item(second, draft(id=first.id, content="x"), moment())
    assert len({first.etag, second.etag, third.etag}) == 3


def test_readers_may_be_kept_but_not_widened():
    item = replace(new_item(draft(content="x"), moment()), readers=("tenant:*",))
    kept = changed_item(item, draft(id=item.id, readers=["tenant:*", "user:bob"]), moment())
    assert kept.readers == ("tenant:*", "user:bob")
    with pytest.raises(ReadersTooWide):
        changed_item(replace(item, readers=()), draft(id=item.id, readers=["tenant:*"]), moment())


def test_paths_of_another_tenant_are_refused_for_reads_and_writes():
    foreign = MemoryPath.parse("/tenants/evil/memory/episodic")
    for check in (access.check_read, access.check_write):
        with pytest.raises(PathNotAllowed):
            check(scope_of(), foreign)
        check(scope_of(), PATH)


# Few and alike on the left, so that one is often the beginning of another; anything on the right.
segments = st.sampled_from(["a", "ab", "abc", "b", "a-b", "_", "%"]) | st.text(
    alphabet=st.characters(categories=("Ll", "Lo", "Nd"), include_characters="_-%."), min_size=1, max_size=6
).filter(lambda s: s not in (".", ".."))
paths = st.builds(
    lambda kind, parts: MemoryPath("acme", kind, tuple(parts)), st.sampled_from(Kind), st.lists(segments, max_size=4)
)


@given(paths, paths)
@example(MemoryPath("acme", Kind.EPISODIC, ("a", "b")), MemoryPath("acme", Kind.EPISODIC, ("a", "bc")))
@example(MemoryPath("acme", Kind.EPISODIC, ("a",)), MemoryPath("acme", Kind.EPISODIC, ("a", "b")))
def test_the_key_of_a_path_says_below_exactly_where_the_grammar_does(outer, inner):
    start, key = path_key(KEY, outer), path_key(KEY, inner)
    assert (start <= key < subtree_end(start)) == outer.contains(inner)


def test_keys_of_tenants_share_nothing():
    assert path_key(b"a" * 32, PATH) != path_key(b"b" * 32, PATH)


def test_the_end_of_a_subtree_exists_for_any_key():
    assert subtree_end(b"\x00\xff") == b"\x01\x00"
    assert subtree_end(b"\xff" * 8) > b"\xff" * 8 + b"\xff" * 160


def test_event_keys_meet_only_when_all_three_parts_are_equal():
    same = event_key_hash(KEY, EventKey("a", "b", "c"))
    assert event_key_hash(KEY, EventKey("a", "b", "c")) == same
    for other in (EventKey("a", "b", "d"), EventKey("ab", "", "c"), EventKey("a\0b", "", "c"), EventKey("", "a", "b")):
        assert event_key_hash(KEY, other) != same


text = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=50)


@given(text, text, st.lists(text, max_size=3), st.booleans())
def test_payloads_come_back_as_they_were(content, document, messages, keyed):
    payload = Payload(
        path=PATH,
        content=content,
        attributes=b'{"n":9007199254740993}',
        event_key=EventKey(content, document, "") if keyed else None,
        source=Source(document=document, message_ids=tuple(messages), page=3, agent_chain=("a", "b")),
    )
    assert decode_payload(encode_payload(payload)) == payload


def test_a_payload_of_an_unknown_layout_is_an_error():
    with pytest.raises(ValueError, match="layout 2"):
        decode_payload(b'[2,"","","",null,null]')


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_instants_keep_their_microseconds(at):
    assert instant(stamp_of(at), "x") == at


def test_stamps_outside_the_calendar_are_refused():
    for seconds, nanos in ((10**12, 0), (-(10**12), 0), (0, -1), (0, 10**9)):
        with pytest.raises(InvalidField):
            instant(type(stamp_of(NOW))(seconds=seconds, nanos=nanos), "x")


def test_enums_have_the_numbers_of_the_proto():
    for ours, theirs in ((State, item_pb2.State), (Trust, item_pb2.Trust), (Origin, item_pb2.Origin)):
        for member in ours:
            assert theirs.Name(member.value).endswith(f"_{member.name}")


@pytest.mark.parametrize("model", ["", "usem3-512", "m" * 128])
@pytest.mark.parametrize("count", [0, 1, 512])
@pytest.mark.parametrize("unknown", [b"", b"\x98\x06\x01", b"\xa2\x06\x08\0\0\x80?\0\0\x80?"])
def test_the_numbers_of_a_vector_are_read_whatever_stands_around_them(model, count, unknown):
    values = [n / 7 for n in range(count)]
    sent = memoryfs_pb2.Embedding(model=model, values=values).SerializeToString() + unknown
    embedding = memoryfs_pb2.Embedding.FromString(sent)
    assert floats_of(embedding).tolist() == list(embedding.values)
    assert embedding.SerializeToString() == sent


def test_an_item_with_its_vector_waits_for_none():
    given = draft(content="x", embedding=memoryfs_pb2.Embedding(model="m", values=[1.0]))
    at = replace(moment(), model="m")
    assert new_item(given, at).embed_state is EmbedState.DONE
    assert new_item(given, at).embedding_model == "m"
    assert new_item(draft(content="x"), at).embed_state is EmbedState.PENDING
