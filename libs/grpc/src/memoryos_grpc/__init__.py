"""Server bootstrap, client factory and interceptors."""

from memoryos_grpc.budget import remaining_s
from memoryos_grpc.caller import Caller, NoCaller, caller, scope, subject_token
from memoryos_grpc.chain import NotServable
from memoryos_grpc.client import Channels
from memoryos_grpc.config import GrpcSection
from memoryos_grpc.methods import METHOD_RULES, MethodRule
from memoryos_grpc.ports import AuditSink, DenialKind, LogAuditSink
from memoryos_grpc.server import Server
from memoryos_grpc.status import RemoteError, raise_from_rpc, remote_error

__all__ = [
    "METHOD_RULES",
    "AuditSink",
    "Caller",
    "Channels",
    "DenialKind",
    "GrpcSection",
    "LogAuditSink",
    "MethodRule",
    "NoCaller",
    "NotServable",
    "RemoteError",
    "Server",
    "caller",
    "raise_from_rpc",
    "remaining_s",
    "remote_error",
    "scope",
    "subject_token",
]
