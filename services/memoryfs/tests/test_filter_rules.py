"""What filters mean, and what is refused, without I/O (FAULTS, isolation and filters)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.memoryfs.v1 import filter_pb2, memoryfs_pb2
from memoryos.type.v1 import common_pb2
from memoryos_core.canonical import canonical_json
from memoryos_core.ids import SequenceIds
from memoryos_core.paths import MemoryPath
from memoryos_memoryfs.adapters.sql_filters import FilterKeys, sql_of
from memoryos_memoryfs.domain import filters as f
from memoryos_memoryfs.domain.drafts import Moment, new_item
from memoryos_memoryfs.domain.filter_meaning import matches, read_instant
from memoryos_memoryfs.domain.settings import effective
from memoryos_memoryfs.errors import FilterInvalid
from memoryos_memoryfs.filter_messages import filter_of
from memoryos_memoryfs.messages import draft_of
from memoryos_testing import scope_of

Filter = filter_pb2.Filter
Condition = filter_pb2.AttributeCondition
Value = filter_pb2.AttributeValue
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = MemoryPath.parse("/tenants/acme/memory/episodic")
ITEM = new_item(
    draft_of(memoryfs_pb2.WriteEntry(content="x"), "entries[0]"),
    Moment(scope=scope_of(user="alice"), path=PATH, now=NOW, new_id=SequenceIds().new, holding=effective([])),
)


def holds(attributes, *conditions) -> bool:
    item = replace(ITEM, payload=replace(ITEM.payload, attributes=canonical_json(attributes)))
    return matches(filter_of(Filter(attributes=conditions)), item)


def at(*path, **operator) -> filter_pb2.AttributeCondition:
    for name in ("eq", "ne", "contains"):
        if name in operator:
            operator[name] = value(operator[name])
    return Condition(path=path, **operator)


def value(plain) -> filter_pb2.AttributeValue:
    if isinstance(plain, Timestamp):
        return Value(time=plain)
    kind = {bool: "flag", int: "integer", float: "number", str: "text"}[type(plain)]
    return Value(**{kind: plain})


def values(*plain) -> filter_pb2.AttributeValues:
    return filter_pb2.AttributeValues(values=[value(one) for one in plain])


def between(low=None, high=None) -> filter_pb2.AttributeRange:
    return filter_pb2.AttributeRange(min=None if low is None else value(low), max=None if high is None else value(high))


def test_one_key_twice_is_and():
    for age, inside in ((0, False), (1, True), (4, True), (5, False)):
        conditions = (at("age", range=between(1)), at("age", range=between(None, 5)))
        assert holds({"age": age}, *conditions) is inside


def test_lists_of_values_may_be_empty():
    assert holds({"a": 1}, Condition(path=["a"], **{"in": values(2, 1)}))
    assert not holds({"a": 1}, Condition(path=["a"], **{"in": values()}))
    assert holds({"a": 1}, at("a", not_in=values()))
    assert holds({"a": 1}, at("a", not_in=values(2)))
    assert not holds({"a": 1}, at("a", not_in=values("1")))  # of another kind
    assert not holds({}, at("a", not_in=values()))


def test_kinds_are_apart_and_numbers_are_exact():
    assert holds({"a": 5}, at("a", eq=5.0))
    assert holds({"a": 5.0}, at("a", eq=5))
    assert not holds({"a": "5"}, at("a", eq=5))
    assert not holds({"a": True}, at("a", eq=1))
    assert not holds({"a": 1}, at("a", eq=True))
    assert not holds({"a": 2**53 + 1}, at("a", eq=float(2**53)))
    assert holds({"a": 2**53 + 1}, at("a", eq=2**53 + 1))
    assert holds({"a": 2**53 + 1}, at("a", ne=2**53))
    assert holds({"a": 10**23}, at("a", eq=1e23))
    assert not holds({"a": "5"}, at("a", ne=5))


def test_absent_and_null_meet_nothing_but_exists_false():
    for attributes in ({}, {"a": None}, {"b": {"a": 1}}):
        for operator in ({"eq": 1}, {"ne": 1}, {"contains": 1}, {"range": between(0)}, {"exists": True}):
            assert not holds(attributes, at("a", **operator))
        assert holds(attributes, at("a", exists=False))
    assert holds({"a": {"b": [1, "x"]}}, at("a", "b", contains="x"))
    assert not holds({"a.b": 1}, at("a", "b", exists=True))
    assert holds({"a.b": 1}, at("a.b", eq=1))
    assert not holds({"a": ["x"]}, at("a", "0", exists=True))


def test_long_texts_and_deep_values_are_there_and_equal_nothing():
    assert holds({"a": "x" * 256}, at("a", eq="x" * 256))
    assert holds({"a": "x" * 257}, at("a", exists=True))
    assert not holds({"a": "x" * 257}, at("a", ne="y"))
    assert holds({"a": "with\0nul"}, at("a", exists=True))
    deep = {"k": 1}
    for _ in range(8):
        deep = {"k": deep}
    assert holds(deep, at(*["k"] * 8, exists=True))
    assert not holds(deep, at(*["k"] * 8, eq=1))


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T08:00:00+08:00", 0),
        ("1969-12-31T16:00:00-08:00", 0),
        ("1970-01-01t00:00:00.5z", 500_000),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000_000),
    ],
)
def test_instants_are_read(text, micros):
    assert read_instant(text) == micros


NO_INSTANTS = [
    "",
    "now",
    "2025-07-01",
    "2025-07-01T00:00:00",
    "2025-02-29T00:00:00Z",
    "2025-07-01T24:00:00Z",
    "2025-07-01T00:00:60Z",
    "0000-01-01T00:00:00Z",
    "2025-7-1T0:0:0Z",
    "2025-07-01T00:00:00+16:00",
    "2025-07-01T00:00:00Z\n",
    " 2025-07-01T00:00:00Z",
    "٢025-07-01T00:00:00Z",
    "2025-07-01T00:00:00.Z",
]


@pytest.mark.parametrize("text", NO_INSTANTS)
def test_other_texts_are_no_instants(text):
    assert read_instant(text) is None


def nested(depth: int) -> filter_pb2.Filter:
    message = Filter(pinned=True)
    for _ in range(depth - 1):
        message = Filter(any_of=[message])
    return message


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (nested(9), "filter" + ".any_of[0]" * 8),
        (Filter(any_of=[Filter(pinned=True)] * 32, all_of=[Filter()] * 32, none_of=[Filter()]), "filter.none_of[0]"),
        (
            Filter(attributes=[at("a", eq=1)] * 32, all_of=[Filter(attributes=[at("a", eq=1)] * 32), nested(1)]),
            "filter",
        ),
        (Filter(kinds=["procedural"]), "filter.kinds"),
        (Filter(attributes=[Condition(path=["a"])]), "filter.attributes[0]"),
        (Filter(attributes=[Condition(path=["a"], eq=Value())]), "filter.attributes[0].eq"),
        (Filter(attributes=[Condition(path=["a"], contains=Value())]), "filter.attributes[0].contains"),
        (Filter(attributes=[at("a", range=between())]), "filter.attributes[0].range"),
        (Filter(attributes=[at("a", range=between(1, "x"))]), "filter.attributes[0].range"),
        (Filter(attributes=[at("a", range=between(False, True))]), "filter.attributes[0].range"),
        (Filter(attributes=[at("a", eq=float("nan"))]), "filter.attributes[0].eq"),
        (Filter(attributes=[at("a", eq=float("inf"))]), "filter.attributes[0].eq"),
        (Filter(attributes=[at("a\0", eq=1)]), "filter.attributes[0].path"),
        (Filter(attributes=[at("a", eq="\0")]), "filter.attributes[0].eq"),
        (Filter(attributes=[Condition(eq=value(1))]), "filter.attributes[0].path"),
        (Filter(attributes=[at(*"abcdefghi", eq=1)]), "filter.attributes[0].path"),
        (Filter(confidence=filter_pb2.NumberRange(min=float("nan"))), "filter.confidence.min"),
        (
            Filter(none_of=[Filter(any_of=[Filter(attributes=[Condition(path=["a"])])])]),
            "filter.none_of[0].any_of[0].attributes[0]",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(message, field):
    with pytest.raises(FilterInvalid) as refused:
        filter_of(message)
    assert [violation.field.startswith(field) for violation in refused.value.violations] == [True]


LATER = b"\xfa\x7f\x01x"
"""Field 2047 of a later version."""


@pytest.mark.parametrize(
    "message",
    [
        Filter.FromString(LATER),
        Filter(any_of=[Filter.FromString(Filter(pinned=True).SerializeToString() + LATER)]),
        Filter(tags_exact=filter_pb2.TagSet.FromString(LATER)),
        Filter(confidence=filter_pb2.NumberRange.FromString(LATER)),
        Filter(valid_from=common_pb2.TimeRange.FromString(LATER)),
        Filter(attributes=[Condition.FromString(at("a", eq=1).SerializeToString() + LATER)]),
        Filter(attributes=[Condition(path=["a"], eq=Value.FromString(value(1).SerializeToString() + LATER))]),
        Filter(attributes=[at("a", not_in=filter_pb2.AttributeValues.FromString(LATER))]),
        Filter(attributes=[at("a", range=type(between()).FromString(between(1).SerializeToString() + LATER))]),
    ],
)
def test_a_condition_of_a_later_version_is_refused_not_dropped(message):
    with pytest.raises(FilterInvalid):
        filter_of(message)


def test_the_limits_themselves_are_allowed():
    assert matches(filter_of(nested(8)), replace(ITEM, pinned=True))
    sixty_four = Filter(
        attributes=[at("a", exists=False)] * 32, all_of=[Filter(attributes=[at("a", exists=False)] * 32)]
    )
    assert matches(filter_of(sixty_four), ITEM)
    assert filter_of(Filter()) == f.NO_FILTER


def test_empty_nested_filters_let_everything_through():
    assert matches(filter_of(Filter(any_of=[Filter()])), ITEM)
    assert matches(filter_of(Filter(all_of=[Filter()])), ITEM)
    assert not matches(filter_of(Filter(none_of=[Filter()])), ITEM)
    assert not matches(f.AnyOf(()), ITEM)
    assert matches(f.NoneOf(()), ITEM)
    assert not matches(f.OneOf(f.Label.USER, ()), ITEM)


def test_in_sql_too_any_of_nothing_is_nothing():
    keys = FilterKeys(owners={}, kinds={})
    assert sql_of(f.AllOf(()), keys) == ("(true)", {})
    assert sql_of(f.AnyOf(()), keys) == ("(false)", {})
    assert sql_of(f.NoneOf(()), keys) == ("NOT (false)", {})


@dataclass(frozen=True)
class Stranger:
    """No filter."""

    filters: tuple = ()


@pytest.mark.parametrize(
    "node",
    [
        Stranger(),
        f.AllOf((f.Pinned(False), Stranger())),
        f.AnyOf((f.AllOf(), Stranger())),
        f.NoneOf((Stranger(),)),
        f.Attribute(("a",), Stranger()),
        f.OneOf("other", ("x",)),
        None,
    ],
)
def test_a_node_that_is_no_filter_is_an_error_everywhere(node):
    with pytest.raises(f.FilterUnknown):
        matches(node, ITEM)
    with pytest.raises(f.FilterUnknown):
        sql_of(node, FilterKeys(owners={}, kinds={}))


HOSTILE = [
    "x' OR '1'='1",
    "a.b",
    '"',
    "'",
    "\\",
    "$.x[*] ? (@ > 1)",
    "%(tenant)s",
    "%s",
    "{a,b}",
    "客户",
    "-- ",
    "/*filter*/",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_caller_stands_in_the_statement(text):
    message = Filter(
        attributes=[at(text, eq=text), at("a", text, contains=text), at("a", range=between(text))],
        any_of=[Filter(tags_all=[text]), Filter(users=[text]), Filter(owners=[text])],
    )
    plain = Filter(
        attributes=[at("k", eq="v"), at("a", "k", contains="v"), at("a", range=between("v"))],
        any_of=[Filter(tags_all=["v"]), Filter(users=["v"]), Filter(owners=["v"])],
    )
    keys = FilterKeys(owners={}, kinds={})
    statement, params = sql_of(filter_of(message), keys)
    assert statement == sql_of(filter_of(plain), keys)[0]
    assert text in params.values()
