"""The local span file of a process: always on, bounded, whole after a kill.

Every line is one write to the page cache (no fsync: a kill -9 of the process
loses nothing, a power cut may). When the disk refuses, spans are dropped and
counted; the call that they describe goes on.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from memoryos_telemetry.span_lines import LINE_BYTES_MAX, encode_end, encode_start

SUFFIX: Final = ".jsonl"
_OLDER: Final = ".1"
"""Ending of the previous generation; there is one, so a process keeps at most its two halves."""


class SpanFile(SpanProcessor):
    """Writes spans of this process into its own file `{service}-{start}-{pid}.jsonl`."""

    def __init__(self, folder: Path, service: str, started: datetime, *, bytes_max: int, files_max: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_old(folder, files_max)
        self.path = folder / f"{service}-{started:%Y%m%dT%H%M%S%f}-{os.getpid()}{SUFFIX}"
        self.dropped = 0
        self._service = service
        self._generation_bytes_max = bytes_max // 2
        self._lock = threading.Lock()
        self._fd = self._open()
        self._size_bytes = os.fstat(self._fd).st_size
        self._torn = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Write the line of a span that starts."""
        self._write(encode_start(span, self._service))

    def on_end(self, span: ReadableSpan) -> None:
        """Write the complete line of a span."""
        self._write(encode_end(span, self._service))

    def shutdown(self) -> None:
        """Close the file; later spans are dropped."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Give True: nothing is held back."""
        return True

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write(self, line: bytes) -> None:
        with self._lock:
            if self._fd < 0 or len(line) > LINE_BYTES_MAX:
                self.dropped += 1
                return
            try:
                if self._size_bytes + len(line) > self._generation_bytes_max:
                    self._rotate()
                if self._torn:
                    line = b"\n" + line
                written = os.write(self._fd, line)
                self._size_bytes += written
                # After a short write the rest of the line is given up; the next starts on a fresh one.
                self._torn = written < len(line)
                self.dropped += self._torn
            except OSError:
                self.dropped += 1

    def _rotate(self) -> None:
        os.replace(self.path, f"{self.path}{_OLDER}")
        fresh = self._open()
        os.close(self._fd)
        self._fd, self._size_bytes, self._torn = fresh, 0, False


def span_files(folder: Path) -> list[Path]:
    """Give the span files of a folder, all processes and generations."""
    return sorted((*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{SUFFIX}{_OLDER}")))


def _remove_old(folder: Path, files_max: int) -> None:
    """Remove the oldest files of ended processes until `files_max` of them are left."""
    ended: list[tuple[float, Path]] = []
    for path in span_files(folder):
        with suppress(FileNotFoundError):
            if not _is_running(path):
                ended.append((path.stat().st_mtime, path))
    ended.sort(reverse=True)
    for _, path in ended[files_max:]:
        path.unlink(missing_ok=True)


def _is_running(path: Path) -> bool:
    pid = path.name.split(SUFFIX)[0].rpartition("-")[2]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
