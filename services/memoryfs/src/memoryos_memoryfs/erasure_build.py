"""What purges are given: the other services that this installation has, and the key that signs receipts."""

from __future__ import annotations

from contextlib import AsyncExitStack

from memoryos_audit.seal_key import SealKey, SealKeyInvalid, create_seal_key
from memoryos_core.config import ConfigError
from memoryos_core.sections import IdentitySection, PeersSection
from memoryos_core.tokens import TokenSigner
from memoryos_grpc.client.channels import Channels
from memoryos_grpc.config import GrpcSection
from memoryos_service import Ground

from memoryos_memoryfs.adapters.grpc_erasure import FileSigner, GrpcErasurePeers
from memoryos_memoryfs.adapters.pg_erasure import PgErasure
from memoryos_memoryfs.adapters.session import Shared
from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.ports.erasure import ErasureParts


def build_erasure(ground: Ground, shared: Shared, stack: AsyncExitStack) -> ErasureParts:
    """Give them; raises ConfigError when the key file cannot be used."""
    config = ground.config
    peers, key_file = config[PeersSection], config[IdentitySection].service_key_file
    addresses = {"harness": peers.harness, "tool-gateway": peers.tool_gateway, "policy": peers.policy}
    present = {name: address for name, address in addresses.items() if address}
    signer = TokenSigner.load(key_file, ground.clock, ground.ids) if key_file else None
    channels = Channels(ground.service, signer, ground.telemetry, config[GrpcSection], ground.clock)
    stack.push_async_callback(channels.close)
    opened = {name: channels.open(address, name) for name, address in present.items()}
    receipt_key = config[MemoryFSSection].receipt_key_file
    receipts = None
    try:
        if receipt_key is not None:
            create_seal_key(receipt_key)
            receipts = FileSigner(SealKey.load(receipt_key))
    except SealKeyInvalid as error:
        raise ConfigError(f"configuration memoryfs.receipt_key_file: {error}") from None
    return ErasureParts(
        store=PgErasure(ground.database, shared),
        peers=GrpcErasurePeers(opened, signer, sorted(addresses.keys() - present.keys())),
        signer=receipts,
    )
