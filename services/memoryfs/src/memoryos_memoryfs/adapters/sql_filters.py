"""Filters as SQL over memoryfs.items (or item_revisions): one translator for every read and both backends.

Total and two-valued: each condition becomes an expression that is true or
false, never NULL, for every row; a node that is no filter raises FilterUnknown.
Only fixed text is put together; every value is a parameter. What each node
means is said in domain/filter_meaning.py, with which it has to agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from memoryos_memoryfs.domain import filters as f
from memoryos_memoryfs.domain.place_keys import KIND_KEY_BYTES

_TAG_RULES: Final = {
    f.TagRule.ALL: "tags @> {tags}",
    f.TagRule.ANY: "tags && {tags}",
    f.TagRule.EXACT: "(tags @> {tags} AND tags <@ {tags})",
}
_COLUMNS: Final = {f.Label.ORIGIN: "origin", f.Label.STATE: "state", f.Label.TRUST: "trust"}
_OF_KINDS: Final = (
    "path_id IN (SELECT p.id FROM memoryfs.paths p WHERE p.tenant = %(tenant)s"
    " AND substring(p.key FROM 1 FOR /*size*/) = ANY (/*kinds*/))"
)
_HOLDS: Final = "EXISTS (SELECT 1 FROM jsonb_array_elements(/*listed*/) AS held (one) WHERE /*equal*/)"
_INSTANT: Final = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?"
    "([Zz]|[+-](0[0-9]|1[0-5]):[0-5][0-9])$"
)
"""As domain/filter_meaning.py reads instants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterKeys:
    """What names in a filter are in rows."""

    owners: Mapping[str, int]
    """Numbers of principals; an absent one owns nothing."""
    kinds: Mapping[str, bytes]
    """Keys that the places of a kind begin with."""


@dataclass(slots=True)
class _Params:
    values: dict[str, Any] = field(default_factory=dict)

    def put(self, value: Any, kind: str) -> str:
        """Give the placeholder of a new parameter of this SQL type."""
        name = f"f{len(self.values)}"
        self.values[name] = value
        return f"%({name})s::{kind}"


def owners_of(node: f.Filter) -> set[str]:
    """Give the principals that a filter names."""
    if isinstance(node, f.AllOf | f.AnyOf | f.NoneOf):
        return set[str]().union(*(owners_of(one) for one in node.filters))
    return set(map(str, node.values)) if isinstance(node, f.OneOf) and node.label is f.Label.OWNER else set()


def sql_of(node: f.Filter, keys: FilterKeys) -> tuple[str, dict[str, Any]]:
    """Give the condition and its parameters, named f0, f1, …; the statement names its tenant `tenant`."""
    params = _Params()
    return _sql(node, keys, params), params.values


def _sql(node: f.Filter, keys: FilterKeys, params: _Params) -> str:
    match node:
        case f.AllOf():
            return _joined(" AND ", (_sql(one, keys, params) for one in node.filters), "true")
        case f.AnyOf():
            return _joined(" OR ", (_sql(one, keys, params) for one in node.filters), "false")
        case f.NoneOf():
            return f"NOT {_joined(' OR ', (_sql(one, keys, params) for one in node.filters), 'false')}"
        case f.Tagged():
            return _TAG_RULES[node.rule].format(tags=params.put(list(node.tags), "text[]"))
        case f.OneOf():
            return _label(node, keys, params)
        case f.NumberIn():
            return _number_range(node, params)
        case f.TimeIn():
            column = {moment: moment.value for moment in f.Moment}[node.moment]
            bounds = ((">=", node.start), ("<", node.end))
            tests = [f"{column} {sign} {params.put(at, 'timestamptz')}" for sign, at in bounds if at is not None]
            return _joined(" AND ", tests, "true")
        case f.Pinned():
            return f"pinned = {params.put(node.pinned, 'bool')}"
        case f.Attribute():
            found = "".join(["attributes", *(f" -> {params.put(key, 'text')}" for key in node.path)])
            return f"coalesce({_test(node.test, f'({found})', params)}, false)"
    f.unknown(node)


def _joined(operator: str, parts: Iterable[str], empty: str) -> str:
    return f"({operator.join(parts) or empty})"


