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
    """Only the owner, or a writer of the path, may change the item."""

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


class FilterInvalid(MemoryOSError):
    """The filter is too deep, has too many conditions, or a condition without an operator or value."""

    code = Code.INVALID_ARGUMENT
    reason = "FILTER_INVALID"


class NotWriter(MemoryOSError):
    """The settings of the path name other writers."""

    code = Code.PERMISSION_DENIED
    reason = "NOT_WRITER"


class QuotaExceeded(MemoryOSError):
    """A quota of the path is used up."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "QUOTA_EXCEEDED"


class AclEmpty(MemoryOSError):
    """No one may read what the sources have in common."""

    code = Code.FAILED_PRECONDITION
    reason = "ACL_EMPTY"


class AbstractUnavailable(MemoryOSError):
    """Neither text nor a model: several items are not made into one by putting them in a row."""

    code = Code.FAILED_PRECONDITION
    reason = "ABSTRACT_UNAVAILABLE"


class EvidenceNotIndependent(MemoryOSError):
    """The evidence is no independent source."""

    code = Code.FAILED_PRECONDITION
    reason = "EVIDENCE_NOT_INDEPENDENT"


class PreviewStale(MemoryOSError):
    """The previewed set has changed, or the preview is another caller's or too old."""

    code = Code.ABORTED
    reason = "PREVIEW_STALE"


class ResourceNotFound(MemoryOSError):
    """No such snapshot, binding, revision or settings, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "RESOURCE_NOT_FOUND"


class WideningForbidden(MemoryOSError):
    """The rollback would open items to more readers."""

    code = Code.PERMISSION_DENIED
    reason = "WIDENING_FORBIDDEN"


class ImportCorrupt(MemoryOSError):
    """The stream is not a whole export."""

    code = Code.INVALID_ARGUMENT
    reason = "IMPORT_CORRUPT"


class ReceiptUnavailable(MemoryOSError):
    """There is no receipt: the purge has not ended, or the configuration names no key that signs one."""

    code = Code.FAILED_PRECONDITION
    reason = "RECEIPT_UNAVAILABLE"


class AlreadyExists(MemoryOSError):
    """The resource is there already with other values."""

    code = Code.ALREADY_EXISTS
    reason = "ALREADY_EXISTS"


class MigrationPhaseForbids(MemoryOSError):
    """The index is moving between backends: this step is not possible in its phase."""

    code = Code.FAILED_PRECONDITION
    reason = "MIGRATION_PHASE"


class HistoryGone(MemoryOSError):
    """The instant asked for is before the history that is kept."""

    code = Code.FAILED_PRECONDITION
    reason = "HISTORY_GONE"
