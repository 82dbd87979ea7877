"""Parameter schemas: what may be registered (V2, V5), and that validation is complete and bounded (V1, V6)."""

import time
from typing import Any

import pytest
from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField
from memoryos_toolgateway.domain.patterns import PatternRefused, compile_pattern
from memoryos_toolgateway.domain.schema_check import CompiledSchema
from memoryos_toolgateway.domain.schema_closing import close_objects
from memoryos_toolgateway.domain.schema_dialects import modern
from memoryos_toolgateway.domain.schema_lint import SchemaRefused, lint_schema

from .eval_data import eval_data


def violations(schema: Any, value: Any) -> list[tuple[str, str]]:
    lint_schema(schema)
    return [(v.pointer, v.rule) for v in CompiledSchema(schema).violations(value)]


def holds(schema: Any, value: Any) -> bool:
    return not violations(schema, value)


GOOD_AND_BAD = [
    ({"enum": ["a", 1]}, 1, True),
    ({"enum": [0]}, 0, False),
    ({"const": {"a": 1}}, {"a": 1.0}, {"a": True}),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 1, 3),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", None),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4),
    ({"not": {"type": "string"}}, 1, "x"),
    ({"if": {"type": "integer"}, "then": {"minimum": 5}, "else": {"type": "string"}}, 5, 4),
    ({"pattern": "^[a-z]+$"}, "abc", "abc\n"),
    ({"pattern": r"^\d+$"}, "12", "١٢"),
    ({"pattern": "^\\u00e9$"}, "é", "e"),
    ({"format": "date"}, "2026-02-28", "2026-02-30"),
    ({"format": "date"}, "2026-02-28", "2026-02-28\n"),
    ({"format": "time"}, "23:59:60Z", "23:58:60Z"),
    ({"format": "date-time"}, "2026-02-28T10:00:00.5+08:00", "2026-02-28 10:00"),
    ({"format": "duration"}, "P1DT2H", "P1"),
    ({"format": "email"}, "a.b@example.org", "a@b@c d"),
    ({"format": "hostname"}, "a-b.example", "-a.example"),
    ({"format": "ipv4"}, "192.168.0.1", "192.168.0.01"),
    ({"format": "ipv6"}, "::1", "::1%eth0"),
    ({"format": "uuid"}, "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08aa9811eab4aa73b441d16380"),
    ({"format": "uri"}, "http://a.example/b?c#d", "//a.example"),
    ({"format": "uri-reference"}, "../b?c", "\\\\x"),
    ({"format": "json-pointer"}, "/a~1b/0", "a"),
    ({"type": "integer"}, 1, True),
    ({"type": "integer"}, 10**30, 1.5),
    ({"type": "integer", "maximum": 2**53 + 1}, 2**53 + 1, 2**53 + 2),
    ({"type": "integer"}, 1.0, "1"),
    ({"minimum": 1.5}, 2, 1),
    ({"exclusiveMaximum": 2}, 1.9, 2),
    ({"multipleOf": 0.01}, 19.99, 19.999),
    ({"multipleOf": 7}, 7 * 10**40, 7 * 10**40 + 1),
    ({"minLength": 2, "maxLength": 3}, "数据", "数"),
    ({"minItems": 1, "maxItems": 2}, [1], []),
    ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], [{"a": [1]}, {"a": [1.0]}]),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [1, 1, 2], [1, 2]),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1], ["a", "b"]),
    ({"prefixItems": [True], "unevaluatedItems": False}, [1], [1, 2]),
    ({"minProperties": 1, "maxProperties": 1}, {"a": 1}, {}),
    ({"required": ["a"]}, {"a": None}, {"b": 1}),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
    ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
    ({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}, {"x-a": 1}, {"y": 1}),
    ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ({"$defs": {"t": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/t"}}}, {"a": "x"}, {"a": 1}),
]


@pytest.mark.parametrize(("schema", "good", "bad"), GOOD_AND_BAD, ids=[str(case[0])[:60] for case in GOOD_AND_BAD])
def test_each_keyword_holds_and_is_broken(schema: Any, good: Any, bad: Any):
    assert holds(schema, good)
    assert not holds(schema, bad)


def test_integers_follow_json_schema():
    """1.0 is an integer by JSON Schema 2020-12 (6.1.1), true is not; what is sent on is what was sent."""
    assert holds({"type": "integer"}, parse_json(b"1.0", max_bytes=10))
    assert not holds({"type": "integer"}, parse_json(b"true", max_bytes=10))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a":NaN}', "1e999", "[-1e999]"])
def test_no_number_is_beyond_numbers(text: str):
    with pytest.raises(InvalidField):
        parse_json(text, max_bytes=100)


def test_the_official_suite_holds_but_for_other_dialects():
    """Every case of the JSON Schema Test Suite (required part), formats as annotations as the suite has it."""
    suite = eval_data("tools/jsonschema2020_12_required.json")
    documents = {f"http://localhost:1234/{name}": document for name, document in suite["remotes"].items()}
    refused, wrong, asserted, right = {}, [], [], 0
    for file in suite["files"]:
        for group in file["groups"]:
            name = f"{file['file']}: {group['description']}"
            try:
                lint_schema(group["schema"], documents)
            except SchemaRefused as error:
                refused[name] = (len(group["tests"]), str(error))
                continue
            strict = CompiledSchema(group["schema"], documents)
            as_suite = CompiledSchema(group["schema"], documents, formats=False)
            for case in group["tests"]:
                right += 1
                if (not as_suite.violations(case["data"])) != case["valid"]:
                    wrong.append(f"{name}: {case['description']}")
                if "only an annotation" in case["description"] and strict.violations(case["data"]):
                    asserted.append(name)
    assert not wrong
    assert right >= 1290
    assert all("$schema" in reason for _, reason in refused.values()), refused
    assert len(asserted) == 19, "what the dialect leaves to annotations is asserted here"


REFUSED_REFERENCES = [
    {"$ref": "file:///etc/passwd"},
    {"$ref": "http://127.0.0.1:1/schema"},
    {"properties": {"a": {"$ref": "https://example.org/s"}}},
    {"$dynamicRef": "#x"},
    {"properties": {"a": {"$id": "http://example.org/s", "$ref": "#/x"}}},
    {"$ref": "#a"},
    {"$ref": "other.json"},
    {"$ref": "#/properties/missing"},
    {"$ref": "#/$defs/a%2Fb", "$defs": {"a/b": True}},
    {"$schema": "http://json-schema.org/draft-07/schema#"},
    {"properties": {"a": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}},
    {"$recursiveRef": "#"},
    {"$id": "http://example.org/s", "$ref": "other.json"},
    {"$ref": "#/default", "default": {"type": "string"}},
    {"$ref": "https://json-schema.org/draft/2019-09/schema"},
]


@pytest.mark.parametrize("schema", REFUSED_REFERENCES, ids=str)
def test_no_reference_leaves_the_document(schema: Any):
    with pytest.raises(SchemaRefused):
        lint_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        {"if": {"$ref": "#/then"}, "then": {"$ref": "#/if"}},
    ],
    ids=str,
)
def test_a_schema_that_leads_back_to_itself_is_refused(schema: Any):
    with pytest.raises(SchemaRefused):
        lint_schema(schema)


