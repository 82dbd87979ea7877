"""The one table of all RPCs: who may call each, and which a client may retry.

A server refuses to start when a method of its services is missing here, and a
test goes through all protos (FAULTS A8: unlisted is not allowed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MethodRule:
    """Who may call a method.

    `roles`: the subject needs at least one. `services`: None, or the only
    services that may call, each with its own service token. `safe`: sending it
    again cannot do anything twice, so clients may retry UNAVAILABLE. `mandated`:
    the bearer token is not a person's but a mandate of the calling service.
    """

    roles: frozenset[str]
    services: frozenset[str] | None = None
    safe: bool = False
    mandated: bool = False


_DATA: Final = frozenset({"user", "agent", "tenant-admin"})
_WORK: Final = frozenset({"user", "agent"})
_REVIEW_READERS: Final = frozenset({"reviewer", "user", "agent", "auditor"})
_DECISION_READERS: Final = frozenset({"auditor", "tenant-admin", "user", "agent"})
# A person and nobody but a person: no agent erases or turns back what a user has.
_PEOPLE: Final = frozenset({"user", "tenant-admin"})
_JOB_READERS: Final = _DATA | {"operator", "auditor"}
_DECIDERS: Final = frozenset({"tool-gateway", "memoryfs", "harness"})

# Writes are safe where their request_id makes the second one give the first one's answer.
METHOD_RULES: Final[dict[str, MethodRule]] = {
    "/memoryos.memoryfs.v1.MemoryFS/Write": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Read": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Get": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/List": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Forget": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Restore": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Stat": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Move": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Merge": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Promote": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Dispute": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/History": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Revert": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Lineage": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Bind": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Unbind": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/ListBindings": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/SetPathSettings": MethodRule(frozenset({"tenant-admin"}), safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/GetPathSettings": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/ListPathSettings": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/CreateSnapshot": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/ListSnapshots": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Diff": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Rollback": MethodRule(_PEOPLE, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Watch": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Export": MethodRule(_DATA, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Import": MethodRule(_PEOPLE, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Purge": MethodRule(_PEOPLE, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/GetReceipt": MethodRule(_PEOPLE | {"auditor"}, safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/Explain": MethodRule(frozenset({"auditor"}), safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/MigrateIndex": MethodRule(frozenset({"operator"}), safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/VerifyIndex": MethodRule(frozenset({"operator"}), safe=True),
    "/memoryos.memoryfs.v1.MemoryFS/GetIndexStatus": MethodRule(
        frozenset({"operator", "auditor", "tenant-admin"}), safe=True
    ),
    "/memoryos.jobs.v1.Jobs/GetJob": MethodRule(_JOB_READERS, safe=True),
    "/memoryos.jobs.v1.Jobs/ListJobs": MethodRule(_JOB_READERS, safe=True),
    "/memoryos.jobs.v1.Jobs/WatchJob": MethodRule(_JOB_READERS, safe=True),
    "/memoryos.jobs.v1.Jobs/CancelJob": MethodRule(_PEOPLE | {"operator"}, safe=True),
    # The purge job calls for the person who asked for it, who may be gone by then.
    "/memoryos.erasure.v1.Erasure/Erase": MethodRule(
        _PEOPLE, services=frozenset({"memoryfs"}), safe=True, mandated=True
    ),
    "/memoryos.erasure.v1.Erasure/FindRemains": MethodRule(
        _PEOPLE, services=frozenset({"memoryfs"}), safe=True, mandated=True
    ),
    # A decision has no effect but its log.
    "/memoryos.policy.v1.Policy/Decide": MethodRule(_DATA, services=_DECIDERS, safe=True),
    "/memoryos.policy.v1.Policy/BatchDecide": MethodRule(_DATA, services=_DECIDERS, safe=True),
    "/memoryos.policy.v1.Policy/GetDecision": MethodRule(_DECISION_READERS, safe=True),
    "/memoryos.policy.v1.Policy/ListDecisions": MethodRule(_DECISION_READERS, safe=True),
    "/memoryos.policy.v1.Policy/WatchDecisions": MethodRule(frozenset({"auditor", "tenant-admin"}), safe=True),
    "/memoryos.policy.v1.Policy/ExplainDecision": MethodRule(frozenset({"auditor"}), safe=True),
    # The call id makes it idempotent.
    "/memoryos.policy.v1.Reviews/OpenReview": MethodRule(_WORK, services=frozenset({"tool-gateway"}), safe=True),
    "/memoryos.policy.v1.Reviews/ListReviews": MethodRule(_REVIEW_READERS, safe=True),
    "/memoryos.policy.v1.Reviews/GetReview": MethodRule(_REVIEW_READERS, safe=True),
    "/memoryos.policy.v1.Reviews/ResolveReview": MethodRule(frozenset({"reviewer"}), safe=True),
    "/memoryos.policy.v1.Reviews/WatchReviews": MethodRule(_REVIEW_READERS, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/ListSkills": MethodRule(_WORK, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/GetSkill": MethodRule(_WORK, safe=True),
    # Never retried below its caller: only the holder of the request_id knows what it asks (I5).
    "/memoryos.toolgateway.v1.ToolGateway/CallSkill": MethodRule(_WORK),
    "/memoryos.toolgateway.v1.ToolGateway/SearchSkills": MethodRule(_WORK, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/GetCall": MethodRule(_WORK | {"auditor", "operator"}, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/ListCalls": MethodRule(_WORK | {"auditor", "operator"}, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/WatchCall": MethodRule(_WORK | {"auditor", "operator"}, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/CancelCall": MethodRule(_WORK, safe=True),
    "/memoryos.toolgateway.v1.ToolGateway/ReconcileCall": MethodRule(_WORK | {"operator", "tenant-admin"}, safe=True),
    "/memoryos.harness.v1.Sessions/CreateSession": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Sessions/GetSession": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Sessions/AppendMessages": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Sessions/ListMessages": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Sessions/ListSessions": MethodRule(_WORK | {"operator", "auditor"}, safe=True),
    "/memoryos.harness.v1.Sessions/SearchMessages": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/SubmitTask": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/GetTask": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/WatchTask": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/CancelTask": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/ListSteps": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/ListTasks": MethodRule(_WORK | {"operator", "auditor"}, safe=True),
    # What lets a task go on is a person's word, never that of an agent.
    "/memoryos.harness.v1.Tasks/PauseTask": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tasks/ResumeTask": MethodRule(frozenset({"user"}), safe=True),
    "/memoryos.harness.v1.Tasks/RetryTask": MethodRule(frozenset({"user"}), safe=True),
    "/memoryos.harness.v1.Agents/ListAgents": MethodRule(_WORK | {"operator", "auditor"}, safe=True),
    "/memoryos.harness.v1.Agents/GetAgent": MethodRule(_WORK | {"operator", "auditor"}, safe=True),
    "/memoryos.harness.v1.Tokens/ExchangeToken": MethodRule(_WORK, safe=True),
    "/memoryos.harness.v1.Tokens/GetKeys": MethodRule(_WORK | {"operator", "auditor"}, safe=True),
    "/memoryos.harness.v1.Tokens/RevokeAccess": MethodRule(frozenset({"tenant-admin"}), safe=True),
    "/memoryos.harness.v1.Tokens/RestoreAccess": MethodRule(frozenset({"tenant-admin"}), safe=True),
    "/memoryos.harness.v1.Tokens/ListRevocations": MethodRule(
        frozenset({"tenant-admin", "operator", "auditor"}), safe=True
    ),
}
