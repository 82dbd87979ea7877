"""Secret files: one value per file, readable by its owner only."""

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path


class SecretFileUnsafe(RuntimeError):
    """A secret file is empty, or others than its owner can read it."""


def _random() -> str:
    return secrets.token_urlsafe(24)


def ensure_secret(path: Path, *, make: Callable[[], str] = _random) -> str:
    """Give back the secret in `path`, made (192 random bits unless `make` says otherwise) when the file is absent.

    The file is complete and on disk before it has its name, so a kill in the
    middle cannot leave an empty secret; of two makers the first one wins.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(make())
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
    return read_secret(path)


def read_secret(path: Path) -> str:
    """The secret in `path` without surrounding white space; refused when others can read the file."""
    if path.stat().st_mode & 0o077:
        raise SecretFileUnsafe(f"{path} is readable by others: chmod 600")
    value = path.read_text(encoding="utf-8").strip()
    if not value:
        raise SecretFileUnsafe(f"{path} is empty")
    return value