def test_a_recursive_schema_over_smaller_values_is_fine():
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    assert holds(tree, {"children": [{"children": []}]})
    assert not holds(tree, {"children": [{"children": 1}]})


@pytest.mark.parametrize(
    "schema",
    [
        {"minimun": 1},
        {"format": "iban"},
        {"type": "int"},
        {"minimum": "1"},
        {"pattern": "(?=a)"},
        {"pattern": r"(a)\1"},
        {"pattern": "(?i)a"},
        {"pattern": r"\Aa"},
        {"pattern": "a" * 2000},
        {"patternProperties": {"(?!x)": True}},
        {"enum": list(range(1001))},
        {"x-sensitive": "yes"},
        {"x-sensitve": True},
        {"x-recipent": True},
        [],
        "x",
    ],
    ids=lambda schema: ascii(schema)[:60],
)
def test_what_is_not_understood_is_refused(schema: Any):
    with pytest.raises(SchemaRefused):
        lint_schema(schema)


def nested(depth: int) -> Any:
    schema: Any = True
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


def test_schemas_are_bounded():
    lint_schema(nested(30))
    for schema in (nested(40), {"properties": {f"p{i}": {"type": "string"} for i in range(2001)}}):
        with pytest.raises(SchemaRefused):
            lint_schema(schema)


