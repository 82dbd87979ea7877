"""ErasureStore on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.paths import MemoryPath
from memoryos_core.sealing import key_id_of, open_sealed
from memoryos_postgres import Database, queries
from memoryos_postgres.idempotency import KEPT_DAYS, answer_place
from memoryos_postgres.jobs import JobRun
from memoryos_postgres.keyring import CACHE_TTL_S
from memoryos_postgres.remains import Remains, Sought, orphaned
from memoryos_postgres.transaction import Tx

from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.pg_journal import SERVICE
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain.erasure import PURGE, Expiry, Target
from memoryos_memoryfs.domain.place_keys import path_key, subtree_end
from memoryos_memoryfs.ports.erasure import Settling

QUERIES: Final = queries.load("memoryos_memoryfs", "sql/erasure.sql")
_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Purge"
_OWN: Final = (("memoryfs", "erasures"), ("memoryfs", "erased_items"))
_ITEMS: Final = ("memoryfs.items", "memoryfs.item_revisions", "core.jobs")
_LISTED: Final = "SELECT item_id FROM memoryfs.erased_items WHERE tenant = %(tenant)s AND job_id = %(job_id)s"
_ANSWERS: Final = 1000
_SEARCHED: Final = 10_000


class PgFreezer:
    """Freezer of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def freeze(self, job_id: str, user: str) -> None:
        """See `Freezer.freeze`."""
        params = {"tenant": self._session.tenant, "job_id": job_id, "user": user}
        await self._session.tx.execute(QUERIES["freeze"], params)

    async def freeze_items(self, ids: Sequence[str]) -> None:
        """See `Freezer.freeze_items`."""
        await self._session.tx.execute(QUERIES["freeze_items"], {"tenant": self._session.tenant, "ids": list(ids)})


