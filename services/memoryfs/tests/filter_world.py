"""Random items and random filters from small pools, so that they meet."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import strategies as st
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, memoryfs_pb2
from memoryos.type.v1 import common_pb2
from memoryos_core.canonical import canonical_json

KEYS = ["a", "a.b", 'q"uote', "x' OR '1'='1", "$.x", "客户", "%(f0)s", "0", "*"]
TEXTS = [
    "",
    "5",
    "true",
    "null",
    "x' OR '1'='1",
    "客户",
    "Z",
    "a",
    "é",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    "{}",
    "t" * 256,
    "2025-07-01T10:00:00Z",
    "2025-07-01T18:00:00+08:00",
    "2025-07-01t10:00:00.000000999z",
    "2025-07-01T10:00:00.000001Z",
    "2025-07-01T24:00:00Z",
    "2025-02-30T10:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+15:59",
    "9999-12-31T23:59:59.999999999-15:59",
    "2025-07-01T10:00:60Z",
    "2025-07-01 10:00:00Z",
    "2025-07-01T10:00:00",
    "２025-07-01T10:00:00Z",
    "2025-07-01T10:00:00Z\n",
    "infinity",
    "now",
]
WHOLE = [0, 1, 5, -1, 2**53, 2**53 + 1, -(2**63)]
NUMBERS: list[float] = [*WHOLE, 10**30, 10**23, 1e23, 1.0, -0.0, 0.1, 0.5, 5e-324, 1.7e308]
TIMES = [
    datetime(2025, 7, 1, 10, tzinfo=UTC),
    datetime(2025, 7, 1, 10, 0, 0, 1, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]
TAGS = ["red", "blue", "客户", "a:b"]
USERS = ["u1", "u2", "客"]
CONFIDENCES = [0.8, 0.85, 0.9, 1.0]
INSTANTS = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]


def stamp(at: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(at)
    return message


def entries(rng: random.Random, count: int) -> list[memoryfs_pb2.WriteEntry]:
    """Give new items whose labels and attributes come from the pools."""
    return [_entry(rng) for _ in range(count)]


def _entry(rng: random.Random) -> memoryfs_pb2.WriteEntry:
    attributes = {rng.choice(KEYS): _json(rng, 3) for _ in range(rng.randrange(6))}
    return memoryfs_pb2.WriteEntry(
        content="the word",
        attributes_json=canonical_json(attributes),
        tags=rng.sample(TAGS, rng.randrange(4)),
        user=rng.choice(["", *USERS]),
        origin=rng.choice([1, 2, 4]),
        trust=rng.choice([1, 2]),
        confidence=rng.choice(CONFIDENCES),
        importance=rng.choice([0.0, 0.5, 1.0]),
        valid_from=stamp(rng.choice(INSTANTS)),
        pinned=rng.random() < 0.5,
    )


def _json(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind == 7:
        return {rng.choice(KEYS): _json(rng, depth - 1) for _ in range(rng.randrange(4))}
    if kind == 6:
        return [_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return rng.choice([None, "with\0nul", "t" * 257])
    if kind == 4:
        return rng.random() < 0.5
    return rng.choice(NUMBERS if kind > 1 else TEXTS)


def _values() -> st.SearchStrategy[filter_pb2.AttributeValue]:
    value = filter_pb2.AttributeValue
    return st.one_of(
        st.sampled_from(TEXTS).map(lambda text: value(text=text)),
        st.sampled_from(WHOLE).map(lambda number: value(integer=number)),
        st.sampled_from(NUMBERS).map(lambda number: value(number=number)),
        st.booleans().map(lambda flag: value(flag=flag)),
        st.sampled_from(TIMES).map(lambda at: value(time=stamp(at))),
    )


def _ranges() -> st.SearchStrategy[filter_pb2.AttributeRange]:
    kinds = [
        st.sampled_from(TEXTS).map(lambda text: filter_pb2.AttributeValue(text=text)),
        st.sampled_from(NUMBERS).map(lambda number: filter_pb2.AttributeValue(number=number)),
        st.sampled_from(TIMES).map(lambda at: filter_pb2.AttributeValue(time=stamp(at))),
    ]
    bounds = st.one_of([st.tuples(kind, kind, st.integers(0, 2)) for kind in kinds])
    return bounds.map(
        lambda drawn: filter_pb2.AttributeRange(
            min=drawn[0] if drawn[2] != 1 else None, max=drawn[1] if drawn[2] != 2 else None
        )
    )


def conditions() -> st.SearchStrategy[filter_pb2.AttributeCondition]:
    """Give conditions on attributes."""
    several = st.lists(_values(), max_size=3).map(lambda values: filter_pb2.AttributeValues(values=values))
    operators = st.one_of(
        st.tuples(st.sampled_from(["eq", "ne", "contains"]), _values()),
        st.tuples(st.sampled_from(["in", "not_in"]), several),
        st.tuples(st.just("range"), _ranges()),
        st.tuples(st.just("exists"), st.booleans()),
    )
    paths = st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)
    return st.tuples(paths, operators).map(
        lambda drawn: filter_pb2.AttributeCondition(path=drawn[0], **{drawn[1][0]: drawn[1][1]})
    )


def _labels() -> st.SearchStrategy[dict[str, Any]]:
    def some(pool: list[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(st.sampled_from(pool), min_size=1, max_size=3)

    ranges = st.tuples(st.sampled_from(CONFIDENCES), st.sampled_from(CONFIDENCES), st.booleans()).map(
        lambda drawn: filter_pb2.NumberRange(min=drawn[0], max=drawn[1], max_inclusive=drawn[2])
    )
    times = st.sampled_from([(0, 1), (0, 2), (1, 2), (0, None), (None, 1)]).map(
        lambda drawn: common_pb2.TimeRange(
            start=None if drawn[0] is None else stamp(INSTANTS[drawn[0]]),
            end=None if drawn[1] is None else stamp(INSTANTS[drawn[1]]),
        )
    )
    parts: dict[str, st.SearchStrategy[Any]] = {
        "tags_all": some(TAGS),
        "tags_any": some(TAGS),
        "tags_exact": st.lists(st.sampled_from(TAGS), max_size=2).map(lambda tags: filter_pb2.TagSet(tags=tags)),
        "users": some(USERS),
        "owners": some(["user:alice", "user:bob", "user:nobody"]),
        "kinds": some(["working", "episodic", "semantic"]),
        "origins": some(list(item_pb2.Origin.values())[1:]),
        "states": some([1, 2, 3, 4]),
        "trusts": some([1, 2]),
        "min_confidence": st.sampled_from(CONFIDENCES),
        "confidence": ranges,
        "importance": ranges,
        "valid_from": times,
        "update_time": times,
        "pinned": st.booleans(),
    }
    return st.sampled_from(sorted(parts)).flatmap(lambda name: parts[name].map(lambda value: {name: value}))


def filters() -> st.SearchStrategy[filter_pb2.Filter]:
    """Give filters of any shape, empty ones and empty nested ones too."""
    leaves = st.one_of(
        _labels().map(lambda fields: filter_pb2.Filter(**fields)),
        st.lists(conditions(), max_size=2).map(lambda held: filter_pb2.Filter(attributes=held)),
    )

    def nested(inner: st.SearchStrategy[filter_pb2.Filter]) -> st.SearchStrategy[filter_pb2.Filter]:
        name = st.sampled_from(["all_of", "any_of", "none_of"])
        return st.tuples(leaves, name, st.lists(inner, max_size=3)).map(_with_nested)

    return st.recursive(leaves, nested, max_leaves=5)


def _with_nested(drawn: tuple[filter_pb2.Filter, str, list[filter_pb2.Filter]]) -> filter_pb2.Filter:
    whole = filter_pb2.Filter()
    whole.CopyFrom(drawn[0])
    getattr(whole, drawn[1]).extend(drawn[2])
    return whole
