"""What a task may do: the verified identity it was submitted with, narrowed to its agent.

A grant is kept as claims, never as the caller's token. `expire_time` and the
token id of the caller are not part of it: the tokens minted from it are the
harness's own and live five minutes at most.
"""

from __future__ import annotations

from typing import Any, Final

from memoryos_core.canonical import JsonValue
from memoryos_core.tokens import Identity, narrow

from memoryos_harness.domain.agents import Agent, expand_paths

TOKEN_TTL_S: Final = 300
AUDIENCE: Final = ("memoryfs", "tool-gateway", "policy")
"""The services that a task's token is good for."""


def narrowed(grant: Identity, agent: Agent, *, session_id: str, task_id: str) -> Identity:
    """Give the identity of the agent that works for `grant`.

    Its ceilings are the agent file's places for this user. Raises NotAllowed
    when one of them lies outside of the grant.
    """
    read = expand_paths(agent.memory.read, tenant=grant.tenant, user=grant.user)
    write = expand_paths(agent.memory.write, tenant=grant.tenant, user=grant.user)
    return narrow(
        grant,
        agent=agent.name,
        session_id=session_id,
        task_id=task_id,
        read_paths={str(path) for path in read},
        write_paths={str(path) for path in write},
    )


def grant_to_json(grant: Identity) -> JsonValue:
    """Give the claims of a grant, to be sealed."""
    return {
        "tenant": grant.tenant,
        "user": grant.user,
        "roles": sorted(grant.roles),
        "groups": sorted(grant.groups),
        "clearance": grant.clearance,
        "chain": list(grant.chain),
        "read_paths": None if grant.read_paths is None else list(grant.read_paths),
        "write_paths": None if grant.write_paths is None else list(grant.write_paths),
    }


def grant_from_json(claims: Any) -> Identity:
    """Give the grant that `grant_to_json` kept."""
    return Identity(
        tenant=claims["tenant"],
        user=claims["user"],
        roles=frozenset(claims["roles"]),
        groups=frozenset(claims["groups"]),
        clearance=claims["clearance"],
        chain=tuple(claims["chain"]),
        read_paths=None if claims["read_paths"] is None else tuple(claims["read_paths"]),
        write_paths=None if claims["write_paths"] is None else tuple(claims["write_paths"]),
    )