def test_exponential_patterns_cost_what_linear_ones_do():
    schema = {"pattern": "^(a+)+$"}
    started = time.process_time()
    assert not holds(schema, "a" * 200_000 + "!")
    assert time.process_time() - started < 0.05


def test_no_known_slow_pattern_is_slow_or_it_is_refused():
    texts = ["a" * 100_000 + "!", "@." * 50_000, "x" * 100_000]
    for case in eval_data("security/redos_patterns.json"):
        try:
            pattern = compile_pattern(case["pattern"])
        except PatternRefused:
            continue
        started = time.process_time()
        for text in texts:
            pattern.matches(text)
        assert time.process_time() - started < 0.5, case["pattern"]


def test_branching_schemas_end_by_their_steps():
    branch = {"anyOf": [{"properties": {"a": {"$ref": "#"}, f"p{i}": False}} for i in range(8)]}
    value: Any = {"b": 1}
    for _ in range(40):
        value = {"a": value, **{f"p{i}": 1 for i in range(8)}}
    started = time.process_time()
    assert violations(branch, value) == [("", "limit")]
    assert time.process_time() - started < 2


def test_many_unique_items_are_compared_in_linear_time():
    started = time.process_time()
    assert holds({"uniqueItems": True}, [{"a": [i]} for i in range(20_000)])
    assert time.process_time() - started < 2


def test_violations_never_hold_the_value():
    secret = "sk-secret-value"
    schema = {
        "type": "object",
        "required": ["other"],
        "properties": {
            "a": {"type": "integer"},
            "b": {"enum": [1]},
            "c": {"pattern": "^x$"},
            "d": {"const": 1},
            "e": {"anyOf": [{"type": "integer"}]},
            "f": {"format": "date"},
            "g": {"not": {"type": "string"}},
            "h": {"maxLength": 1},
        },
        "additionalProperties": False,
    }
    found = CompiledSchema(schema).violations(dict.fromkeys("abcdefgh", secret))
    assert len(found) == 9
    assert secret not in repr(found)


def test_objects_are_closed_unless_they_say_otherwise():
    schema = {
        "type": "object",
        "properties": {
            "closed": {"type": "object", "properties": {"x": True}},
            "open": {"type": "object", "additionalProperties": True},
            "list": {"type": "array", "items": {"properties": {"x": True}}},
            "mixed": {"allOf": [{"properties": {"x": True}}, {"$ref": "#/$defs/y"}]},
        },
        "$defs": {"y": {"properties": {"y": True}}},
    }
    closed = close_objects(schema)
    lint_schema(closed)
    good = {"closed": {"x": 1}, "open": {"z": 1}, "list": [{"x": 1}], "mixed": {"x": 1, "y": 1}}
    assert holds(closed, good)
    for bad in ({"z": 1}, {"closed": {"z": 1}}, {"list": [{"z": 1}]}, {"mixed": {"z": 1}}):
        assert holds(schema, bad), "the schema as written is open"
        assert not holds(closed, bad)


