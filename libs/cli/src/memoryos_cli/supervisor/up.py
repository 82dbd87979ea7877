"""What `mos up` does between taking the folder's lock and letting it go."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memoryos_core.errors import MemoryOSError
from memoryos_postgres.config import PostgresSection
from memoryos_postgres.migrate import MigrationRefused

from memoryos_cli import settings
from memoryos_cli.datafolder import (
    ADDRESSES_FILE,
    CONFIG_FILE,
    LOCK_FILE,
    SERVICES,
    STATUS_FILE,
    DataFolder,
)
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.supervisor.database import ExternalDatabase, embedded_admin_dsn, prepare_database
from memoryos_cli.supervisor.files import write_json, write_whole
from memoryos_cli.supervisor.leftovers import LeftoverProcess, settle
from memoryos_cli.supervisor.lock import AlreadyRunning, FolderLock
from memoryos_cli.supervisor.plan import CHILD_NAMES, PORT_NAMES, Plan, children
from memoryos_cli.supervisor.ports import HOST, choose_ports
from memoryos_cli.supervisor.supervisor import StartFailed, Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest:
    """What was asked for on the command line."""

    folder: DataFolder
    overrides: Sequence[str] = ()
    config_file: Path | None = None
    dsn: str = ""
    dev_issuer: bool = False
    opa: Path | None = None
    without: frozenset[str] = frozenset()
    environ: Mapping[str, str]


async def run_up(request: UpRequest, *, on_ready: Callable[[Plan], None], say: Callable[[str], None]) -> None:
    """Run everything until SIGINT or SIGTERM; `on_ready` is called once all serves.

    Raises CliError when it runs already, cannot start, or a child never serves;
    all children have ended then.
    """
    if unknown := sorted(request.without - set(CHILD_NAMES)):
        raise CliError(f"--without {unknown[0]}: known are {', '.join(CHILD_NAMES)}", exit_code=Exit.USAGE)
    if request.config_file is not None and not request.config_file.exists():
        raise CliError(f"--config {request.config_file}: there is no such file", exit_code=Exit.USAGE)
    stop = _stop_on_signals()
    request.folder.create()
    lock = FolderLock(request.folder.file(LOCK_FILE))
    try:
        lock.take()
    except AlreadyRunning as error:
        hint = "`mos status` shows it, `mos down` stops it"
        raise CliError(
            f"{error} ({request.folder.root})", hint=hint, exit_code=Exit.CONFLICT, reason="ALREADY_RUNNING"
        ) from None
    try:
        request.folder.file(ADDRESSES_FILE).unlink(missing_ok=True)  # of a run that was killed
        await settle(request.folder.file(STATUS_FILE), None if request.dsn else request.folder.postgres)
        plan = await _plan(request, say)
        await _supervise(plan, stop, on_ready)
    except LeftoverProcess as error:
        raise CliError(str(error), hint="end it, then start again") from None
    finally:
        request.folder.file(ADDRESSES_FILE).unlink(missing_ok=True)
        lock.release()


def find_opa(given: Path | None) -> Path:
    """Give the OPA binary: the one named, the one `make setup` put beside the environment, or that of the PATH."""
    beside = Path(sys.prefix).parent / ".tools" / "bin" / "opa"
    found = given or (beside if beside.exists() else None) or (Path(p) if (p := shutil.which("opa")) else None)
    if found is None or not found.exists():
        raise CliError(
            "OPA is missing", hint="`make setup` installs it; or name the binary with --opa", reason="OPA_MISSING"
        )
    return found.absolute()


async def _plan(request: UpRequest, say: Callable[[str], None]) -> Plan:
    """Choose ports, write the configuration and check it; prepare the database where it is not our child."""
    folder = request.folder
    opa_binary = find_opa(request.opa)
    external = ExternalDatabase.parse(request.dsn) if request.dsn else None
    ports = choose_ports(folder.file("run/ports.json"), PORT_NAMES)
    values = settings.base_values(folder, ports, HOST)
    values["policy"] |= {"opa_binary": str(opa_binary)}
    if "harness-worker" in request.without:  # whom nobody but the worker must reach, MemoryFS does not look for
        values["peers"] = {
            name: at for name, at in values["peers"].items() if name.replace("_", "-") not in request.without
        }
    if external is not None:
        values["postgres"] |= {"host": external.host, "port": external.port}
    values = settings.merged(values, request.config_file or folder.file("config.yaml"), request.overrides)
    config_file = folder.file(CONFIG_FILE)
    write_whole(config_file, settings.dump(values))
    config = settings.checked(config_file)
    section = config[PostgresSection]
    folder.trust_keys(dev_issuer=external is None or request.dev_issuer)

    async def prepare() -> None:
        dsn = external.admin_dsn if external else embedded_admin_dsn(folder, ports["postgres"])
        for name in await prepare_database(dsn, section):
            say(f"migration {name} applied")

    if external is not None:
        try:
            await prepare()
        except (MemoryOSError, MigrationRefused) as error:
            raise CliError(f"the database of --dsn cannot be prepared: {error}", exit_code=Exit.NOT_RUNNING) from None
    without = request.without
    if not _has_chat_model(values, request.environ):
        without |= {"harness-worker"}
    return Plan(
        folder=folder,
        ports=ports,
        config_file=config_file,
        opa_binary=opa_binary,
        bundle_dir=config.effective()["policy"]["bundle_dir"] or "",
        environ=request.environ,
        prepare_database=prepare,
        embedded=external is None,
        without=without,
    )


def _has_chat_model(values: settings.Values, environ: Mapping[str, str]) -> bool:
    return bool(values.get("models", {}).get("chat_url") or environ.get("MEMORYOS_MODELS__CHAT_URL"))


async def _supervise(plan: Plan, stop: asyncio.Event, on_ready: Callable[[Plan], None]) -> None:
    supervisor = Supervisor(children(plan), status_file=plan.folder.file(STATUS_FILE))
    ready = asyncio.Event()
    running = asyncio.create_task(supervisor.run(stop, ready))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if ready.is_set():
            write_json(plan.folder.file(ADDRESSES_FILE), addresses(plan))
            on_ready(plan)
        await running
    except StartFailed as error:
        raise CliError(str(error), hint="`mos logs` shows more", reason="START_FAILED") from None
    finally:
        waiting.cancel()


def addresses(plan: Plan) -> dict[str, str]:
    """Give the addresses of the services as memoryos_sdk.connect takes them."""
    return {name.replace("-", "_"): f"{HOST}:{plan.ports[name]}" for name in SERVICES if name not in plan.without}


def _stop_on_signals() -> asyncio.Event:
    """Give an event that SIGINT and SIGTERM set; repeats change nothing, the drain goes on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop
