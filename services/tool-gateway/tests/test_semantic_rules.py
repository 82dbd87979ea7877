"""Rules between arguments, marks in parameters, and files of values."""

import json
from pathlib import Path
from typing import Any

import pytest
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.domain.marks import MarkOutOfReach, marked
from memoryos_toolgateway.errors import SkillFileInvalid

from .bench import skill_document

DATE = {"type": "string", "format": "date"}
PARAMETERS = {
    "type": "object",
    "properties": {
        "start": DATE,
        "end": DATE,
        "low": {"type": "number"},
        "high": {"type": "number"},
        "name": {"type": "string"},
        "countries": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
}


def load(folder: Path, *rules: dict[str, Any], **files: str) -> Any:
    (folder / "data").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "data" / f"{name}.txt").write_text(text)
    file = folder / "do.json"
    file.write_text(json.dumps(skill_document("do", "ok", parameters=PARAMETERS, rules=list(rules))))
    return load_skill(file, {"UPSTREAM": "127.0.0.1:1"})


def broken(skill: Any, **arguments: Any) -> list[tuple[str, str]]:
    return [(v.pointer, v.rule) for v in skill.schema.violations({"name": "x"} | arguments)]


def test_dates_and_numbers_have_an_order(tmp_path: Path):
    skill = load(tmp_path, {"order": ["/start", "/end"]}, {"order": ["/low", "/high"], "strict": True})
    assert not broken(skill, start="2026-01-01", end="2026-01-01", low=1, high=1.5)
    assert broken(skill, start="2026-01-02", end="2026-01-01") == [("/start", "order")]
    assert broken(skill, low=2**53 + 1, high=2**53 + 1) == [("/low", "order")]
    assert not broken(skill, start="2026-01-02")
    assert not broken(skill, low=2**53, high=2**53 + 1)


def test_a_span_has_an_end(tmp_path: Path):
    skill = load(tmp_path, {"span": ["/start", "/end"], "max": 31})
    assert not broken(skill, start="2026-01-01", end="2026-02-01")
    assert broken(skill, start="2026-01-01", end="2026-02-02") == [("/end", "span")]


def test_values_stand_in_a_file_which_is_part_of_the_definition(tmp_path: Path):
    rule = {"of": "/countries/*", "values": "data/countries.txt"}
    skill = load(tmp_path, rule, countries="# ISO\nCN\nDE\n")
    assert not broken(skill, countries=["CN", "DE"])
    found = skill.schema.violations({"name": "x", "countries": ["CN", "SECRET"]})
    assert [(v.pointer, v.rule) for v in found] == [("/countries/*", "values")]
    assert "SECRET" not in repr(found)
    assert load(tmp_path, rule, countries="CN\n").definition_digest != skill.definition_digest


@pytest.mark.parametrize(
    "rule",
    [
        {"order": ["/start"]},
        {"order": ["/start", "/missing"]},
        {"span": ["/start", "/end"]},
        {"of": "/name", "values": "../secret.txt"},
        {"of": "/name", "values": "data/missing.txt"},
        {"of": "/name", "values": "data/link.txt"},
        {"of": "/name", "values": "data/empty.txt"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_a_rule_that_cannot_hold_is_refused(tmp_path: Path, rule: dict[str, Any]):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.txt").symlink_to("/etc/hostname")
    with pytest.raises(SkillFileInvalid) as caught:
        load(tmp_path, rule, empty="# nothing\n")
    assert "/rules" in str(caught.value)


def test_marks_are_found_wherever_a_value_can_be():
    schema = {
        "type": "object",
        "properties": {
            "card": {"type": "string", "x-sensitive": True},
            "people": {"type": "array", "items": {"properties": {"mail": {"x-sensitive": True}}}},
            "keys": {"type": "array", "items": {"type": "string", "x-sensitive": True}},
            "shared": {"$ref": "#/$defs/secret"},
        },
        "anyOf": [{"properties": {"alias": {"x-sensitive": True}}}],
        "$defs": {"secret": {"properties": {"pin": {"x-sensitive": True}}}},
    }
    expected = ("/alias", "/card", "/keys/*", "/people/*/mail", "/shared/pin")
    assert marked(schema, "x-sensitive") == expected
    assert marked(schema, "x-recipient") == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"x-sensitive": True},
        {"additionalProperties": {"x-sensitive": True}},
        {"patternProperties": {"^x": {"x-sensitive": True}}},
        {"$defs": {"a": {"x-sensitive": True}}},
        {"properties": {"t": {"$ref": "#/$defs/t"}},
         "$defs": {"t": {"properties": {"s": {"x-sensitive": True}, "more": {"$ref": "#/$defs/t"}}}}},
    ],
    ids=str,
)  # fmt: skip
def test_a_mark_that_no_pointer_reaches_is_refused(schema: Any):
    with pytest.raises(MarkOutOfReach):
        marked(schema, "x-sensitive")
