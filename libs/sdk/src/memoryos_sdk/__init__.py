"""Python client of Memory OS.

async with MemoryOS(Addresses.load(file), token) as mos:
    fs = mos.fs
    await fs.write("/tenants/acme/memory/episodic", content="…", meta={"user": "user_123", "time": "2025-07-01"})
    hits = await fs.read("/tenants/acme/memory/episodic", query="…", top_k=5, filters={"user": "user_123"})
"""

from memoryos_sdk.client import Addresses, MemoryOS
from memoryos_sdk.errors import (
    Aborted,
    AlreadyExists,
    CallError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)

__all__ = [
    "Aborted",
    "Addresses",
    "AlreadyExists",
    "CallError",
    "Cancelled",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "MemoryOS",
    "NotFound",
    "PermissionDenied",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
]
