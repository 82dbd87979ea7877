"""MemoryFS: the memory of the caller's tenant, addressed by paths."""

from __future__ import annotations

from memoryos_sdk.memory.bindings import BindingCalls
from memoryos_sdk.memory.erasure import ErasureCalls
from memoryos_sdk.memory.items import ItemCalls
from memoryos_sdk.memory.lifecycle import LifecycleCalls
from memoryos_sdk.memory.places import PlaceCalls
from memoryos_sdk.memory.snapshots import SnapshotCalls
from memoryos_sdk.memory.transfer import TransferCalls


class MemoryFS(ItemCalls, LifecycleCalls, PlaceCalls, SnapshotCalls, TransferCalls, BindingCalls, ErasureCalls):
    """Write, recall, correct, roll back, move and erase memory. Every method is one call, or a series of them."""


__all__ = ["MemoryFS"]
