"""What the tool gateway holds of people and items: the journal of calls with sealed arguments and results,
whole results, notices and who settled what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memoryos_core.sealing import DataKey, aad, key_id_of, open_sealed, seal
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.transaction import Tx
from memoryos_service.erasure import Holdings, delete_up_to

_PAGE: Final = 500
_ERASED: Final = b'{"erased":true}'
_SEALED: Final = ("arguments", "asked_arguments", "result")
_QUOTING: Final = (
    "SELECT id, arguments, asked_arguments, result FROM toolgateway.calls"
    " WHERE tenant = %(tenant)s AND starts_with(skill, 'memory.') AND id > %(after)s ORDER BY id LIMIT %(page)s"
)
_EMPTY: Final = (
    "UPDATE toolgateway.calls SET arguments = %(arguments)s, asked_arguments = %(asked_arguments)s,"
    " result = %(result)s, full_result_bytes = 0, full_result_sha256 = ''"
    " WHERE tenant = %(tenant)s AND id = %(id)s"
)
_WHOLE: Final = (
    "SELECT f.call_id AS id, f.content FROM toolgateway.full_results AS f"
    " JOIN toolgateway.calls AS c ON c.tenant = f.tenant AND c.id = f.call_id"
    " WHERE f.tenant = %(tenant)s AND starts_with(c.skill, 'memory.') AND f.call_id > %(after)s"
    " ORDER BY f.call_id LIMIT %(page)s"
)
_WHOLE_PAGE: Final = 8
"""They are large."""
_DROP_WHOLE: Final = "DELETE FROM toolgateway.full_results WHERE tenant = %(tenant)s AND call_id = %(id)s"
_OF_NOTICES: Final = (
    "t.notice_id IN (SELECT n.id FROM toolgateway.notices AS n WHERE n.tenant = t.tenant AND n.user_name = %(user)s)"
)
_OF_CALLS: Final = (
    "t.call_id IN (SELECT c.id FROM toolgateway.calls AS c WHERE c.tenant = t.tenant AND c.user_name = %(user)s)"
)


def holdings_of(keyring: PostgresKeyRing) -> Holdings:
    """Give what the gateway holds."""

    async def of_items(tx: Tx, tenant: str, ids: Sequence[str], limit: int) -> Mapping[str, int]:
        """Empty calls of the memory skills whose arguments or result name one of the items, and drop whole results."""
        wanted = [item_id.encode() for item_id in ids]
        dropped = await _drop_whole(keyring, tx, tenant, wanted)
        emptied, after = 0, ""
        while emptied < limit:
            rows = await tx.fetch_all(_QUOTING, {"tenant": tenant, "after": after, "page": _PAGE})
            if not rows:
                break
            after = rows[-1]["id"]
            sealed = [row[name] for row in rows for name in _SEALED if row[name]]
            keys = await keyring.by_ids(tx, tenant, {key_id_of(value) for value in sealed})
            for row in rows:
                key = keys.get(key_id_of(row["arguments"]))
                if key is None or not any(_names(keys, tenant, row, name, wanted) for name in _SEALED):
                    continue
                blank = {
                    name: None if row[name] is None else seal(key, _ERASED, _place(tenant, name, row["id"]))
                    for name in _SEALED
                }
                emptied += await tx.execute(_EMPTY, {"tenant": tenant, "id": row["id"], **blank})
        return {"toolgateway.calls": emptied, "toolgateway.full_results": dropped}

    return Holdings(
        service="tool-gateway",
        schema="toolgateway",
        of_user={
            "toolgateway.due_notices": delete_up_to("toolgateway.due_notices", _OF_NOTICES),
            "toolgateway.notices": delete_up_to("toolgateway.notices", "t.user_name = %(user)s"),
            "toolgateway.full_results": delete_up_to("toolgateway.full_results", "t.user_name = %(user)s"),
            "toolgateway.reconciliations": delete_up_to(
                "toolgateway.reconciliations", "(t.user_name = %(user)s OR t.by_user = %(user)s)"
            ),
            "toolgateway.doubts": delete_up_to("toolgateway.doubts", _OF_CALLS),
            "toolgateway.dispatched": delete_up_to("toolgateway.dispatched", _OF_CALLS),
            "toolgateway.calls": delete_up_to("toolgateway.calls", "t.user_name = %(user)s"),
        },
        of_items=of_items,
    )


async def _drop_whole(keyring: PostgresKeyRing, tx: Tx, tenant: str, ids: Sequence[bytes]) -> int:
    """Drop whole results of the memory skills that name one of the items."""
    dropped, after = 0, ""
    while True:
        rows = await tx.fetch_all(_WHOLE, {"tenant": tenant, "after": after, "page": _WHOLE_PAGE})
        if not rows:
            return dropped
        after = rows[-1]["id"]
        keys = await keyring.by_ids(tx, tenant, {key_id_of(row["content"]) for row in rows})
        for row in rows:
            key = keys.get(key_id_of(row["content"]))
            if key is None:
                continue
            place = aad(tenant, "toolgateway.full_results.content", row["id"])
            text = open_sealed(key, row["content"], place)
            if any(item_id in text for item_id in ids):
                dropped += await tx.execute(_DROP_WHOLE, {"tenant": tenant, "id": row["id"]})


def _names(
    keys: Mapping[bytes, DataKey], tenant: str, row: Mapping[str, bytes | str | None], name: str, ids: Sequence[bytes]
) -> bool:
    sealed = row[name]
    if not isinstance(sealed, bytes) or key_id_of(sealed) not in keys:
        return False
    text = open_sealed(keys[key_id_of(sealed)], sealed, _place(tenant, name, str(row["id"])))
    return b"mem_" in text and any(item_id in text for item_id in ids)


def _place(tenant: str, column: str, call_id: str) -> bytes:
    return aad(tenant, f"toolgateway.calls.{column}", call_id)
