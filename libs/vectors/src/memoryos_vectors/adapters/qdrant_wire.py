"""What goes to Qdrant and comes back: connection, names, filters, points, errors."""

from __future__ import annotations

import hashlib
import math
import re
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
import numpy as np
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qm
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from memoryos_vectors.errors import IndexAbsent, IndexRefused, IndexUnavailable
from memoryos_vectors.ports import IndexScope, KeptEntry, Tier, Vector, VectorEntry, VectorQuery

_POINTS: Final = uuid.UUID("6f3fd0a4-57cb-5cd1-8f3e-6c1f4b0f5a10")
_GRPC_PORT: Final = 6334
_TIERS: Final = {Tier.HOT: 1, Tier.COLD: 2}
_TIER_OF: Final = {number: tier for tier, number in _TIERS.items()}
_REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


def connect(url: str, *, api_key: str | None, timeout_s: float) -> tuple[AsyncQdrantClient, bool]:
    """Give a client, and whether it is the local mode.

    `http://host:6334` and `https://…` speak gRPC to a server; `:memory:` and
    `file:///folder` are the client's local mode: the same answers by brute
    force in this process, for tests and trials of a few thousand items.
    """
    if url == ":memory:":
        return AsyncQdrantClient(location=url), True
    parts = urlsplit(url)
    if parts.scheme == "file":
        return AsyncQdrantClient(path=parts.path, force_disable_check_same_thread=True), True
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the URL of Qdrant is http(s)://host[:port] (gRPC), file:///folder or :memory:")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a key without TLS: the operator's choice, said in the how-to
        client = AsyncQdrantClient(
            host=parts.hostname,
            grpc_port=parts.port or _GRPC_PORT,
            prefer_grpc=True,
            https=parts.scheme == "https",
            api_key=api_key,
            timeout=math.ceil(timeout_s),
            check_compatibility=False,  # it asks over HTTP, in a thread
            pool_size=2,
            grpc_options={"grpc.max_reconnect_backoff_ms": 1000, "grpc.initial_reconnect_backoff_ms": 100},
        )
    return client, False


def collection_name(prefix: str, model_id: str) -> str:
    """Give the collection of a model; Qdrant refuses some characters, so a digest tells alike names apart."""
    digest = hashlib.blake2b(model_id.encode(), digest_size=6).hexdigest()
    return f"{prefix}-{re.sub(r'[^A-Za-z0-9._-]', '_', model_id)[:64]}-{digest}"


def point_id(tenant: str, item_id: str) -> str:
    """Give the one point of an item in the collection of a model; two tenants never share one."""
    return str(uuid.uuid5(_POINTS, f"{len(tenant)}:{tenant}{item_id}"))


def point(tenant: str, entry: VectorEntry) -> qm.PointStruct:
    """Give an entry as Qdrant keeps it."""
    return qm.PointStruct(
        id=point_id(tenant, entry.item_id),
        vector=entry.vector.tolist(),
        payload={
            "tenant": tenant,
            "item": entry.item_id,
            "revision": entry.revision,
            "path": entry.path_id,
            "acl": list(entry.acl),
            "tier": _TIERS[entry.tier],
        },
    )


def kept_entry(record: qm.Record) -> KeptEntry:
    """Give what a point says of its item."""
    payload = record.payload or {}
    vector: Any = record.vector
    return KeptEntry(
        item_id=payload["item"],
        revision=payload["revision"],
        path_id=payload["path"],
        acl=tuple(payload["acl"]),
        tier=_TIER_OF[payload["tier"]],
        vector=None if vector is None else np.asarray(vector, dtype=np.float32),
    )


def of_tenant(tenant: str) -> qm.FieldCondition:
    """Give the condition that every request has."""
    return qm.FieldCondition(key="tenant", match=qm.MatchValue(value=tenant))


def with_ids(tenant: str, item_ids: Sequence[str]) -> qm.Filter:
    """Give the filter of named items of a tenant."""
    return qm.Filter(must=[of_tenant(tenant), qm.HasIdCondition(has_id=[point_id(tenant, name) for name in item_ids])])


def not_newer(revision: int) -> qm.Filter:
    """Give the condition on a kept point under which one of `revision` replaces it; Qdrant checks it as it writes."""
    return qm.Filter(must=[qm.FieldCondition(key="revision", range=qm.Range(lte=revision))])


def in_scope(scope: IndexScope, query: VectorQuery, extra_ids: Sequence[str] | None = None) -> qm.Filter:
    """Give scope and conditions of a query as one filter; `extra_ids` narrow it further."""
    must: list[Any] = [
        of_tenant(scope.tenant),
        qm.FieldCondition(key="acl", match=qm.MatchAny(any=sorted(scope.principal_ids))),
    ]
    if query.path_ids is not None:
        must.append(qm.FieldCondition(key="path", match=qm.MatchAny(any=sorted(query.path_ids))))
    if not query.include_cold:
        must.append(qm.FieldCondition(key="tier", match=qm.MatchValue(value=_TIERS[Tier.HOT])))
    for names in (query.allowed_ids, extra_ids):
        if names is not None:
            must.append(qm.HasIdCondition(has_id=[point_id(scope.tenant, name) for name in names]))
    if not query.excluded_ids:
        return qm.Filter(must=must)
    excluded = qm.HasIdCondition(has_id=[point_id(scope.tenant, name) for name in query.excluded_ids])
    return qm.Filter(must=must, must_not=[excluded])


def values_of(vector: Vector) -> list[float]:
    """Give a vector as the client wants it."""
    values: list[float] = vector.tolist()
    return values


@contextmanager
def translated() -> Iterator[None]:
    """Translate what client and channel raise inside the block, by class and status code."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            raise IndexAbsent from error
        if error.code() in _REFUSALS:
            raise IndexRefused(metadata={"status": error.code().name}) from error
        raise IndexUnavailable from error
    except (ApiException, QdrantException, OSError, TimeoutError) as error:
        raise IndexUnavailable from error
    except ValueError as error:  # how the local mode refuses
        raise IndexRefused from error


@contextmanager
def unless_there() -> Iterator[None]:
    """Take it as done that somebody else made what is made inside the block in the same instant."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
