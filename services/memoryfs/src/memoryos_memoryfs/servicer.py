"""MemoryFS on the wire: one method per RPC, by capability in servicers/."""

from __future__ import annotations

from memoryos.memoryfs.v1 import memoryfs_pb2_grpc

from memoryos_memoryfs.servicers.bindings import BindingsServicer
from memoryos_memoryfs.servicers.erasure import ErasureServicer
from memoryos_memoryfs.servicers.history import HistoryServicer
from memoryos_memoryfs.servicers.index_admin import IndexAdminServicer
from memoryos_memoryfs.servicers.items import ItemsServicer
from memoryos_memoryfs.servicers.lifecycle import LifecycleServicer
from memoryos_memoryfs.servicers.namespace import NamespaceServicer
from memoryos_memoryfs.servicers.recall import RecallServicer
from memoryos_memoryfs.servicers.snapshots import SnapshotsServicer
from memoryos_memoryfs.servicers.transfer import TransferServicer


class MemoryFSServicer(
    ItemsServicer,
    RecallServicer,
    LifecycleServicer,
    NamespaceServicer,
    BindingsServicer,
    HistoryServicer,
    SnapshotsServicer,
    TransferServicer,
    IndexAdminServicer,
    ErasureServicer,
    memoryfs_pb2_grpc.MemoryFSServicer,
):
    """Identity, roles, limits and errors are the interceptors' work."""
