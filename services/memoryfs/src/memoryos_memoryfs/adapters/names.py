"""Numbers of principals and paths: interned rows, cached in the process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from memoryos_core.clock import Clock, SystemClock
from memoryos_core.errors import InternalError
from memoryos_postgres import queries
from memoryos_postgres.keyring import CACHE_TTL_S
from memoryos_postgres.transaction import Tx

_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
CACHED_MAX: Final = 100_000
"""Entries per cache, some 20 MB each."""

K = TypeVar("K")
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """A map of bounded size that forgets what was used longest ago."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        if len(self._entries) > CACHED_MAX:
            self._entries.popitem(last=False)


class _Fresh(Generic[K, V]):
    """The same, of entries that are believed for a while only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: _Recent[K, tuple[float, V]] = _Recent()

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > self._clock.monotonic() else None

    def put(self, key: K, value: V) -> None:
        self._entries.put(key, (self._clock.monotonic() + CACHE_TTL_S, value))

    def clear(self) -> None:
        self._entries = _Recent()


class Names:
    """Gives the numbers of principals and paths of any tenant.

    The number of a path never changes, so what a committed transaction has seen
    stays true. A principal is cached for `CACHE_TTL_S`: once a person is erased
    the number belongs to a pseudonym, and who comes back gets another one.
    Nothing is cached from a transaction that has not committed.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._numbers: _Fresh[tuple[str, str], int] = _Fresh(clock)
        self._names: _Fresh[tuple[str, int], str] = _Fresh(clock)
        self._paths: _Recent[tuple[str, bytes], int] = _Recent()
        self._places: _Recent[tuple[str, str], bool] = _Recent()
        self._subjects: _Fresh[tuple[str, str], bool] = _Fresh(clock)

    def forget(self) -> None:
        """Believe no principal any more: one of them has become a pseudonym."""
        self._numbers.clear()
        self._names.clear()
        self._subjects.clear()

    def known(self, tenant: str, names: Iterable[str], place: str, subjects: Iterable[str]) -> bool:
        """Tell whether the path (as text) and all principals have a cached number, and all subjects were `keyed`."""
        return (
            self._places.get((tenant, place)) is not None
            and all(self._numbers.get((tenant, name)) is not None for name in names)
            and all(self._subjects.get((tenant, subject)) is not None for subject in subjects)
        )

    def keyed(self, tx: Tx, tenant: str, subjects: Iterable[str]) -> None:
        """Note, once `tx` has committed, that these data subjects have their keys."""

        def keep() -> None:
            for subject in subjects:
                self._subjects.put((tenant, subject), True)

        tx.on_commit(keep)

    async def path_number(self, tx: Tx, tenant: str, key: bytes) -> int:
        """Give the number of a path that `intern` has seen, here or in another process."""
        number = self._paths.get((tenant, key))
        if number is None:
            number = await tx.fetch_value(_QUERIES["path_by_key"], {"tenant": tenant, "key": key})
            if number is None:
                raise InternalError("a path was used before it was interned")
            self._keep_path(tx, tenant, key, number)
        return number

    async def intern(self, tx: Tx, tenant: str, names: Sequence[str], path_key: bytes, place: str) -> None:
        """Make the rows that are missing; their numbers are cached once `tx` has committed."""
        tx.on_commit(lambda: self._places.put((tenant, place), True))
        missing = sorted(name for name in set(names) if self._numbers.get((tenant, name)) is None)
        if missing:
            await tx.execute(_QUERIES["intern_principals"], {"tenant": tenant, "names": missing})
            await self._load(tx, tenant, missing)
        if self._paths.get((tenant, path_key)) is None:
            await tx.execute(_QUERIES["intern_path"], {"tenant": tenant, "key": path_key})
            number = await tx.fetch_value(_QUERIES["path_by_key"], {"tenant": tenant, "key": path_key})
            self._keep_path(tx, tenant, path_key, number)

    async def numbers(self, tx: Tx, tenant: str, names: Iterable[str]) -> dict[str, int]:
        """Give the numbers of principals that `intern` has seen, here or in another process."""
        found: dict[str, int] = {}
        missing = []
        for name in set(names):
            number = self._numbers.get((tenant, name))
            if number is None:
                missing.append(name)
            else:
                found[name] = number
        if missing:
            found.update(await self._load(tx, tenant, missing))
        return found

    async def principals(self, tx: Tx, tenant: str, numbers: Iterable[int]) -> dict[int, str]:
        """Give the principals of the numbers."""
        found: dict[int, str] = {}
        missing = []
        for number in set(numbers):
            name = self._names.get((tenant, number))
            if name is None:
                missing.append(number)
            else:
                found[number] = name
        if missing:
            for row in await tx.fetch_all(_QUERIES["principals_by_id"], {"tenant": tenant, "ids": missing}):
                found[row["id"]] = row["name"]
                self._keep(tx, tenant, row["name"], row["id"])
        return found

    async def _load(self, tx: Tx, tenant: str, names: list[str]) -> dict[str, int]:
        rows = await tx.fetch_all(_QUERIES["principals_by_name"], {"tenant": tenant, "names": names})
        for row in rows:
            self._keep(tx, tenant, row["name"], row["id"])
        return {row["name"]: row["id"] for row in rows}

    def _keep_path(self, tx: Tx, tenant: str, key: bytes, number: int) -> None:
        tx.on_commit(lambda: self._paths.put((tenant, key), number))

    def _keep(self, tx: Tx, tenant: str, name: str, number: int) -> None:
        def keep() -> None:
            self._numbers.put((tenant, name), number)
            self._names.put((tenant, number), name)

        tx.on_commit(keep)
