"""scripts/setup_opa.sh: where OPA comes from, and that nothing unchecked is ever run."""

import functools
import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "setup_opa.sh"
TOOLS = ["bash", "cat", "chmod", "cp", "curl", "cut", "dirname", "env", "head", "mkdir", "mktemp", "mv", "printf",
         "readlink", "rm", "sed", "sha256sum", "shasum", "sort", "uname"]  # fmt: skip


def fake_opa(version: str) -> bytes:
    return f'#!/bin/sh\n[ "$1" = version ] && echo "Version: {version}"\n'.encode()


@dataclass
class Machine:
    """A machine with a PATH of its own, and a server that releases are fetched from."""

    folder: Path
    release: Path
    url: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def opa(self) -> Path:
        return self.folder / "tools" / "opa"

    def program(self, name: str, content: bytes) -> None:
        path = self.folder / "bin" / name
        path.write_bytes(content)
        path.chmod(0o755)

    def released(self, content: bytes, *, checksum_of: bytes | None = None) -> None:
        for platform in ("linux_amd64_static", "linux_arm64_static", "darwin_arm64_static"):
            (self.release / f"opa_{platform}").write_bytes(content)
        self.variables["OPA_SHA256"] = hashlib.sha256(checksum_of or content).hexdigest()

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", SCRIPT, self.opa.parent], capture_output=True, text=True, timeout=60, check=False,
            env={"PATH": str(self.folder / "bin"), "OPA_RELEASE_URL": self.url, **self.variables},
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    release = tmp_path / "release"
    release.mkdir()
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (tmp_path / "bin" / tool).symlink_to(found)
    handler = functools.partial(_Quiet, directory=str(release))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Machine(tmp_path, release, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_the_one_on_path_is_taken_when_new_enough(machine: Machine) -> None:
    machine.program("opa", fake_opa("1.23.0"))
    done = machine.run()
    assert (done.returncode, machine.opa.read_bytes()) == (0, fake_opa("1.23.0")), done.stderr
    assert "OPA 1.23.0 is in" in done.stdout


def test_one_that_is_there_stays(machine: Machine) -> None:
    machine.program("opa", fake_opa("1.30.0"))
    machine.opa.parent.mkdir()
    shutil.copy2(machine.folder / "bin" / "opa", machine.opa)
    machine.program("opa", fake_opa("1.40.0"))
    assert "OPA 1.30.0" in machine.run().stdout


@pytest.mark.parametrize("old", ["1.9.0", "1.21.9", "0.70.0", ""])
def test_an_old_one_is_not_taken(machine: Machine, old: str) -> None:
    machine.program("opa", fake_opa(old))
    machine.released(fake_opa("1.22.3"))
    assert machine.run().returncode == 0
    assert machine.opa.read_bytes() == fake_opa("1.22.3")


def test_go_builds_the_pinned_version(machine: Machine) -> None:
    machine.program(
        "go",
        b'#!/bin/sh\n[ "$1" = env ] && { echo go1.25.1; exit; }\necho "$@" > "$GOBIN/../asked"\n'
        b'printf \'#!/bin/sh\\necho "Version: 1.22.3"\\n\' > "$GOBIN/opa"\n',
    )
    done = machine.run()
    assert done.returncode == 0, done.stderr
    asked = (machine.opa.parent / "asked").read_text()
    assert asked == "install -ldflags -s -w github.com/open-policy-agent/opa@v1.22.3\n"
    assert [path.name for path in machine.opa.parent.iterdir() if path.name.startswith(".")] == []


def test_an_old_go_and_a_failing_build_lead_to_the_release(machine: Machine) -> None:
    machine.released(fake_opa("1.22.3"))
    for go in (b"#!/bin/sh\necho go1.24.9\n", b'#!/bin/sh\n[ "$1" = env ] && { echo go1.26; exit; }\nexit 1\n'):
        machine.program("go", go)
        done = machine.run()
        assert done.returncode == 0, done.stderr
        assert machine.opa.read_bytes() == fake_opa("1.22.3")
        machine.opa.unlink()


def test_without_curl_the_release_is_fetched_all_the_same(machine: Machine) -> None:
    (machine.folder / "bin" / "curl").unlink(missing_ok=True)
    machine.program("python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'.encode())
    machine.released(fake_opa("1.22.3"))
    assert machine.run().returncode == 0


def refused(machine: Machine) -> str:
    done = machine.run()
    assert done.returncode == 1
    assert not machine.opa.exists()
    assert [path.name for path in machine.opa.parent.iterdir()] == []
    lines = done.stderr.strip().splitlines()
    return lines[-1]


def test_a_release_with_another_checksum_never_runs(machine: Machine) -> None:
    trace = machine.folder / "ran"
    machine.released(f"#!/bin/sh\necho ran > {trace}\n".encode(), checksum_of=b"other")
    assert "the checksum of" in refused(machine)
    assert not trace.exists()


def test_a_release_whose_checksum_is_not_known_is_not_fetched(machine: Machine) -> None:
    machine.released(fake_opa("1.22.3"))
    del machine.variables["OPA_SHA256"]
    assert "no checksum is pinned" in refused(machine)


def test_no_release_is_said_in_one_sentence(machine: Machine) -> None:
    machine.variables["OPA_SHA256"] = "0" * 64
    message = refused(machine)
    assert "cannot be fetched" in message
    assert message.startswith("OPA is not there: put opa 1.22.0 or newer on PATH, or install Go")


def test_a_release_that_is_too_old_is_not_taken(machine: Machine) -> None:
    machine.released(fake_opa("1.2.0"))
    assert "does not run here" in refused(machine)
