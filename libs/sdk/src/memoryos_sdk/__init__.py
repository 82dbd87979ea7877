"""Python client of Memory OS.

async with connect(token=token, memoryfs="127.0.0.1:8401") as client:
    fs = client.memory
    await fs.write("/tenants/acme/memory/episodic", content="…", meta={"user": "user_123", "time": "2025-07-01"})
    hits = await fs.read("/tenants/acme/memory/episodic", query="…", top_k=5, filters={"user": "user_123"})
"""

from memoryos_sdk.client import Client, connect
from memoryos_sdk.decisions import DecisionFilter
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
from memoryos_sdk.invocation import Retry

__all__ = [
    "Aborted",
    "AlreadyExists",
    "CallError",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "DecisionFilter",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "PermissionDenied",
    "ResourceExhausted",
    "Retry",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "connect",
]