class PgErasure:
    """What a purge does to the tables of MemoryFS and to the shared ones."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared
        self._keyring = shared.keyring
        self._principals = shared.names
        self._remains = Remains(database, ["memoryfs", "core"], skip=_OWN)
        self._names = Remains(database, ["memoryfs"], skip=_OWN)
        self._tables: list[str] = []

    async def digest(self, tenant: str, name: str) -> str:
        """See `ErasureStore.digest`."""
        async with self._database.tenant(tenant) as tx:
            return (await self._keyring.tenant_keys(tx, tenant)).audit_hmac(name)

    async def owned(self, tenant: str, ids: Sequence[str], owner: str) -> frozenset[str]:
        """See `ErasureStore.owned`."""
        async with self._database.upkeep(tenant) as tx:
            params = {"tenant": tenant, "ids": list(ids), "every": not owner, "numbers": []}
            if owner:
                params["numbers"] = await _numbers(tx, tenant, owner.removeprefix("user:"))
            return frozenset(row["id"] for row in await tx.fetch_all(QUERIES["owned_ids"], params))

    async def destroy_key(self, run: JobRun, user: str) -> None:
        """See `ErasureStore.destroy_key`; the numbers of the person's principals are kept for the sweep."""
        async with self._database.upkeep(run.tenant) as tx:
            numbers = {*run.checkpoint.get("numbers", []), *await _numbers(tx, run.tenant, user)}
            destroyed = await self._keyring.destroy(tx, run.tenant, user)
            removed = _added(run, {"core.data_keys": int(destroyed)})
            await run.save(checkpoint={**run.checkpoint, "numbers": sorted(numbers), "removed": removed}, tx=tx)

    async def erase_batch(self, run: JobRun, target: Target, limit: int) -> int:
        """See `ErasureStore.erase_batch`."""
        tables = await self._tables_of_items()
        async with self._database.upkeep(run.tenant) as tx:
            ids = await self._next(tx, run, target, limit)
            if not ids:
                return 0
            named = {"tenant": run.tenant, "job_id": run.id, "ids": ids}
            await self._release(tx, run, ids)
            await tx.execute(QUERIES["note_erased"], named)
            counts: dict[str, int] = {}
            for table in tables:
                query = f'DELETE FROM memoryfs."{table}" WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[])'  # noqa: S608
                counts[f"memoryfs.{table}"] = await tx.execute(query, named)
            for table in ("item_revisions", "items"):
                query = f"DELETE FROM memoryfs.{table} WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[])"  # noqa: S608
                counts[f"memoryfs.{table}"] = await tx.execute(query, named)
            done = run.done + counts["memoryfs.items"]
            await run.save(done=done, checkpoint={**run.checkpoint, "removed": _added(run, counts)}, tx=tx)
        return len(ids)

    async def erase_loose(self, run: JobRun, target: Target) -> None:
        """See `ErasureStore.erase_loose`."""
        tables = await self._tables_of_items()
        named = {"tenant": run.tenant, "job_id": run.id}
        counts: dict[str, int] = {}
        async with self._database.upkeep(run.tenant) as tx:
            for table in tables:  # what was under way when its item went
                query = (
                    f'DELETE FROM memoryfs."{table}" WHERE tenant = %(tenant)s AND item_id IN (SELECT item_id FROM'  # noqa: S608
                    " memoryfs.erased_items WHERE tenant = %(tenant)s AND job_id = %(job_id)s)"
                )
                counts[f"memoryfs.{table}"] = await tx.execute(query, named)
            await tx.execute(QUERIES["unlink_sources"], named)
            await tx.execute(QUERIES["unlink_revisions"], named)
            if target.user:
                await self._erase_person(tx, run, target.user, counts)
            await run.save(checkpoint={**run.checkpoint, "removed": _added(run, counts)}, tx=tx)
        if not target.user:
            await self._empty_answers(run)

    async def erased_ids(self, run: JobRun, after: str, limit: int) -> list[str]:
        """See `ErasureStore.erased_ids`."""
        async with self._database.upkeep(run.tenant) as tx:
            params = {"tenant": run.tenant, "job_id": run.id, "after": after, "limit": limit}
            return [row["item_id"] for row in await tx.fetch_all(QUERIES["erased_ids"], params)]

    async def settling(self, run: JobRun, *, caches: bool = False, late_s: float = 0.0) -> Settling:
        """See `ErasureStore.settling`."""
        async with self._database.tenant(run.tenant) as tx:
            row = await tx.fetch_one(QUERIES["now"])
        assert row is not None
        until = row["now"].astimezone(UTC) + timedelta(seconds=max(late_s, CACHE_TTL_S if caches else 0))
        return Settling(until.isoformat(), row["xid"])

    async def unsettled_s(self, run: JobRun, settling: Settling) -> float:
        """See `ErasureStore.unsettled_s`."""
        async with self._database.tenant(run.tenant) as tx:
            return float(await tx.fetch_value(QUERIES["unsettled"], {"until": settling.until, "xid": settling.xid}))

    async def search(self, run: JobRun, target: Target) -> Mapping[str, int]:
        """See `ErasureStore.search`."""
        found: dict[str, int] = {}
        if target.user:
            found = await self._remains.find(run.tenant, Sought(user=target.user))
            async with self._database.upkeep(run.tenant) as tx:
                numbers = {"tenant": run.tenant, "numbers": run.checkpoint.get("numbers", [])}
                found["memoryfs.items"] += await tx.fetch_value(QUERIES["items_of_numbers"], numbers)
        for place, rows in (await self._remains.find(run.tenant, Sought(listed=_LISTED, job_id=run.id))).items():
            found[place] = found.get(place, 0) + rows
        return found

    async def expiring(self, run: JobRun, target: Target) -> Sequence[Expiry]:
        """See `ErasureStore.expiring`."""
        answers = (datetime.now(UTC) + timedelta(days=KEPT_DAYS)).isoformat()
        return (
            Expiry(place="postgres.wal", until="", reason="old pages and log hold sealed bytes and names until then"),
            Expiry(
                place="postgres.backups", until="", reason="backups hold what they held; their epoch key is destroyed"
            ),
            Expiry(place="core.audit", until="", reason="append-only: names of users and items, no content"),
            Expiry(
                place="core.idempotency", until=answers, reason="emptied answers refuse late retries; names, no content"
            ),
            Expiry(
                place="telemetry", until="", reason="spans and logs hold ids and names, no content, until they rotate"
            ),
        )

    async def close(self, run: JobRun, target: Target, result: Mapping[str, object]) -> None:
        """See `ErasureStore.close`."""
        named = {"tenant": run.tenant, "job_id": run.id}
        async with self._database.upkeep(run.tenant) as tx:
            keys = await self._keyring.tenant_keys(tx, run.tenant)
            await tx.execute(QUERIES["thaw"], named)
            await tx.execute(QUERIES["forget_erased"], named)
            event = AuditEvent(
                kind=Kind.ADMIN_ACT,
                actor=Actor.of(run.scope),
                service=SERVICE,
                method=_RPC,
                target_type="erasure",
                target_ids=[run.id],
                target_hmac=keys.audit_hmac(target.name),
                count=max(run.done, 1),
            )
            record(tx, event)
            await run.save(checkpoint={"result": dict(result)}, tx=tx)

    async def _next(self, tx: Tx, run: JobRun, target: Target, limit: int) -> list[str]:
        """Give names of items of the target, and of all that was made from them."""
        tenant = run.tenant
        who = target.user or target.owner.removeprefix("user:")
        numbers = {*run.checkpoint.get("numbers", [])} | set(await _numbers(tx, tenant, who) if who else [])
        params: dict[str, Any] = {"tenant": tenant, "limit": limit, "numbers": sorted(numbers), "user": target.user}
        if target.user:
            rows = await tx.fetch_all(QUERIES["next_of_user"], params)
        elif target.ids:
            rows = await tx.fetch_all(QUERIES["next_of_ids"], {**params, "ids": list(target.ids)})
        else:
            start = await self._path_key(tx, tenant, target.path)
            below = {"start": start, "end": subtree_end(start), "every": not target.owner}
            rows = await tx.fetch_all(QUERIES["next_below"], {**params, **below})
        ids = {row["id"] for row in rows}
        fresh = ids
        while fresh:
            made = await tx.fetch_all(QUERIES["made_from"], {"tenant": tenant, "ids": sorted(fresh)})
            fresh = {row["id"] for row in made} - ids
            ids |= fresh
        return sorted(ids)

    async def _release(self, tx: Tx, run: JobRun, ids: Sequence[str]) -> None:
        """Lock the items, and let what was merged into them and is not erased stand for itself again."""
        items = PgItems(Session(shared=self._shared, tx=tx, scope=run.scope, upkeep=True))
        await items.derivations.lock_all(ids)
        rows = await tx.fetch_all(QUERIES["standing_for_others"], {"tenant": run.tenant, "ids": ids})
        await items.derivations.release([row["id"] for row in rows], but=frozenset(ids))

    async def _path_key(self, tx: Tx, tenant: str, path: MemoryPath | None) -> bytes:
        if path is None:
            raise ValueError("a target without user and items has a path")
        return path_key((await self._keyring.tenant_keys(tx, tenant)).tokens, path)

    async def _erase_person(self, tx: Tx, run: JobRun, user: str, counts: dict[str, int]) -> None:
        sought = Sought(user=user)
        keys = await self._keyring.tenant_keys(tx, run.tenant)
        hmac = keys.audit_hmac(user)
        common = {**sought.parameters, "tenant": run.tenant, "job_id": run.id, "kind": PURGE, "rpc": _RPC}
        common["numbers"] = run.checkpoint.get("numbers", [])
        counts["memoryfs.item_revisions"] = await tx.fetch_value(QUERIES["erase_old_revisions"], common)
        for place, rows in (await self._names.delete_named(tx, run.tenant, sought, but=_ITEMS)).items():
            counts[place] = counts.get(place, 0) + rows
        answers = QUERIES["empty_answers_of_user"].replace("/*orphaned*/", orphaned("t.response"))
        counts["core.idempotency"] = await tx.execute(answers, common)
        counts["core.session_facts"] = await tx.execute(QUERIES["erase_session_facts"], common)
        counts["core.jobs"] = await tx.fetch_value(QUERIES["erase_jobs"], common)
        await tx.execute(QUERIES["pseudonymise_jobs"], {**common, "pseudonym": hmac})
        pseudonym = f"user:erased-{hmac[:16]}"
        await tx.execute(QUERIES["pseudonymise_principals"], {**common, "pseudonym": pseudonym})
        await self._names.pseudonymise(tx, run.tenant, sought, pseudonym)
        tx.on_commit(self._principals.forget)

    async def _empty_answers(self, run: JobRun) -> None:
        """Empty answers to requests that name an erased item: they may hold its content."""
        erased: set[str] = set()
        after = ""
        while ids := await self.erased_ids(run, after, _SEARCHED):
            erased.update(ids)
            after = ids[-1]
        position = {"principal": "", "rpc": "", "request_id": ""}
        while erased:
            async with self._database.upkeep(run.tenant) as tx:
                page = {"tenant": run.tenant, **position, "limit": _ANSWERS}
                rows = await tx.fetch_all(QUERIES["answers"], page)
                if not rows:
                    return
                held = [row for row in rows if await self._names_erased(tx, run.tenant, row, erased)]
                if held:
                    columns = {f"{name}s": [row[name] for row in held] for name in ("principal", "rpc", "request_id")}
                    emptied = await tx.execute(QUERIES["empty_answers"], {"tenant": run.tenant, **columns})
                    removed = _added(run, {"core.idempotency": emptied})
                    await run.save(checkpoint={**run.checkpoint, "removed": removed}, tx=tx)
            position = {name: rows[-1][name] for name in position}

    async def _names_erased(self, tx: Tx, tenant: str, row: Mapping[str, Any], erased: set[str]) -> bool:
        """Tell whether an answer names an erased item; one that cannot be opened any more holds nothing."""
        keys = await self._keyring.by_ids(tx, tenant, [key_id_of(row["response"])])
        if not keys:
            return True
        place = answer_place((tenant, row["principal"], row["rpc"], row["request_id"]))
        answer = open_sealed(next(iter(keys.values())), row["response"], place)
        start = answer.find(b"mem_")
        while start >= 0:
            if answer[start : start + 30].decode("ascii", "replace") in erased:
                return True
            start = answer.find(b"mem_", start + 1)
        return False

    async def _tables_of_items(self) -> list[str]:
        if not self._tables:
            async with self._database.unscoped() as tx:
                self._tables = [row["name"] for row in await tx.fetch_all(QUERIES["tables_of_items"])]
        return self._tables


async def _numbers(tx: Tx, tenant: str, user: str) -> list[int]:
    params = {"tenant": tenant, "typed": f"user:{user}", "agents": f"agent:{user}/"}
    return [row["id"] for row in await tx.fetch_all(QUERIES["principal_numbers"], params)]


def _added(run: JobRun, counts: Mapping[str, int]) -> dict[str, int]:
    """Give what the run has removed so far, with these counts."""
    removed: dict[str, int] = dict(run.checkpoint.get("removed", {}))
    for place, rows in counts.items():
        removed[place] = removed.get(place, 0) + rows
    return removed
