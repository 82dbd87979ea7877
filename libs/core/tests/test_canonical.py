import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memoryos_core.canonical import action_digest, canonical_json, parse_json
from memoryos_core.errors import InvalidField

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_canonical_form_reads_back_as_the_same_value_and_is_its_own_canonical_form(value):
    spelled = canonical_json(value)
    again = parse_json(spelled, max_bytes=1 << 20)
    assert again == value
    assert canonical_json(again) == spelled


def test_key_order_and_space_do_not_change_the_canonical_form():
    one = parse_json('{"b": [1, 2.50],\n "a": "é"}', max_bytes=100)
    two = parse_json('{"a":"é","b":[1,2.5]}', max_bytes=100)
    assert canonical_json(one) == canonical_json(two) == '{"a":"é","b":[1,2.5]}'.encode()


def test_integers_stay_exact_beyond_doubles():
    assert canonical_json(parse_json(str(2**53 + 1), max_bytes=100)) == b"9007199254740993"


@pytest.mark.parametrize(
    "raw",
    [
        '{"path":"/tmp/ok","path":"/etc/passwd"}',
        '{"path":1,"p\\u0061th":2}',
        '[{"a":{"b":1,"b":1}}]',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        '"\\ud800"',
        '{"\\udfff": 1}',
        "",
        "{",
        "[1,]",
        "01",
        "'a'",
        "1" * 2000,
        "[" * 65 + "]" * 65,
        "[" * 100_000,
        b"\xff\xfe",
        b'"\xed\xa0\x80"',
        "\ufeff{}",
    ],
)
def test_text_with_two_readings_or_none_is_refused(raw):
    with pytest.raises(InvalidField) as refused:
        parse_json(raw, max_bytes=1 << 20, field="arguments_json")
    assert refused.value.violations[0].field == "arguments_json"


def test_size_is_bounded_in_bytes():
    with pytest.raises(InvalidField, match="more than 8 bytes"):
        parse_json('"中文中文"', max_bytes=8)


def test_brackets_inside_strings_are_no_depth():
    text = json.dumps({"a": "[" * 500 + '\\"{'})
    assert parse_json(text, max_bytes=2000) == json.loads(text)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {1: 2}, {"a": {None: 1}}, {"a": b"x"}, "\ud800"])
def test_what_is_no_json_has_no_canonical_form(value):
    with pytest.raises(InvalidField):
        canonical_json(value)


def digest(**change):
    action = {
        "tenant": "acme",
        "user": "u42",
        "chain": ["helper"],
        "skill": "refund.create",
        "version": "1",
        "definition_digest": "d",
        "arguments": b'{"amount":1}',
    }
    return action_digest(**{**action, **change})


def test_every_part_of_an_action_changes_its_digest():
    variants = [
        digest(),
        digest(tenant="other"),
        digest(user="u43"),
        digest(chain=[]),
        digest(chain=["helper", "sub"]),
        digest(skill="refund.delete"),
        digest(version="2"),
        digest(definition_digest="e"),
        digest(arguments=b'{"amount":2}'),
        digest(arguments=b'{"amount":null}'),
        digest(arguments=b"{}"),
    ]
    assert len(set(variants)) == len(variants)


def test_parts_cannot_run_into_each_other():
    assert digest(chain=["a", "b"]) != digest(chain=['a","b'])
    assert digest(skill='x","y') != digest(skill="x", version='y","1')
