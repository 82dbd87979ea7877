"""`mos up` as a whole: everything serves, comes back, leaves no orphan and loses nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from memoryos_postgres.embedded import EmbeddedPostgres

from .conftest import CHILDREN, Deployment, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PATH = "/tenants/acme/memory/episodic"


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def test_every_child_serves_and_is_shown(deployment: Deployment) -> None:
    children = deployment.json("status")["children"]
    assert {c["name"]: c["state"] for c in children} == dict.fromkeys(CHILDREN, "ready")
    assert all(c["address"].startswith("127.0.0.1:") for c in children if c["address"])
    shown = deployment.mos("status").stdout
    assert all(name in shown for name in CHILDREN)


def test_secrets_are_for_their_owner_only(deployment: Deployment) -> None:
    assert deployment.data.stat().st_mode & 0o077 == 0
    for file in [*deployment.data.glob("secrets/*"), *deployment.data.glob("keys/*.pem")]:
        assert file.stat().st_mode & 0o077 == 0, file
    secrets = [f.read_text().strip() for f in deployment.data.glob("secrets/*")]
    shown = deployment.mos("config").stdout + deployment.mos("status", "--json").stdout
    arguments = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in deployment.pids())
    for secret in secrets:
        assert secret not in shown
        assert secret.encode() not in arguments


def test_a_second_instance_is_refused_and_nobody_is_harmed(deployment: Deployment) -> None:
    before = deployment.pids()
    done = deployment.mos("up")
    assert done.returncode == 5
    assert "ALREADY_RUNNING" in done.stderr
    assert "mos status" in done.stderr
    assert alive({c["pid"] for c in deployment.status()["children"]}) <= before
    assert deployment.mos("status").returncode == 0


@pytest.mark.parametrize("name", sorted(CHILDREN))
def test_a_killed_child_comes_back(deployment: Deployment, name: str) -> None:
    before = deployment.child(name)
    os.kill(before["pid"], signal.SIGKILL)
    after = until(
        lambda: (now := deployment.child(name))["state"] == "ready" and now["pid"] not in (0, before["pid"]) and now
    )
    assert after["restarts"] >= before["restarts"] + 1
    assert after["last_exit"] == "SIGKILL"
    assert after["address"] == before["address"]
    # Whoever was killed: the others still serve, or do again by themselves.
    assert deployment.json("mem", "write", PATH, f"after {name}")["id"].startswith("mem_")


def test_kill_9_of_the_supervisor_leaves_no_orphan_and_loses_nothing(deployment: Deployment) -> None:
    written = [deployment.json("mem", "write", PATH, f"记住 {n}: WR-{n}")["id"] for n in range(3)]
    pids = deployment.pids()
    assert len(pids) >= len(CHILDREN)
    assert deployment.process is not None
    deployment.process.kill()
    deployment.process.wait()
    until(lambda: not alive(pids), 20)
    done = deployment.mos("status")
    assert done.returncode == 6
    deployment.up()
    for item in written:
        assert deployment.json("mem", "get", item)["id"] == item
    assert deployment.json("mem", "read", PATH, "WR-1")["hits"][0]["item"]["id"] == written[1]


def test_down_drains_and_a_later_start_has_the_same_addresses(deployment: Deployment) -> None:
    before = {c["name"]: c["address"] for c in deployment.status()["children"]}
    pids = deployment.pids()
    done = deployment.mos("down")
    assert (done.returncode, done.stdout.strip()) == (0, "stopped")
    assert deployment.process is not None
    assert deployment.process.wait(20) == 0
    assert not alive(pids)
    assert not (deployment.data / "run" / "addresses.json").exists()
    assert deployment.mos("down").returncode == 6
    deployment.up()
    assert {c["name"]: c["address"] for c in deployment.status()["children"]} == before


def test_detach_returns_when_everything_serves_and_tells_why_not(tmp_path: Path) -> None:
    other = Deployment(tmp_path / "data")
    without = [
        part for name in CHILDREN - {"postgres", "audit-sealer", "memoryfs-upkeep"} for part in ("--without", name)
    ]
    started = other.mos("up", "--detach", "--data", str(other.data), *without)
    assert started.returncode == 0, started.stderr
    assert "Memory OS runs" in started.stdout
    try:
        again = other.mos("up", "--detach")
        assert again.returncode == 5
        assert "ALREADY_RUNNING" in again.stderr
        assert other.json("audit", "list") == []
        assert other.mos("migrate").stdout.strip() == "nothing to apply"
    finally:
        assert other.mos("down").returncode == 0
    wrong = other.mos("up", "--detach", "--set", "telemetry.otlp=x")
    assert wrong.returncode == 2
    assert "telemetry.otlp" in wrong.stderr


def test_your_own_postgresql_by_dsn_without_the_development_issuer(tmp_path: Path) -> None:
    without = [
        part
        for name in CHILDREN - {"postgres", "memoryfs", "audit-sealer", "memoryfs-upkeep"}
        for part in ("--without", name)
    ]
    other = Deployment(tmp_path / "data")
    with EmbeddedPostgres(tmp_path / "own") as server:
        started = other.mos("up", "--detach", "--dsn", server.admin_dsn(), *without)
        assert started.returncode == 0, started.stderr
        assert "postgres" not in {c["name"] for c in other.status()["children"]}
        off = other.mos("token")
        assert (off.returncode, "development issuer is off" in off.stderr) == (4, True)
        assert other.mos("down").returncode == 0
        started = other.mos("up", "--detach", "--dev-issuer", "--dsn", server.admin_dsn(), *without)
        assert started.returncode == 0, started.stderr
        item = other.json("mem", "write", PATH, "在别处的数据库里")["id"]
        assert other.json("mem", "get", item)["content"] == "在别处的数据库里"
        assert not (other.data / "postgres").exists()
        password = server.admin_dsn().split(":")[2].split("@")[0]
        kept = b"".join(f.read_bytes() for f in other.data.rglob("*") if f.is_file())
        assert password.encode() not in kept
        assert other.mos("down").returncode == 0
    gone = other.mos("up", "--detach", "--dsn", server.admin_dsn(), *without)
    assert gone.returncode == 6
    assert password not in gone.stderr
