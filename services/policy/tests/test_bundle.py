"""The bundle itself: checked, tested by OPA with full coverage, named by its content."""

import json
import shutil
import subprocess
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from memoryos_core.clock import ManualClock
from memoryos_policy.bundles import (
    BundleInvalid,
    build_bundle,
    default_authz_dir,
    default_bundle_dir,
    read_files,
    revision_of,
    skill_names,
)
from memoryos_policy.opa import OpaSetup, ensure_token, prepare
from memoryos_testing.opa import opa_binary

SOURCES = [default_bundle_dir(), default_authz_dir()]
DEMO_SKILLS = {
    "mes.takt_time", "ticket.get", "ticket.delete", "crm.customer", "refund.create", "mail.send", "group.notify",
    "memory.read", "memory.write",
}  # fmt: skip


def opa(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([opa_binary(), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("source", SOURCES, ids=["bundle", "authz"])
def test_the_rules_pass_the_strict_check_and_are_formatted(source: Path) -> None:
    checked = opa("check", "--strict", source)
    assert checked.returncode == 0, checked.stderr
    assert opa("fmt", "--list", source).stdout == ""


@pytest.mark.parametrize("source", SOURCES, ids=["bundle", "authz"])
def test_the_tests_of_the_rules_pass_and_cover_every_line(source: Path) -> None:
    plain = opa("test", "--format", "json", source)
    results = json.loads(plain.stdout)
    assert results
    assert not [one["name"] for one in results if one.get("fail") or one.get("error")]
    covered = opa("test", "--coverage", "--threshold", "100", source)
    assert covered.returncode == 0, covered.stdout[-2000:]


def test_every_rule_file_has_its_tests_beside_it_and_lies_in_the_folder_of_its_package() -> None:
    for source in SOURCES:
        for path in source.rglob("*.rego"):
            if path.name.endswith("_test.rego"):
                continue
            assert path.with_name(f"{path.stem}_test.rego").is_file(), path
            package = next(line for line in path.read_text().splitlines() if line.startswith("package "))
            parts = package.removeprefix("package ").replace('["', ".").replace('"]', "")
            assert path.parent.relative_to(source).as_posix().replace("/", ".") == parts


def test_every_skill_of_the_demo_has_rules() -> None:
    assert skill_names(default_bundle_dir()) >= DEMO_SKILLS


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    shutil.copytree(default_bundle_dir(), folder)
    return folder


def test_the_same_content_is_the_same_archive(source: Path, tmp_path: Path) -> None:
    first = build_bundle(source, tmp_path / "a")
    second = build_bundle(default_bundle_dir(), tmp_path / "b")
    assert first.revision == second.revision
    assert first.path.read_bytes() == second.path.read_bytes()
    with tarfile.open(first.path) as tar:
        names = tar.getnames()
        manifest = json.loads(tar.extractfile(".manifest").read())  # type: ignore[union-attr]
    assert manifest == {"revision": first.revision, "roots": ["memoryos"], "rego_version": 1}
    assert not [name for name in names if name.endswith("_test.rego")]


def test_what_decides_changes_the_revision_and_nothing_else_does(source: Path) -> None:
    before = revision_of(read_files(source))
    (source / "memoryos" / "main" / "main_test.rego").write_text("package memoryos.main_test\n")
    assert revision_of(read_files(source)) == before
    limits = source / "memoryos" / "limits" / "data.json"
    limits.write_text(limits.read_text().replace("500", "501", 1))
    after_data = revision_of(read_files(source))
    assert after_data != before
    moved = source / "memoryos" / "limit"
    limits.parent.rename(moved)
    assert revision_of(read_files(source)) != after_data


@pytest.mark.parametrize("name", ["memoryos/notes.txt", "memoryos/.manifest", "system/authz/authz.rego", "top.rego"])
def test_a_file_that_opa_would_ignore_or_that_is_not_ours_is_refused(source: Path, name: str) -> None:
    (source / name).parent.mkdir(parents=True, exist_ok=True)
    (source / name).write_text("package x\n")
    with pytest.raises(BundleInvalid, match=name.rsplit("/", 1)[-1]):
        read_files(source)


def test_links_are_not_followed(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "data.json").write_text("{}")
    link = source / "memoryos" / "linked"
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(BundleInvalid, match="linked"):
        read_files(source)
    link.unlink()
    (source / "memoryos" / "main" / "data.json").symlink_to(tmp_path / "secret" / "data.json")
    with pytest.raises(BundleInvalid, match=r"data\.json"):
        read_files(source)


def test_an_empty_folder_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleInvalid):
        read_files(tmp_path)


def test_the_token_is_in_no_argument_and_in_no_file_of_opas(tmp_path: Path) -> None:
    setup = OpaSetup(
        binary=opa_binary(),
        run_dir=tmp_path / "run",
        token_file=tmp_path / "token",
        port=1,
        bundle_dir=default_bundle_dir(),
    )
    arguments = prepare(setup, ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    token = (tmp_path / "token").read_text()
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert ensure_token(tmp_path / "token") == token
    assert token not in " ".join(arguments)
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or token.encode() not in path.read_bytes()
    assert "--addr=127.0.0.1:1" in arguments
    assert {"--authentication=token", "--authorization=basic", "--skip-version-check"} <= set(arguments)
