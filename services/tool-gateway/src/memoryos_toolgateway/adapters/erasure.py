"""What the tool gateway holds of people and items: the journal of calls with sealed arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memoryos_core.sealing import DataKey, aad, key_id_of, open_sealed, seal
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.transaction import Tx
from memoryos_service.erasure import Holdings, delete_up_to

_PAGE: Final = 500
_ERASED: Final = b'{"erased":true}'
_QUOTING: Final = (
    "SELECT id, arguments, result FROM toolgateway.calls"
    " WHERE tenant = %(tenant)s AND starts_with(skill, 'memory.') AND id > %(after)s ORDER BY id LIMIT %(page)s"
)
_EMPTY: Final = (
    "UPDATE toolgateway.calls SET arguments = %(arguments)s, result = %(result)s"
    " WHERE tenant = %(tenant)s AND id = %(id)s"
)


def holdings_of(keyring: PostgresKeyRing) -> Holdings:
    """Give what the gateway holds."""

    async def of_items(tx: Tx, tenant: str, ids: Sequence[str], limit: int) -> Mapping[str, int]:
        """Empty calls of the memory skills whose arguments or result name one of the items."""
        wanted = [item_id.encode() for item_id in ids]
        emptied, after = 0, ""
        while emptied < limit:
            rows = await tx.fetch_all(_QUOTING, {"tenant": tenant, "after": after, "page": _PAGE})
            if not rows:
                break
            after = rows[-1]["id"]
            sealed = [row[name] for row in rows for name in ("arguments", "result") if row[name]]
            keys = await keyring.by_ids(tx, tenant, {key_id_of(value) for value in sealed})
            for row in rows:
                key = keys.get(key_id_of(row["arguments"]))
                if key is None or not any(_names(keys, tenant, row, name, wanted) for name in ("arguments", "result")):
                    continue
                blank = {name: seal(key, _ERASED, _place(tenant, name, row["id"])) for name in ("arguments", "result")}
                result = None if row["result"] is None else blank["result"]
                values = {"tenant": tenant, "id": row["id"], "arguments": blank["arguments"], "result": result}
                emptied += await tx.execute(_EMPTY, values)
        return {"toolgateway.calls": emptied}

    return Holdings(
        service="tool-gateway",
        schema="toolgateway",
        of_user={
            "toolgateway.dispatched": delete_up_to(
                "toolgateway.dispatched",
                "t.call_id IN (SELECT c.id FROM toolgateway.calls AS c"
                " WHERE c.tenant = t.tenant AND c.user_name = %(user)s)",
            ),
            "toolgateway.calls": delete_up_to("toolgateway.calls", "t.user_name = %(user)s"),
        },
        of_items=of_items,
    )


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
