"""ErasurePeers over gRPC, and the signer of receipts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

import grpc
from memoryos.erasure.v1 import erasure_pb2, erasure_pb2_grpc
from memoryos_audit.seal_key import RECEIPT_DOMAIN, SealKey
from memoryos_core.errors import DependencyUnavailable
from memoryos_core.tokens import TokenSigner
from memoryos_grpc.caller import subject_token
from memoryos_postgres.jobs import JobRun

from memoryos_memoryfs.domain.erasure import Expiry, Target

TIMEOUT_S: Final = 30.0


class GrpcErasurePeers:
    """Calls each service with a mandate: the person's own token may have expired long ago."""

    def __init__(
        self, channels: Mapping[str, grpc.aio.Channel], signer: TokenSigner | None, absent: Sequence[str]
    ) -> None:
        self._stubs = {name: erasure_pb2_grpc.ErasureStub(channel) for name, channel in channels.items()}
        self._signer = signer
        self.absent = tuple(absent)

    async def erase(self, run: JobRun, target: Target, ids: Sequence[str]) -> Mapping[str, int]:
        """See `ErasurePeers.erase`."""
        removed: dict[str, int] = {}
        for wanted in _targets(target, ids):
            request = erasure_pb2.EraseRequest(target=wanted, job_id=run.id)
            for name, stub in self._stubs.items():
                done = False
                while not done:
                    answer = await self._call(run, name, stub.Erase, request)
                    done = answer.done
                    for one in answer.removed:
                        removed[one.place] = removed.get(one.place, 0) + one.count
        return removed

    async def find(self, run: JobRun, target: Target, ids: Sequence[str]) -> tuple[Mapping[str, int], Sequence[Expiry]]:
        """See `ErasurePeers.find`."""
        found: dict[str, int] = {}
        expiring: list[Expiry] = []
        for wanted in _targets(target, ids):
            request = erasure_pb2.FindRemainsRequest(target=wanted, job_id=run.id)
            for name, stub in self._stubs.items():
                answer = await self._call(run, name, stub.FindRemains, request)
                for one in answer.searched:
                    found[one.place] = found.get(one.place, 0) + one.count
                expiring += [_expiry(one) for one in answer.expiring]
        return found, list(dict.fromkeys(expiring))

    async def _call(self, run: JobRun, name: str, method: Callable[..., Awaitable[Any]], request: Any) -> Any:
        if self._signer is None:
            raise DependencyUnavailable("identity.service_key_file: needed to call other services")
        mandate = self._signer.mandate(name, tenant=run.tenant, user=run.scope.user)
        try:
            with subject_token(mandate):
                call = method(request, timeout=TIMEOUT_S)
            return await call
        except grpc.aio.AioRpcError as error:
            raise DependencyUnavailable(metadata={"service": name}) from error


class FileSigner:
    """ReceiptSigner with a key file."""

    def __init__(self, key: SealKey) -> None:
        self._key = key

    @property
    def key_id(self) -> str:
        """See `ReceiptSigner.key_id`."""
        return self._key.key_id

    def sign(self, receipt: bytes) -> bytes:
        """See `ReceiptSigner.sign`."""
        return self._key.sign(receipt, RECEIPT_DOMAIN)


def _targets(target: Target, ids: Sequence[str]) -> list[erasure_pb2.Target]:
    """Give what a service is asked: the person, and what quotes the items by id, whoever's it is."""
    wanted = [erasure_pb2.Target(user=target.user)] if target.user else []
    if ids:
        wanted.append(erasure_pb2.Target(items=erasure_pb2.ItemIds(ids=ids)))
    return wanted


def _expiry(one: erasure_pb2.Expiring) -> Expiry:
    until = one.until.ToDatetime(tzinfo=UTC).isoformat() if one.HasField("until") else ""
    return Expiry(place=one.place, until=until, reason=one.reason)
