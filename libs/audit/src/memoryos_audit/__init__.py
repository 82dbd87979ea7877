"""Append-only audit: rows, their seal and its verification (DESIGN §7)."""

from memoryos_audit.denials import DenialRecorder
from memoryos_audit.event import Actor, AuditEvent, Kind, Outcome
from memoryos_audit.recorder import ReadRecorder, record

__all__ = ["Actor", "AuditEvent", "DenialRecorder", "Kind", "Outcome", "ReadRecorder", "record"]
