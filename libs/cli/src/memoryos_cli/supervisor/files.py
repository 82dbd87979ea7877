"""Small files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_whole(file: Path, text: str, *, durable: bool = False) -> None:
    """Put `text` into `file` (readable by its owner only); a reader or a crash never meets half of it."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
            if durable:
                out.flush()
                os.fsync(out.fileno())
        fresh.replace(file)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()


def write_json(file: Path, value: Any) -> None:
    """Put a JSON value into `file`, whole."""
    write_whole(file, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(file: Path) -> Any:
    """Give the value of a JSON file; None when it is absent or damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
