"""The one folder that the embedded default lives in.

postgres/ the database · secrets/ passwords, the epoch key, OPA's token ·
keys/ signing keys and jwks.json · run/ what is true only while it runs ·
logs/, spans/ bounded files · skills/, agents/ yours to fill · config.yaml yours to edit.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryos_core.keys import KeySet, PrivateKey, Use

from memoryos_cli.exits import CliError, Exit

SERVICES: Final = ("memoryfs", "policy", "tool-gateway", "harness")
DEV_ISSUER: Final = "memoryos-dev"
TASK_ISSUER: Final = "memoryos-harness"
EPOCH_KEY_BYTES: Final = 32

CONFIG_FILE: Final = "run/config.yaml"
STATUS_FILE: Final = "run/status.json"
ADDRESSES_FILE: Final = "run/addresses.json"
LOCK_FILE: Final = "run/lock"
TEMPLATES: Final = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Names of everything in a data folder; `create` makes what is missing."""

    root: Path

    @property
    def postgres(self) -> Path:
        """Data folder of PostgreSQL."""
        return self.root / "postgres"

    @property
    def secrets(self) -> Path:
        """Secret files, mode 0600."""
        return self.root / "secrets"

    @property
    def keys(self) -> Path:
        """Signing keys, and jwks.json, which services trust."""
        return self.root / "keys"

    @property
    def run(self) -> Path:
        """Ports, addresses, status and the lock."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """One log file per child."""
        return self.root / "logs"

    @property
    def spans(self) -> Path:
        """Local span files."""
        return self.root / "spans"

    def file(self, name: str) -> Path:
        """Give the place of a known file by its name below the folder, e.g. STATUS_FILE."""
        return self.root / name

    def create(self) -> None:
        """Make folders, secrets and keys that are missing; what exists stays as it is.

        Raises CliError when the folder cannot be made or written.
        """
        try:
            for folder in (self.root, self.secrets, self.keys, self.run, self.logs, self.spans):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.root / "skills").mkdir(mode=0o700, exist_ok=True)
            if not (self.root / "agents").exists():  # one to begin with; who removes it keeps it removed
                (self.root / "agents").mkdir(mode=0o700)
                _create(self.root / "agents" / "assistant.yaml", _template("assistant.yaml"))
            _create(self.secrets / "epoch.key", secrets.token_hex(EPOCH_KEY_BYTES) + "\n")
            _create(self.root / "config.yaml", _template("config.yaml"))
            self._key("dev.pem", DEV_ISSUER, Use.SUBJECT)
            self._key("tasks.pem", TASK_ISSUER, Use.SUBJECT)
            for service in SERVICES:
                self._key(f"{service}.pem", service, Use.SERVICE)
        except OSError as error:
            raise CliError(
                f"cannot write the data folder {self.root}: {error.strerror}", hint="choose another with --data"
            ) from None

    def trust_keys(self, *, dev_issuer: bool) -> None:
        """Write the set of keys that services trust; the development issuer is in it only when asked for."""
        names = ["tasks.pem", *(f"{service}.pem" for service in SERVICES)]
        if dev_issuer:
            names.append("dev.pem")
        KeySet(PrivateKey.load(self.keys / name).public for name in names).save(self.keys / "jwks.json")

    def config_file(self) -> Path:
        """Give the effective configuration of the last start; CliError when nothing was ever started here."""
        found = self.file(CONFIG_FILE)
        if not found.exists():
            raise self._no_installation()
        return found

    def dev_key(self) -> Path:
        """Give the key of the development issuer; CliError when it is off or there is none."""
        key_file = self.keys / "dev.pem"
        try:
            kid = PrivateKey.load(key_file).kid
            trusted = KeySet.load(self.keys / "jwks.json").find(kid, Use.SUBJECT)
        except (OSError, ValueError, KeyError):
            raise self._no_installation() from None
        if trusted is None:
            raise CliError(
                "the development issuer is off here",
                hint="give a token of your own issuer with --token",
                exit_code=Exit.NOT_ALLOWED,
            )
        return key_file

    def _no_installation(self) -> CliError:
        return CliError(
            f"there is no installation in {self.root}",
            hint="start one with `mos up`, or give --data",
            exit_code=Exit.NOT_RUNNING,
        )

    def _key(self, name: str, issuer: str, use: Use) -> None:
        final = self.keys / name
        if final.exists():
            return
        fresh = final.with_name(f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
        PrivateKey.generate(issuer, use).save(fresh)
        _publish(fresh, final)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _create(file: Path, text: str) -> None:
    """Write a new file that its owner alone reads; an existing one stays."""
    if file.exists():
        return
    fresh = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    _publish(fresh, file)


def _publish(fresh: Path, final: Path) -> None:
    """Give a finished file its name, on disk, unless somebody was faster: half a key never has the name."""
    handle = os.open(fresh, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        os.link(fresh, final)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