def test_depth_is_refused_where_json_is_read_and_not_by_recursion():
    for text in ("[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000, "[" * 100_000):
        started = time.process_time()
        with pytest.raises(InvalidField):
            parse_json(text, max_bytes=1_000_000)
        assert time.process_time() - started < 0.05


def test_public_tools_can_be_registered():
    """Schemas that others publish pass, in their own dialects."""
    tools = [tool["inputSchema"] for name in PUBLIC for tool in eval_data(name)]
    tools += [t["inputSchema"] for server in eval_data("tools/mcp_reference_tools_list.json") for t in server["tools"]]
    for schema in tools:
        lint_schema(modern(schema))
    assert len(tools) > 1700


PUBLIC = ("tools/bfcl_tools.jsonl.gz", "tools/livemcp_tools.jsonl.gz", "tools/agentdojo_tools.jsonl")
OLDER = [
    ({"items": [{"type": "string"}], "additionalItems": False}, ["a"], ["a", 1]),
    ({"dependencies": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
    ({"dependencies": {"a": {"required": ["b"]}}}, {"a": 1, "b": 1}, {"a": 1}),
    ({"minimum": 0, "exclusiveMinimum": True}, 0.5, 0),
    ({"maximum": 0, "exclusiveMaximum": False}, 0, 1),
    ({"definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a", "minLength": 9}, "x", 1),
    ({"properties": {"a": {"items": [{"type": "null"}]}}}, {"a": [None]}, {"a": [1]}),
    ({"type": "string", "nullable": True}, None, 1),
    ({"enum": ["a"], "nullable": True}, None, "b"),
]


@pytest.mark.parametrize(("schema", "good", "bad"), OLDER, ids=str)
def test_older_dialects_keep_their_meaning(schema: Any, good: Any, bad: Any):
    translated = modern(schema | {"$schema": "http://json-schema.org/draft-07/schema#"})
    assert holds(translated, good)
    assert not holds(translated, bad)


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [("int32", 2**31 - 1, 2**31), ("int64", -(2**63), 2**63), ("float", 1.5, 1e39), ("byte", "aGk=", "aGk"),
     ("idn-hostname", "例え.テスト", "〮a"), ("idn-email", "人@例え.テスト", "人"), ("iri", "http://例え.テスト/ä", "ä"),
     ("iri-reference", "ä/b", "\\\\x"), ("uri-template", "/a/{b}{?c*,d:3}", "/a/{b"), ("regex", "^a$", "(?=a)"),
     ("relative-json-pointer", "1/a", "/a"), ("url", "https://a.example", "a b")],
)  # fmt: skip
def test_further_formats_are_asserted(declared: str, good: Any, bad: Any):
    assert holds({"format": declared}, good)
    assert not holds({"format": declared}, bad)


def test_references_reach_what_the_document_holds():
    schema = {
        "$id": "https://example.org/root",
        "$defs": {
            "a": {"$anchor": "here", "type": "string"},
            "b": {"$id": "b", "$defs": {"c": {"type": "integer"}}, "$ref": "#/$defs/c"},
        },
        "properties": {"a": {"$ref": "#here"}, "b": {"$ref": "b"}, "c": {"anyOf": [{"$ref": "b#/$defs/c"}]}},
    }
    assert holds(schema, {"a": "x", "b": 1, "c": 1})
    assert [pointer for pointer, _ in violations(schema, {"a": 1, "b": "x", "c": "x"})] == ["/a", "/b", "/c"]


def test_a_lookup_leaves_the_process_never(monkeypatch: pytest.MonkeyPatch):
    def no_socket(*_: Any) -> None:
        raise AssertionError("a reference was fetched")

    monkeypatch.setattr("socket.socket.connect", no_socket)
    for reference in ("http://127.0.0.1:1/x", "https://example.org/x", "file:///etc/passwd", "urn:x", "//h/x"):
        with pytest.raises(SchemaRefused):
            lint_schema({"properties": {"a": {"$ref": reference}}})
        with pytest.raises(SchemaRefused):
            lint_schema({"$id": reference, "$ref": "#/$defs/missing"})
