"""SQL by name: a service keeps its statements in `queries.sql`, each under `-- name: insert_item`.

QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
rows = await tx.fetch_all(QUERIES["items_of_path"], {"path": path})
"""

import importlib.resources
import re
from collections.abc import Mapping
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (.*)$", re.MULTILINE)


class QueriesInvalid(ValueError):
    """A queries file has a bad or repeated name, or text before the first name."""


def load(package: str, file: str = "queries.sql") -> Mapping[str, str]:
    """The statements of `file` in `package` by name."""
    return parse((importlib.resources.files(package) / file).read_text("utf-8"))


def parse(text: str) -> Mapping[str, str]:
    """The statements of `text` by name; comment lines under a name stay with its statement."""
    head, *parts = _NAME.split(text)
    if any(line.strip() and not line.startswith("--") for line in head.splitlines()):
        raise QueriesInvalid("SQL before the first `-- name:` line")
    found: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name.strip()) or name.strip() in found:
            raise QueriesInvalid(f"name {name!r} is malformed or there twice")
        found[name.strip()] = body.strip().removesuffix(";").rstrip()
    return MappingProxyType(found)
