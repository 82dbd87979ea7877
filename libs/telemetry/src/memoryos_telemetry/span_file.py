"""The local span file of a process: always on, bounded, whole after a kill.

Lines wait in memory until somebody else could know of them: `flush` is called
when a traceparent leaves the process and when a local root ends, and a thread
flushes the rest a few times a second. So whatever another process or a row
refers to is in the file, and a kill -9 costs at most the last moments of spans
that nobody refers to. A flush is one write to the page cache (no fsync: a power
cut may cost spans). When the disk refuses, spans are dropped and counted; the
calls that they describe go on.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from memoryos_telemetry.recorded import RecordedSpan
from memoryos_telemetry.span_lines import LINE_BYTES_MAX, encode

SUFFIX: Final = ".jsonl"
_OLDER: Final = ".1"
"""Ending of the previous generation; there is one, so a process keeps at most its two halves."""
WAITING_MAX: Final = 64
"""Spans that wait for a flush at most."""
FLUSH_INTERVAL_S: Final = 0.2


class SpanFile:
    """Writes spans of this process into its own file `{service}-{start}-{pid}.jsonl`."""

    def __init__(self, folder: Path, service: str, started: datetime, *, bytes_max: int, files_max: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_old(folder, files_max)
        self.path = folder / f"{service}-{started:%Y%m%dT%H%M%S%f}-{os.getpid()}{SUFFIX}"
        self.dropped = 0
        self._service = service
        self._generation_bytes_max = bytes_max // 2
        self._lock = threading.Lock()
        self._running: dict[int, RecordedSpan] = {}
        """Started spans that no line tells of yet."""
        self._ended: list[RecordedSpan] = []
        self._fd = self._open()
        self._size_bytes = os.fstat(self._fd).st_size
        self._torn = False
        self._closing = threading.Event()
        threading.Thread(target=self._flush_regularly, name="span-file", daemon=True).start()

    def started(self, span: RecordedSpan) -> None:
        """Take note of a span that starts."""
        with self._lock:
            self._running[span.context.span_id] = span
            if len(self._running) > WAITING_MAX:
                self._write_waiting()

    def ended(self, span: RecordedSpan) -> None:
        """Keep a span that has ended."""
        with self._lock:
            # One line is enough where the start was not told yet.
            self._running.pop(span.context.span_id, None)
            self._ended.append(span)
            if span.is_local_root or len(self._ended) > WAITING_MAX:
                self._write_waiting()

    def flush(self) -> None:
        """Write what waits: from here on it outlives the process."""
        if self._running or self._ended:
            with self._lock:
                self._write_waiting()

    def close(self) -> None:
        """Write what waits and close the file; later spans are dropped."""
        self._closing.set()
        with self._lock:
            self._write_waiting()
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _flush_regularly(self) -> None:
        while not self._closing.wait(FLUSH_INTERVAL_S):
            self.flush()

    def _write_waiting(self) -> None:
        lines = [encode(span, self._service) for spans in (self._running.values(), self._ended) for span in spans]
        self._running.clear()
        self._ended.clear()
        kept = [line for line in lines if len(line) <= LINE_BYTES_MAX]
        self.dropped += len(lines) - len(kept)
        if not kept:
            return
        if self._fd < 0:
            self.dropped += len(kept)
            return
        try:
            self._write(b"".join(kept))
        except OSError:
            self.dropped += len(kept)

    def _write(self, block: bytes) -> None:
        if self._size_bytes + len(block) > self._generation_bytes_max:
            self._rotate()
        if self._torn:
            block = b"\n" + block
        written = os.write(self._fd, block)
        self._size_bytes += written
        # After a short write the rest is given up; the next block starts on a fresh line.
        self._torn = written < len(block)
        if self._torn:
            self.dropped += block[written:].count(b"\n")

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

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
