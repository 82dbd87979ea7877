"""SQL by name: a service keeps its statements in `queries.sql`, each under `-- name: insert_item`.

QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
rows = await tx.fetch_all(QUERIES["items_of_path"], {"path": path})

What several statements share stands in `parts.sql` beside them: `/*name*/` is
replaced by the part of that name. Other such marks are left to whoever runs the statement.
"""

import importlib.resources
import re
from collections.abc import Mapping
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (.*)$", re.MULTILINE)
_PART = re.compile(r"/\*([a-z][a-z0-9_]*)\*/")
PARTS = "parts.sql"


class QueriesInvalid(ValueError):
    """A queries file has a bad or repeated name, or text before the first name."""


def load(package: str, file: str = "queries.sql") -> Mapping[str, str]:
    """The statements of `file` in `package` by name, with their parts."""
    folder, _, name = f"/{file}".rpartition("/")
    room = importlib.resources.files(package) / folder.strip("/")
    statements, shared = parse((room / name).read_text("utf-8")), room / PARTS
    return with_parts(statements, parse(shared.read_text("utf-8"))) if shared.is_file() else statements


def parse(text: str) -> Mapping[str, str]:
    """The statements of `text` by name; comment lines under a name stay with its statement."""
    head, *named = _NAME.split(text)
    if any(line.strip() and not line.startswith("--") for line in head.splitlines()):
        raise QueriesInvalid("SQL before the first `-- name:` line")
    found: dict[str, str] = {}
    for name, body in zip(named[::2], named[1::2], strict=True):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name.strip()) or name.strip() in found:
            raise QueriesInvalid(f"name {name!r} is malformed or there twice")
        found[name.strip()] = body.strip().removesuffix(";").rstrip()
    return MappingProxyType(found)


def with_parts(statements: Mapping[str, str], parts: Mapping[str, str]) -> Mapping[str, str]:
    """The statements with each `/*name*/` of a part replaced by it; a part may name parts that stand above it."""
    whole: dict[str, str] = {}
    for name, text in parts.items():
        whole[name] = _spliced(text, whole)
    return MappingProxyType({name: _spliced(text, whole) for name, text in statements.items()})


def _spliced(text: str, parts: Mapping[str, str]) -> str:
    return _PART.sub(lambda mark: parts.get(mark[1], mark[0]), text)
