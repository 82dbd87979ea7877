from pathlib import Path
from typing import ClassVar

import pytest
from memoryos_core.config import Config, ConfigError, ConfigPath, SecretFile, Section, load


class Grpc(Section):
    """Test section."""

    section: ClassVar[str] = "grpc"
    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()


class Gateway(Section):
    """Test section."""

    section: ClassVar[str] = "tool-gateway"
    key_file: ConfigPath = Path("/x")


def load_text(tmp_path, text, environ=None, known=()) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load([Grpc, Gateway], file=file, environ=environ or {}, known=known)


def test_environment_overrides_file_overrides_default(tmp_path):
    config = load_text(
        tmp_path,
        "grpc: {port: 7, host: h}\n",
        {
            "MEMORYOS_GRPC__PORT": "8",
            "MEMORYOS_TOOL_GATEWAY__KEY_FILE": "/k",
            "MEMORYOS_GRPC__NAMES": "[a, b]",
            "HOME": "/h",
        },
    )
    assert config[Grpc] == Grpc(host="h", port=8, names=("a", "b"))
    assert config[Gateway].key_file == Path("/k")


@pytest.mark.parametrize(
    ("text", "environ", "named"),
    [
        ("gprc: {port: 1}\n", {}, "gprc"),
        ("grpc: {prot: 1}\n", {}, "prot"),
        ("grpc: {port: one}\n", {}, "grpc.port"),
        ("- a\n", {}, "top level"),
        ("grpc: {port: [\n", {}, "no YAML"),
        ("", {"MEMORYOS_GPRC__PORT": "1"}, "MEMORYOS_GPRC__PORT"),
        ("", {"MEMORYOS_GRPC__PROT": "1"}, "prot"),
        ("", {"MEMORYOS_GRPC": "1"}, "MEMORYOS_GRPC"),
    ],
)
def test_a_wrong_key_is_an_error_that_names_it(tmp_path, text, environ, named):
    with pytest.raises(ConfigError, match=named):
        load_text(tmp_path, text, environ)


def test_sections_of_other_processes_are_left_alone_when_known(tmp_path):
    assert load_text(tmp_path, "policy: {x: 1}\n", {"MEMORYOS_POLICY__X": "2"}, known=["policy"])[Grpc].port == 0


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load([Grpc], file=tmp_path / "none.yaml", environ={})


def test_a_secret_is_read_from_its_file_and_never_shown(tmp_path):
    (tmp_path / "s").write_text("hunter2\n")
    secret = SecretFile(tmp_path / "s")
    assert secret.read() == "hunter2"
    assert "hunter2" not in repr(secret)
    (tmp_path / "s").write_text("\n")
    for path in (tmp_path / "s", tmp_path / "none"):
        with pytest.raises(ConfigError):
            SecretFile(path).read()


def test_a_secret_file_is_given_as_a_path_and_shown_as_one(tmp_path: Path) -> None:
    class Keyed(Section):
        section: ClassVar[str] = "keyed"
        key_file: SecretFile

    (tmp_path / "s").write_text("canary")
    config = load([Keyed], file=None, environ={"MEMORYOS_KEYED__KEY_FILE": str(tmp_path / "s")})
    assert config[Keyed].key_file.read() == "canary"
    assert config.effective() == {"keyed": {"key_file": str(tmp_path / "s")}}
