"""What skills need of the configuration is found missing when the gateway starts, not when somebody calls."""

from pathlib import Path
from typing import Any

import pytest
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.adapters.skill_needs import check_needs
from memoryos_toolgateway.config import ToolGatewaySection
from memoryos_toolgateway.errors import SkillFileInvalid
from pydantic import ValidationError

from .bench import skill_document, write_skills
from .edges import edge_of, sender_of
from .test_network_guard import ssrf_urls


def check(
    folder: Path, networks: tuple[str, ...] = ("127.0.0.0/8",), secrets: dict[str, Path] | None = None, **more: Any
):
    document = skill_document("do", "ok", "read")
    document["connector"] |= more
    write_skills(folder / "skills", document)
    registry = load_registry([folder / "skills"], {"UPSTREAM": "127.0.0.1:8700"})
    edge = edge_of(sender_of(networks), secrets)
    check_needs(registry, edge.sender.guard, edge.secrets, edge.exchanges)


def test_what_is_there_is_enough(tmp_path: Path):
    (tmp_path / "key").write_text("s")
    check(tmp_path)
    check(tmp_path, secrets={"K": tmp_path / "key"}, identity="service", headers={"authorization": "${secret:K}"})
    check(tmp_path, (), endpoint="public.example.org:443")


@pytest.mark.parametrize(
    ("networks", "more", "where"),
    [
        ((), {}, "/connector/endpoint"),
        (("127.0.0.1:8701",), {}, "/connector/endpoint"),
        ((), {"endpoint": "10.0.0.1:80"}, "/connector/endpoint"),
        ((), {"endpoint": "localhost:80"}, "/connector/endpoint"),
        ((), {"endpoint": "[::1]:80"}, "/connector/endpoint"),
        (("127.0.0.0/8",), {"identity": "service", "headers": {"x": "${secret:NONE}"}}, "/connector"),
        (("127.0.0.0/8",), {"identity": "user", "exchange": {"server": "none"}}, "/connector/exchange/server"),
    ],
    ids=str,
)
def test_what_is_missing_stops_the_start(tmp_path: Path, networks: tuple[str, ...], more: dict[str, Any], where: str):
    with pytest.raises(SkillFileInvalid) as caught:
        check(tmp_path, networks, **more)
    assert where in str(caught.value)
    assert "do.yaml" in str(caught.value)


def test_a_secret_that_cannot_be_read_stops_it_and_is_not_shown(tmp_path: Path):
    file = tmp_path / "key"
    for content in ("", "two\nlines sk-1"):
        file.write_text(content)
        with pytest.raises(SkillFileInvalid) as caught:
            check(tmp_path, secrets={"K": file}, identity="service", headers={"x": "${secret:K}"})
        assert "sk-1" not in str(caught.value)


def test_no_ssrf_form_is_accepted_as_a_network():
    """What lists networks is written by operators, and still no form is read as another."""
    for url in ssrf_urls():
        with pytest.raises(ValidationError):
            ToolGatewaySection(networks=(url,))


def test_the_lock_and_the_digest_hold_no_secret(tmp_path: Path):
    (tmp_path / "key").write_text("sk-1")
    check(tmp_path, secrets={"K": tmp_path / "key"}, identity="service", headers={"authorization": "${secret:K}"})
    assert "sk-1" not in (tmp_path / "skills" / "skills.lock").read_text()
    assert "sk-1" not in repr(load_skill(tmp_path / "skills" / "do.yaml", {"UPSTREAM": "h.example.org:1"}))
