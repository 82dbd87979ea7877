"""Public test data that is not part of the repository: beside it, or where MEMORYOS_EVAL_DATA says."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).parents[4] / "shared" / "eval" / "data"


def eval_data(name: str) -> Any:
    """Give the JSON value (or the lines of JSON) of a file; skips the test where the data is not there."""
    file = Path(os.environ.get("MEMORYOS_EVAL_DATA", _BESIDE)) / name
    if not file.is_file():
        pytest.skip(f"{name} is not there: set MEMORYOS_EVAL_DATA to the folder of the evaluation data")
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    if ".jsonl" in name:
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)
