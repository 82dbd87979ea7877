"""The data folder, its configuration and who may make tokens: without any service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from memoryos_cli import settings
from memoryos_cli.caller import Caller, Defaults
from memoryos_cli.datafolder import DataFolder
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import Output
from memoryos_cli.supervisor.database import ExternalDatabase
from memoryos_cli.supervisor.plan import CHILD_NAMES, PORT_NAMES, Plan, children
from memoryos_cli.supervisor.up import UpRequest, find_opa, run_up
from memoryos_core.clock import SystemClock
from memoryos_core.errors import TokenInvalid
from memoryos_core.keys import KeySet, Use
from memoryos_core.tokens import TokenVerifier
from memoryos_grpc.config import GrpcSection
from memoryos_postgres.config import PostgresSection

PORTS = dict(zip(PORT_NAMES, range(40001, 40001 + len(PORT_NAMES)), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "数据 folder")
    folder.create()
    folder.trust_keys(dev_issuer=True)
    return folder


def caller(folder: DataFolder, **more: object) -> Caller:
    defaults = Defaults(data=folder.root, user="u42", environ={}, arguments=())
    values: dict[str, object] = {
        "data": folder,
        "output": Output(as_json=True),
        "user": "u42",
        "tenant": "acme",
        "roles": (),
        "groups": (),
        "clearance": 0,
        "given_token": "",
        "defaults": defaults,
    }
    return Caller(**{**values, **more})  # type: ignore[arg-type]


def test_secrets_are_made_once_and_for_their_owner_only(folder: DataFolder) -> None:
    files = [folder.secrets / "epoch.key", *folder.keys.glob("*.pem")]
    before = {file: file.read_bytes() for file in files}
    assert len(files) == 7
    assert len(bytes.fromhex(before[files[0]].decode())) == 32
    folder.create()
    assert {file: file.read_bytes() for file in files} == before
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert folder.root.stat().st_mode & 0o777 == 0o700
    assert not [f for f in folder.root.rglob(".*") if f.is_file()], "no half-made file is left"


def test_a_kill_in_the_middle_leaves_no_half_key(tmp_path: Path) -> None:
    """Whoever is killed between writing a key and naming it: the next start makes a whole one."""
    code = (
        "import os, sys, pathlib\n"
        "from memoryos_cli import datafolder\n"
        "datafolder._publish = lambda fresh, final: os._exit(9)\n"
        "datafolder.DataFolder(pathlib.Path(sys.argv[1])).create()\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 9
    assert not (tmp_path / "secrets" / "epoch.key").exists()
    DataFolder(tmp_path).create()
    assert len((tmp_path / "secrets" / "epoch.key").read_text().strip()) == 64


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CliError, match="cannot write the data folder"):
        DataFolder(tmp_path / "file" / "data").create()


def test_a_made_token_verifies_and_says_who(folder: DataFolder) -> None:
    token = caller(folder, groups=("sales-east",), clearance=3).token(default_roles=("agent",))
    verifier = TokenVerifier(KeySet.load(folder.keys / "jwks.json"), "memoryfs", SystemClock())
    identity = verifier.subject(token)
    assert (identity.tenant, identity.user, identity.issuer) == ("acme", "u42", "memoryos-dev")
    assert (identity.roles, identity.groups, identity.clearance) == ({"agent"}, {"sales-east"}, 3)


def test_without_the_development_issuer_no_token_is_made_and_none_is_believed(folder: DataFolder) -> None:
    token = caller(folder).token(default_roles=("agent",))
    folder.trust_keys(dev_issuer=False)
    with pytest.raises(CliError, match="development issuer is off") as caught:
        caller(folder).token(default_roles=("agent",))
    assert caught.value.exit_code is Exit.NOT_ALLOWED
    verifier = TokenVerifier(KeySet.load(folder.keys / "jwks.json"), "memoryfs", SystemClock())
    with pytest.raises(TokenInvalid):
        verifier.subject(token)


def test_no_installation_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="there is no installation") as caught:
        caller(DataFolder(tmp_path)).token(default_roles=("agent",))
    assert caught.value.exit_code is Exit.NOT_RUNNING


@pytest.mark.parametrize("more", [{"user": "a b\n"}, {"roles": ("root",)}, {"tenant": ""}, {"groups": ("\ud800",)}])
def test_a_token_that_no_service_takes_is_not_made(folder: DataFolder, more: dict[str, object]) -> None:
    with pytest.raises(CliError) as caught:
        caller(folder, **more).token(default_roles=("agent",))
    assert caught.value.exit_code is Exit.USAGE


def test_configuration_layers(folder: DataFolder) -> None:
    (folder.root / "config.yaml").write_text("models: {chat_url: 'http://a/v1', chat_model: m}\ngrpc: {drain_s: 3}\n")
    base = settings.base_values(folder, PORTS, "127.0.0.1")
    overrides = ["models.chat_url=http://b/v1", "tool-gateway.endpoints={BUSINESS: '127.0.0.1:9'}"]
    values = settings.merged(base, folder.root / "config.yaml", overrides)
    assert values["models"] == {"chat_url": "http://b/v1", "chat_model": "m"}
    assert values["tool-gateway"]["endpoints"] == {"BUSINESS": "127.0.0.1:9"}
    assert values["tool-gateway"]["skill_dirs"] == [str(folder.root / "skills")]
    file = folder.root / "effective.yaml"
    file.write_text(settings.dump(values))
    assert yaml.safe_load(file.read_text()) == values
    config = settings.checked(file)
    assert config[GrpcSection].drain_s == 3
    assert config[PostgresSection].port == PORTS["postgres"]


@pytest.mark.parametrize("text", ["chat_url=x", "models.=x", "models.chat_url", "modells.chat_url=x", "models.x={"])
def test_a_setting_that_is_not_understood_is_refused(folder: DataFolder, text: str) -> None:
    with pytest.raises(CliError) as caught:
        settings.merged({}, folder.root / "config.yaml", [text])
    assert caught.value.exit_code is Exit.USAGE


@pytest.mark.parametrize("text", ["- a", "models: x", "{", "modells: {}", "\ud800x".encode("utf-8", "surrogatepass")])
def test_a_configuration_file_that_is_not_understood_is_refused(folder: DataFolder, text: str | bytes) -> None:
    file = folder.root / "config.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CliError) as caught:
        settings.merged({}, file, [])
    assert caught.value.exit_code is Exit.USAGE


def test_an_unknown_field_names_its_place(folder: DataFolder) -> None:
    file = folder.root / "config.yaml"
    values = settings.merged(settings.base_values(folder, PORTS, "h"), folder.root / "none", ["models.chat_ulr=x"])
    file.write_text(settings.dump(values))
    with pytest.raises(CliError, match=r"models\.chat_ulr"):
        settings.checked(file)


@pytest.mark.parametrize("dsn", ["", "nonsense", "postgresql:///db", "host='"])
def test_a_dsn_must_name_its_host(dsn: str) -> None:
    with pytest.raises(CliError) as caught:
        ExternalDatabase.parse(dsn)
    assert caught.value.exit_code is Exit.USAGE


def test_a_dsn_is_taken_apart_without_showing_it() -> None:
    found = ExternalDatabase.parse("postgresql://admin:s3cret@db.internal:6432/postgres")
    assert (found.host, found.port) == ("db.internal", 6432)
    assert "s3cret" not in repr(found)


async def test_an_unknown_child_cannot_be_left_out(folder: DataFolder) -> None:
    request = UpRequest(folder=folder, without=frozenset({"memoryf"}), environ={})
    with pytest.raises(CliError, match="memoryf"):
        await run_up(request, on_ready=lambda plan: None, say=lambda text: None)


def test_a_missing_opa_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="OPA is missing") as caught:
        find_opa(tmp_path / "opa")
    assert "make setup" in caught.value.hint


def test_children_get_their_own_keys_and_few_variables(folder: DataFolder) -> None:
    async def nothing() -> None:
        return

    environ = {**os.environ, "MEMORYOS_MODELS__CHAT_MODEL": "m", "MEMORYOS_CONFIG": "/elsewhere", "AWS_SECRET": "x"}
    plan = Plan(
        folder=folder,
        ports=PORTS,
        config_file=folder.file("run/config.yaml"),
        opa_binary=Path("opa"),
        bundle_dir="/rules",
        environ=environ,
        prepare_database=nothing,
        embedded=False,
    )
    specs = {spec.name: spec for spec in children(plan)}
    assert set(specs) == set(CHILD_NAMES) - {"postgres"}
    assert all("postgres" not in spec.needs for spec in specs.values())
    assert "--bundle-dir=/rules" in specs["opa"].argv()
    for name, spec in specs.items():
        environment = spec.environment
        assert "AWS_SECRET" not in environment
        assert environment.get("MEMORYOS_CONFIG") in (None, str(folder.file("run/config.yaml")))
        told = {Path(value).name for key, value in environment.items() if key.endswith("KEY_FILE")}
        own = {"harness-worker": {"harness.pem", "tasks.pem"}, "harness": {"harness.pem", "tasks.pem"}}
        assert told == own.get(name, {f"{name}.pem"} if (folder.keys / f"{name}.pem").exists() else set())
    assert specs["memoryfs"].environment["MEMORYOS_GRPC__PORT"] == str(PORTS["memoryfs"])
    assert KeySet.load(folder.keys / "jwks.json").find("none", Use.SERVICE) is None
