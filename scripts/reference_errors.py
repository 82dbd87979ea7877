"""The page of errors and limits: every reason, every RPC with who may call it, and limits that stand in code.

Reasons and their meaning come from the protos, their status from the error classes, limits of fields from the
protos, roles from the table of RPCs, other limits from the constants that enforce them. What to do is said here.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from memoryos_grpc.methods import METHOD_RULES, MethodRule

ROOT = Path(__file__).parent.parent
APIS: Final = ("type", "memoryfs", "policy", "toolgateway", "harness")
SERVICES: Final = ("memoryfs", "jobs", "policy", "toolgateway", "harness", "erasure")
JOB_ONLY: Final = "in a job"
"""Status of a reason that no call is answered with: it stands in Job.error_reason."""

STATUSES: Final = {
    "INVALID_ARGUMENT": "Mend the request; `BadRequest` names every field that is wrong.",
    "UNAUTHENTICATED": "Get a new token.",
    "PERMISSION_DENIED": "Another caller, or another place. Sending it again changes nothing.",
    "NOT_FOUND": "It is not there for this caller: nobody learns whether it is there for others.",
    "ALREADY_EXISTS": "Look at what is there.",
    "ABORTED": "Read again, decide anew, send it with a new `request_id`.",
    "FAILED_PRECONDITION": "Bring about the state that is needed, then send it again.",
    "RESOURCE_EXHAUSTED": "Ask for less, or wait as `RetryInfo` says; metadata names the limit.",
    "DEADLINE_EXCEEDED": "Give it more time, or ask for less. A write with the same `request_id` may be sent again.",
    "UNAVAILABLE": "Send it again with the same `request_id`: the SDK does.",
    "INTERNAL": "Report it with the trace id.",
    JOB_ONLY: "Look at the service's log, then start the operation again.",
}
"""What to do about each status; reasons below say more where there is more."""

ADVICE: Final = {
    "ETAG_MISMATCH": "Get the item, decide anew, send it with the new etag.",
    "REQUEST_ID_REUSED": "A new `request_id` for a new request; the same one only for the very same body.",
    "PREVIEW_STALE": "Preview again.",
    "PATH_NOT_ALLOWED": "Another place: this one is beyond the token's paths or a binding of its session, task, agent.",
    "NOT_WRITER": "Ask a tenant-admin to name you in the path's `writers`, or write elsewhere.",
    "READERS_TOO_WIDE": "Name fewer readers; metadata names the principal. The path's `default_readers` is the bound.",
    "QUOTA_EXCEEDED": "Forget something, or have the quota raised; metadata names the quota.",
    "ACL_EMPTY": "Merge items that have readers in common.",
    "ABSTRACT_UNAVAILABLE": "Give the text yourself, or configure `models.chat_url`.",
    "EVIDENCE_NOT_INDEPENDENT": "Point at another message, document or call; or a person promotes it without evidence.",
    "EMBEDDING_MISMATCH": "Leave the vector out, or make it with the model that GetIndexStatus names.",
    "EMBEDDER_BUSY": "Wait as `RetryInfo` says, or give the call more time.",
    "HISTORY_GONE": "Ask for a later instant; `memoryfs.history_days` says how far back.",
    "IMPORT_CORRUPT": "Export again; a file that is not what the manifest says is not taken in.",
    "MIGRATION_PHASE": "GetIndexStatus says which phase it is; metadata, too.",
    "RECEIPT_UNAVAILABLE": "Wait for the job; without `memoryfs.receipt_key_file` nothing is purged.",
    "SEALED_KEY_UNAVAILABLE": "The content, or the answer kept for a retry, is erased: do not send it again.",
    "WIDENING_FORBIDDEN": "A tenant-admin rolls back, or narrow the rollback.",
    "ITEM_STATE": "Get says which state it is in.",
    "LEASE_LOST": "Stop: somebody else goes on with the task.",
    "EPOCH_FENCED": "Stop: a later worker has called already.",
    "TOKEN_EXPIRED": "Get a new one; the SDK takes a function as `token`.",
    "TOKEN_AUDIENCE": "Ask the issuer for a token of this service.",
    "NOT_ALLOWED": "A task, a session or an agent does not change what bounds it; a person does.",
}

LIMITS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("domain.filters", "DEPTH_MAX", "filters inside filters", "`FILTER_INVALID`"),
    ("domain.filters", "CONDITIONS_MAX", "conditions of one filter in all", "`FILTER_INVALID`"),
    ("messages", "ATTRIBUTES_BYTES_MAX", "bytes of an item's attributes", "`INVALID_FIELD`"),
    ("domain.attributes", "TEXT_BYTES_MAX", "bytes of a text attribute that filters compare", "longer equals nothing"),
    ("domain.drafts", "TTL_MAX", "life that a Write asks for", "`INVALID_FIELD`"),
    ("domain.gate", "CANDIDATE_TTL", "life of a candidate", "then it is gone"),
    ("operations.write_items", "MERGED_MAX", "entries of a Write that are merged when nothing is said", "above: added"),
    ("domain.answers", "ANSWER_BYTES_MAX", "bytes of the items of one answer", "shorter page, or `TRUNCATED`"),
    ("operations.recall_steps.candidates", "SUPERSEDED_MAX", "superseded items compared for `valid_at`", "`TRUNCATED`"),
    ("operations.recall_steps.known_then", "SCANNED_MAX", "items compared for `as_of`", "`TRUNCATED`"),
    ("adapters.pg_recall", "IDS_MAX", "items that a filter lets through to the search", "`TRUNCATED`"),
    ("adapters.pg_recall", "QUERY_WORDS_MAX", "distinct words of a query, the rarest", "others do not count"),
    ("operations.stat_path", "CHILDREN_MAX", "places below a place in Stat", "`children_truncated`"),
    ("operations.trace_lineage", "ITEMS_MAX", "items of a lineage", "`truncated`"),
    ("operations.move_items", "MOVED_MAX", "items of one Move", "`LIMIT_EXCEEDED`, nothing is moved"),
    ("operations.roll_back", "ITEMS_MAX", "items that a Rollback looks at", "`LIMIT_EXCEEDED`, nothing is changed"),
    ("operations.forget_matching", "PREVIEW_LIFE", "life of a preview", "`PREVIEW_STALE`"),
    ("adapters.pg_snapshots", "KEPT_MAX", "snapshots kept of a channel", "the oldest is dropped"),
    ("domain.settings", "SETTINGS_MAX", "paths of a tenant that state settings", "`LIMIT_EXCEEDED`"),
    ("domain.bindings", "BINDINGS_MAX", "bindings of one user", "`LIMIT_EXCEEDED`"),
    ("domain.bindings", "TTL_MAX", "life of a binding", "`INVALID_FIELD`"),
    ("servicers.import_lines", "LINES_MAX", "lines of one part of an Import", "`IMPORT_CORRUPT`"),
    ("domain.item_lines", "LINE_BYTES_MAX", "bytes of one line of an Import", "`IMPORT_CORRUPT`"),
    ("operations.write_abstract", "ABSTRACT_S", "seconds for a model to write a merged text", "the job fails"),
)
"""Limits of MemoryFS beside fields: module, constant, what it bounds, what happens beyond it."""

Comments = Callable[[FileDescriptorProto], dict[tuple[int, ...], str]]


def errors_page(
    files: list[FileDescriptorProto], comments: Comments, limits: Callable[[FieldDescriptorProto], str]
) -> str:
    """Give the page."""
    lines = [
        "# Errors and limits\n",
        "Generated by `make reference` from the protos, the error classes and the limits in code.\n",
        "A refused call has a gRPC status and, in `google.rpc.Status`, an `ErrorInfo` of domain `memoryos`: the "
        "*reason* below, and metadata with the trace id and what the reason names. Wrong fields stand in "
        "`BadRequest`, a time to wait in `RetryInfo`. Texts may change, reasons do not. In the SDK the status is "
        "the class of the exception (`Aborted`, `NotFound`, …), the reason `error.reason`.\n",
        "## By status\n\n| status | what to do |\n|---|---|",
        *(f"| `{status}` | {advice} |" for status, advice in STATUSES.items() if status != JOB_ONLY),
        "\nA mutating call is sent again with the same `request_id` and the same body; for seven days it is answered "
        "with what it did the first time. Roles are looked at before existence is.\n",
        *_reasons(files, comments),
        *_calls(files, limits),
        *_limits_in_code(),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _reasons(files: list[FileDescriptorProto], comments: Comments) -> Iterator[str]:
    statuses = {**_statuses(), "JOB_GIVEN_UP": JOB_ONLY}
    for api in APIS:
        for file in files:
            if file.package != f"memoryos.{api}.v1":
                continue
            for index, enum in enumerate(file.enum_type):
                if enum.name == "ErrorReason":
                    notes = comments(file)
                    yield f"## Reasons of {'every service' if api == 'type' else f'memoryos.{api}.v1'}\n"
                    yield "| reason | status | when | what to do |\n|---|---|---|---|"
                    for number, value in enumerate(enum.value[1:], 1):
                        name = value.name.removeprefix("ERROR_REASON_")
                        status, advice = statuses[name], ADVICE.get(name, "")
                        shown = status if status == JOB_ONLY else f"`{status}`"
                        yield f"| `{name}` | {shown} | {notes[(5, index, 2, number)]} | {advice or STATUSES[status]} |"
                    yield ""


def _statuses() -> dict[str, str]:
    """Give the status of every reason that an error class of the source states; codes are inherited."""
    classes: dict[str, tuple[list[str], dict[str, str]]] = {}
    for path in sorted([*ROOT.glob("libs/*/src/**/errors.py"), *ROOT.glob("services/*/src/**/errors.py"),
                        ROOT / "libs/core/src/memoryos_core/paths.py"]):  # fmt: skip
        if "libs/sdk" in str(path):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                stated = {
                    ast.unparse(line.targets[0]): ast.unparse(line.value).strip("'").removeprefix("Code.")
                    for line in node.body
                    if isinstance(line, ast.Assign)
                }
                classes[node.name] = ([ast.unparse(base) for base in node.bases], stated)

    def found(name: str, what: str) -> str:
        bases, stated = classes.get(name, ([], {}))
        return stated.get(what) or next((value for base in bases if (value := found(base, what))), "")

    return {
        **{reason: found(name, "code") for name in classes if (reason := found(name, "reason"))},
        "INTERNAL": "INTERNAL",
    }


def _calls(files: list[FileDescriptorProto], limits: Callable[[FieldDescriptorProto], str]) -> Iterator[str]:
    yield (
        "## Calls\n\nWho may call each RPC (one of these roles is needed), and the limits of its fields, which are "
        "looked at before a handler runs. Fields that are messages have theirs where they lead.\n"
    )
    messages = {f".{file.package}.{message.name}": message for file in files for message in file.message_type}
    for api in SERVICES:
        for file in files:
            for service in file.service if file.package == f"memoryos.{api}.v1" else ():
                yield f"### {service.name}\n\n| RPC | roles | limits |\n|---|---|---|"
                for method in service.method:
                    rule = METHOD_RULES[f"/{file.package}.{service.name}/{method.name}"]
                    fields = _field_limits(messages[method.input_type], limits)
                    yield f"| `{method.name}` | {_roles(rule)} | {'<br>'.join(fields)} |"
                yield ""


def _roles(rule: MethodRule) -> str:
    inner = f"; through {', '.join(sorted(rule.services))} only" if rule.services else ""
    return ", ".join(sorted(rule.roles)) + inner


def _field_limits(message: DescriptorProto, limits: Callable[[FieldDescriptorProto], str]) -> Iterator[str]:
    for field in message.field:
        words, kind = limits(field), field.type_name.rsplit(".", 1)[-1]
        ours = field.type == FieldDescriptorProto.TYPE_MESSAGE and not field.type_name.startswith(".google.")
        if ours:
            words = f"[{kind}](api.md#{kind.lower()})" + (f", {words}" if words else "")
        if words:
            yield f"`{field.name}` {words}"


def _limits_in_code() -> Iterator[str]:
    yield (
        "## Limits beside fields\n\nOf MemoryFS. Limits of calls, messages and time of every service are "
        "[configuration](configuration.md) (`grpc`): beyond them a call is `LIMIT_EXCEEDED` or "
        "`DEADLINE_EXCEEDED`. Quotas of a path are [its settings](../how-to/set-up-paths.md).\n"
    )
    yield "| limit | of | beyond it |\n|---|---|---|"
    for module, name, what, beyond in LIMITS:
        value = getattr(importlib.import_module(f"memoryos_memoryfs.{module}"), name)
        yield f"| {_shown(value)} | {what} | {beyond} |"


def _shown(value: int | float | timedelta) -> str:
    if isinstance(value, timedelta):
        return f"{value.days:,} days" if value.days > 1 else f"{value.total_seconds() / 3600:g} h"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
