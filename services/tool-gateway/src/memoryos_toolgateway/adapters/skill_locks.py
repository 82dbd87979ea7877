"""skills.lock on disk: read whole, written whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryos_toolgateway.domain.skill_lock import LOCK_BYTES_MAX, LOCK_FILE, LockInvalid, Pin, format_lock, parse_lock
from memoryos_toolgateway.errors import SkillFileInvalid


def read_lock(folder: Path) -> dict[str, Pin]:
    """Give the pins of a folder, none where it has no lock; SkillFileInvalid for one that cannot be trusted."""
    file = folder / LOCK_FILE
    try:
        with file.open("rb") as stream:
            return parse_lock(stream.read(LOCK_BYTES_MAX + 1))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SkillFileInvalid(str(file), "", f"cannot be read: {error.strerror}") from None
    except LockInvalid as error:
        raise SkillFileInvalid(str(file), "", str(error)) from None


def pin_skill(folder: Path, name: str, pin: Pin) -> None:
    """Write one pin into the folder's lock; those of others stay, also when two persons accept at once.

    A reader, or a machine that stops, finds the old lock or the new one.
    """
    with _alone(folder):
        text = format_lock(read_lock(folder) | {name: pin})
        fresh = folder / f".{LOCK_FILE}.{os.getpid()}"
        with fresh.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(folder / LOCK_FILE)
        _sync(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
