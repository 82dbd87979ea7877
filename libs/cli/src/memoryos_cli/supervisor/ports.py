"""Ports of 127.0.0.1, kept over restarts where they are still free."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from memoryos_cli.supervisor.files import read_json, write_json

HOST: Final = "127.0.0.1"


def choose_ports(file: Path, names: Sequence[str]) -> dict[str, int]:
    """Give one free port per name: the one kept in `file` if nobody listens there, else a fresh one; keep them."""
    kept = read_json(file)
    kept = kept if isinstance(kept, dict) else {}
    chosen: dict[str, int] = {}
    with ExitStack() as held:  # all are held until the last is chosen, so that none comes twice
        for name in names:
            wanted = kept.get(name)
            port = _hold(held, wanted) if isinstance(wanted, int) and 0 < wanted < 65536 else None
            if port is None or port in chosen.values():
                port = _hold(held, 0)
            assert port is not None
            chosen[name] = port
    write_json(file, chosen)
    return chosen


def _hold(held: ExitStack, port: int) -> int | None:
    """Bind a port (0: a free one) until `held` ends and give it; None when somebody listens there."""
    probe = held.enter_context(socket.socket())
    if port:  # closed connections of the last run (TIME_WAIT) do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
    except OSError:
        return None
    bound: int = probe.getsockname()[1]
    return bound