def _label(node: f.OneOf, keys: FilterKeys, params: _Params) -> str:
    match node.label:
        case f.Label.USER:
            return f"user_label = ANY ({params.put(list(node.values), 'text[]')})"
        case f.Label.OWNER:
            numbers = [keys.owners[str(name)] for name in node.values if name in keys.owners]
            return f"owner = ANY ({params.put(numbers, 'int4[]')})"
        case f.Label.KIND:
            wanted = params.put([keys.kinds[str(kind)] for kind in node.values if kind in keys.kinds], "bytea[]")
            return _OF_KINDS.replace("/*size*/", str(KIND_KEY_BYTES)).replace("/*kinds*/", wanted)
        case f.Label.ORIGIN | f.Label.STATE | f.Label.TRUST:
            return f"{_COLUMNS[node.label]} = ANY ({params.put(list(node.values), 'int4[]')})"
    f.unknown(node.label)


def _number_range(node: f.NumberIn, params: _Params) -> str:
    column = {quantity: quantity.value for quantity in f.Quantity}[node.quantity]
    bounds = ((">=", node.min), ("<=" if node.max_inclusive else "<", node.max))
    return _joined(
        " AND ",
        [f"{column} {sign} {params.put(number, 'float8')}" for sign, number in bounds if number is not None],
        "true",
    )


def _test(test: f.Test, found: str, params: _Params) -> str:
    """Give the test of a jsonb expression; NULL counts as false."""
    match test:
        case f.Among():
            return _among(test.values, found, params)
        case f.NotAmong():
            kinds = {value.kind for value in test.values} or set(f.ValueKind)
            of_kind = _joined(" OR ", [f"{_read(found, kind)} IS NOT NULL" for kind in sorted(kinds)], "false")
            return f"({of_kind} AND NOT coalesce({_among(test.values, found, params)}, false))"
        case f.Between():
            own = _read(found, test.kind)
            bounds = ((">=", test.min), ("<", test.max))
            tests = [f"{own} {sign} {_param(bound, params)}" for sign, bound in bounds if bound is not None]
            return _joined(" AND ", tests, "false")
        case f.Exists():
            there = f"coalesce(jsonb_typeof({found}) <> 'null', false)"
            return there if test.exists else f"NOT {there}"
        case f.Contains():
            listed = f"CASE WHEN jsonb_typeof({found}) = 'array' THEN {found} ELSE '[]' END"
            equal = _among((test.value,), "(held.one)", params)
            return _HOLDS.replace("/*listed*/", listed).replace("/*equal*/", equal)
    f.unknown(test)


def _among(values: tuple[f.Value, ...], found: str, params: _Params) -> str:
    """Each kind by itself; in an OR of true, false and NULL, true wins."""
    tests = []
    for kind in sorted({value.kind for value in values}):
        asked = [_literal(value) for value in values if value.kind is kind]
        tests.append(f"{_read(found, kind)} = ANY ({params.put(asked, _TYPES[kind] + '[]')})")
    return _joined(" OR ", tests, "false")


_TYPES: Final = {
    f.ValueKind.TEXT: "text",
    f.ValueKind.NUMBER: "numeric",
    f.ValueKind.FLAG: "bool",
    f.ValueKind.TIME: "timestamptz",
}


def _literal(value: f.Value) -> Any:
    # As text: the driver would choose a type by the size of each number.
    return str(value.value) if isinstance(value.value, Decimal) else value.value


def _param(value: f.Value, params: _Params) -> str:
    return params.put(_literal(value), _TYPES[value.kind])


def _read(found: str, kind: f.ValueKind) -> str:
    """Give the SQL that reads a jsonb expression as this kind; NULL where it is of another one."""
    text = f"({found} #>> '{{}}')"
    match kind:
        case f.ValueKind.TEXT:
            return f"(CASE WHEN jsonb_typeof({found}) = 'string' THEN {text} END COLLATE \"C\")"
        case f.ValueKind.NUMBER:
            return f"(CASE WHEN jsonb_typeof({found}) = 'number' THEN {found}::numeric END)"
        case f.ValueKind.FLAG:
            return f"(CASE WHEN jsonb_typeof({found}) = 'boolean' THEN {found}::bool END)"
        case f.ValueKind.TIME:
            cut = f"regexp_replace({text}, '([.][0-9]{{6}})[0-9]+', '\\1')"
            return (
                f"(CASE WHEN jsonb_typeof({found}) = 'string' THEN CASE WHEN {text} COLLATE \"C\" ~ '{_INSTANT}'"
                f" AND pg_input_is_valid({text}, 'timestamptz') THEN {cut}::timestamptz END END)"
            )
    f.unknown(kind)
