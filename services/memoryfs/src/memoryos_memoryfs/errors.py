"""Errors of MemoryFS; each reason is one of memoryos.memoryfs.v1.ErrorReason."""

from __future__ import annotations

from memoryos_core.errors import Code, MemoryOSError


class PathNotAllowed(MemoryOSError):
    """The path is of another tenant, or outside the paths of the caller's token."""

    code = Code.PERMISSION_DENIED
    reason = "PATH_NOT_ALLOWED"


class ItemNotFound(MemoryOSError):
    """No such item below the path, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "ITEM_NOT_FOUND"


class EtagMismatch(MemoryOSError):
    """The item has changed since the etag was given out."""

    code = Code.ABORTED
    reason = "ETAG_MISMATCH"


class ItemStateForbids(MemoryOSError):
    """The item's state does not allow this change."""

    code = Code.FAILED_PRECONDITION
    reason = "ITEM_STATE"


class NotOwner(MemoryOSError):
    """Only the owner may change the item."""

    code = Code.PERMISSION_DENIED
    reason = "NOT_OWNER"


class EmbeddingMismatch(MemoryOSError):
    """The vector given is of another model or length than the index."""

    code = Code.INVALID_ARGUMENT
    reason = "EMBEDDING_MISMATCH"


class ReadersTooWide(MemoryOSError):
    """The readers asked for are wider than the path allows."""

    code = Code.PERMISSION_DENIED
    reason = "READERS_TOO_WIDE"
