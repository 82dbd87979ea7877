"""Skill files: what is registered, and every way in which one is not (A4, V2, X2)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.app import registry_of
from memoryos_toolgateway.config import ToolGatewaySection
from memoryos_toolgateway.errors import SkillFileInvalid

from .bench import skill_document, write_skills

ENDPOINTS = {"UPSTREAM": "127.0.0.1:8700"}


def load(folder: Path, **changes: Any) -> Any:
    file = folder / "skill.yaml"
    file.write_text(yaml.safe_dump(skill_document("do", "ok") | changes, allow_unicode=True))
    return load_skill(file, ENDPOINTS)


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(SkillFileInvalid) as caught:
        load(folder, **changes)
    return str(caught.value)


def test_a_skill_is_read_as_its_file_says(tmp_path: Path):
    skill = load(tmp_path, permissions=["network", "readonly"], timeout_s=3)
    assert (skill.name, skill.effect_class, skill.permissions) == ("do", "non_idempotent", ("network", "readonly"))
    assert skill.connector.request.endpoint == "127.0.0.1:8700"
    assert skill.timeout_s == 3


def test_the_digest_names_the_definition_and_not_the_port_or_the_spelling(tmp_path: Path):
    first = load(tmp_path)
    as_json = tmp_path / "skill.json"
    as_json.write_text(json.dumps(skill_document("do", "ok"), indent=3))
    assert load_skill(as_json, {"UPSTREAM": "127.0.0.1:9"}).definition_digest == first.definition_digest
    for changes in ({"description": "Other."}, {"version": "2"}, {"risk": "high"}, {"timeout_s": 2}):
        assert load(tmp_path, **changes).definition_digest != first.definition_digest


@pytest.mark.parametrize(
    ("one", "other"), [("search", "search"), ("Search", "search"), ("a__b", "a.b"), ("a-b", "a_b"), ("x.Y", "X__y")]
)
def test_names_that_can_be_mixed_up_are_an_error_that_names_both_files(tmp_path: Path, one: str, other: str):
    for folder, name in (("a", one), ("b", other)):
        write_skills(tmp_path / folder, skill_document(name, "ok"))
    with pytest.raises(SkillFileInvalid) as caught:
        load_registry([tmp_path / "a", tmp_path / "b"], ENDPOINTS)
    assert f"{tmp_path}/a/{one}.yaml" in str(caught.value)
    assert f"{tmp_path}/b/{other}.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "../x", "x/../../policies/p", "a?explain=full#", "a\n", "dеl", "ｄo", "a\u200b", "a\u202e",
     "__a", "a__", "a..b", "a___b", "1a", "工具", "a" * 65, ".a"],
    ids=ascii,
)  # fmt: skip
def test_names_are_plain(tmp_path: Path, name: str):
    refused(tmp_path, name=name)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"effect_class": "harmless"}, "/effect_class"),
        ({"risk": None}, "/risk"),
        ({"surprise": 1}, "/surprise"),
        ({"timeout_s": 0}, "/timeout_s"),
        ({"timeout_s": 601}, "/timeout_s"),
        ({"version": 1}, "/version"),
        ({"permissions": ["Read Only"]}, "/permissions/0"),
        ({"parameters": {"type": "array"}}, "/parameters"),
        ({"parameters": {"type": "object", "properties": {"name": {"$ref": "file:///etc/passwd"}}}}, "/parameters"),
        ({"resource": {"type": "t", "id": "/missing"}}, "/resource/id"),
        ({"resource": {"type": "t", "id": "name"}}, "/resource/id"),
        ({"sensitive_results": ["x"]}, "/sensitive_results/0"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, Any], expected: str):
    assert expected in refused(tmp_path, **changes)


def connector(**changes: Any) -> dict[str, Any]:
    return {"connector": skill_document("do", "ok")["connector"] | changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoint": "example.org"},
        {"endpoint": "http://example.org:80"},
        {"endpoint": "user@example.org:80"},
        {"endpoint": "example.org:0"},
        {"endpoint": "example.org:99999"},
        {"endpoint": "${OTHER}"},
        {"endpoint": "example.org:80/x"},
        {"endpoint": "{name}:80"},
        {"method": "TRACE"},
        {"path": "/x/../{name}"},
        {"path": "/x/{name"},
        {"path": "/x/{}"},
        {"path": "/x?y={name}"},
        {"path": "//evil/{missing}"},
        {"path": "/x/{amount}"},  # a number, and not required
        {"query": {"q": "/missing"}},
        {"body": {"a": "/missing"}},
        {"type": "command"},
        {"idempotency_header": "Host"},
        {"idempotency_header": "authorization"},
        {"idempotency_header": "X: y"},
        {"scheme": "file"},
        {"redirects": True},
    ],
    ids=str,
)
def test_a_request_template_leads_nowhere_else(tmp_path: Path, changes: dict[str, Any]):
    assert "/connector" in refused(tmp_path, **connector(**changes))


def test_keyed_needs_a_header_for_the_key(tmp_path: Path):
    document = skill_document("do", "ok", "keyed")
    del document["connector"]["idempotency_header"]
    assert "idempotency_header" in refused(tmp_path, **document)


def test_builtin_skills_say_what_they_do(tmp_path: Path):
    assert "/effect_class" in refused(tmp_path, connector={"type": "builtin", "operation": "memory.write"})
    assert "/connector/operation" in refused(tmp_path, connector={"type": "builtin", "operation": "shell"})


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2",
        "a: &x 1\nb: *x",
        "<<: {a: 1}",
        "a: !!python/object:os.system x",
        "a: !!binary aGk=",
        "? [1]\n: 2",
        "1: 2",
        "- 1",
        "a: [",
        "\t",
        "a: .inf",
        "x: " + "[" * 5000,
    ],
    ids=lambda text: text[:20],
)
def test_yaml_is_json_or_nothing(tmp_path: Path, text: str):
    file = tmp_path / "skill.yaml"
    file.write_text(text)
    with pytest.raises(SkillFileInvalid):
        load_skill(file, {})


def test_yaml_words_stay_words(tmp_path: Path):
    """`no`, dates and octal numbers are strings here: two readers of the file see the same."""
    file = tmp_path / "skill.yaml"
    text = yaml.safe_dump(skill_document("do", "ok")) + "permissions: [no]\nversion: 2026-01-01\n"
    file.write_text(text.replace("version: '1'\n", ""))
    skill = load_skill(file, ENDPOINTS)
    assert (skill.permissions, skill.version) == (("no",), "2026-01-01")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b'{"a":1,"a":2}', b'{"a":NaN}', b"", b"{" * 5000, b"x" * 300_000])
def test_json_is_strict(tmp_path: Path, raw: bytes):
    file = tmp_path / "skill.json"
    file.write_bytes(raw)
    with pytest.raises(SkillFileInvalid):
        load_skill(file, {})


def test_a_missing_folder_stops_the_start(tmp_path: Path):
    with pytest.raises(SkillFileInvalid):
        load_registry([tmp_path / "nothing"], {})


def test_the_built_in_skills_are_there(tmp_path: Path):
    registry = registry_of(ToolGatewaySection())
    assert [skill.name for skill in registry.all()] == ["memory.read", "memory.write"]
    assert registry_of(ToolGatewaySection(builtin_skills=False)).all() == ()


def test_the_demo_skills_are_registered():
    folder = Path(__file__).parents[3] / "deploy" / "demo" / "skills"
    endpoints = {"BUSINESS": "127.0.0.1:8700", "MAIL": "127.0.0.1:8025"}
    registry = registry_of(ToolGatewaySection(skill_dirs=(folder,), endpoints=endpoints))
    skill = registry.get("refund.create")
    assert skill is not None
    assert skill.opened
    assert not [found.skill.name for found in registry.found() if found.quarantined]
