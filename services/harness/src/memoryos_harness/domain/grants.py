"""What a task may do: the verified identity it was submitted with, narrowed link by link to its agent.

A grant is kept as claims, never as the caller's token. `expire_time` and the
token id of the caller are not part of it: the tokens minted from it are the
harness's own and live five minutes at most. Its first link is who submitted the
task; each further one is an agent that works for the one before. Grants of
before hold the first link alone; the agent's is made from the task's row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from memoryos_core.canonical import JsonValue
from memoryos_core.delegation import ChainBroken, Link, checked_chain
from memoryos_core.errors import NotAllowed
from memoryos_core.paths import MemoryPath, PathInvalid
from memoryos_core.tokens import Identity, narrow

from memoryos_harness.domain.agents import PATHS_MAX, Agent, expand_paths

TOKEN_TTL_S: Final = 300
AUDIENCE: Final = frozenset({"memoryfs", "tool-gateway", "policy"})
"""The services that a task's token is good for."""

Grant = tuple[Link, ...]


def granted(identity: Identity) -> Grant:
    """Give the grant of who submits a task."""
    return (Link(identity=identity, audience=AUDIENCE),)


def extended(grant: Grant, agent: Agent, *, session_id: str, task_id: str) -> Grant:
    """Give the grant of the task of an agent that works for the last link of `grant`.

    Its ceilings are the agent file's places for this user, and the task's own
    working memory where the last link reaches it. Raises NotAllowed
    when one of them lies outside of what the last link reaches.
    """
    last = grant[-1]
    identity = narrowed(last.identity, agent, session_id=session_id, task_id=task_id)
    return (*grant, Link(identity=identity, audience=last.audience))


def narrowed(grant: Identity, agent: Agent, *, session_id: str, task_id: str) -> Identity:
    """Give the identity of the agent that works for `grant`; see `extended`."""
    read = expand_paths(agent.memory.read, tenant=grant.tenant, user=grant.user)
    write = expand_paths(agent.memory.write, tenant=grant.tenant, user=grant.user)
    working = _working_place(grant, task_id) if max(len(read), len(write)) < PATHS_MAX else ()
    narrow_identity = narrow(
        grant,
        agent=agent.name,
        session_id=session_id,
        task_id=task_id,
        read_paths={str(path) for path in (*read, *working)},
        write_paths={str(path) for path in (*write, *working)},
    )
    return replace(narrow_identity, expire_time=grant.expire_time)


def _working_place(grant: Identity, task_id: str) -> tuple[MemoryPath, ...]:
    """Give the place of a task's own working memory, below that of the task it works for; none out of reach."""
    above = working_place_of(grant)
    try:
        top = MemoryPath.parse(f"/tenants/{grant.tenant}/memory/working/{grant.user}") if above is None else above
        place = MemoryPath.parse(f"{top}/{task_id}")
    except PathInvalid:
        return ()
    ceilings = (grant.read_paths, grant.write_paths)
    reached = all(paths is None or any(MemoryPath.parse(path).contains(place) for path in paths) for paths in ceilings)
    return (place,) if task_id and "/" not in grant.user and reached else ()


def working_place_of(identity: Identity) -> MemoryPath | None:
    """Give the place of a task's own working memory, None for who has none."""
    if not identity.task_id:
        return None
    prefix, suffix = f"/tenants/{identity.tenant}/memory/working/", f"/{identity.task_id}"
    own = [path for path in identity.write_paths or () if path.startswith(prefix) and path.endswith(suffix)]
    return MemoryPath.parse(own[0]) if own else None


def identity_of_task(grant: Grant, *, tenant: str, user: str, session_id: str, task_id: str) -> Identity:
    """Give the identity that a task's tokens are minted for, or raise ChainBroken.

    The whole chain is checked, and that it is the one of this task and nobody
    else's: a grant of another row, user or tenant is refused.
    """
    identity = checked_chain(grant)
    if (identity.tenant, identity.user, identity.session_id, identity.task_id) != (tenant, user, session_id, task_id):
        raise ChainBroken(len(grant) - 1, "task")
    return identity


def grant_to_json(grant: Grant) -> JsonValue:
    """Give the claims of a grant, to be sealed."""
    return {"links": [_link_to_json(link) for link in grant]}


def grant_from_json(kept: Any, agent: Agent, *, session_id: str, task_id: str) -> Grant:
    """Give the grant that `grant_to_json` kept; one of before is extended by the task's agent."""
    if "links" in kept:
        return tuple(_link_from_json(claims) for claims in kept["links"])
    root = granted(_identity_from_json(kept))
    try:
        return extended(root, agent, session_id=session_id, task_id=task_id)
    except NotAllowed:
        return root  # the agent asks for more: no token is made from it


def _link_to_json(link: Link) -> JsonValue:
    given = link.identity
    return {
        "tenant": given.tenant,
        "user": given.user,
        "roles": sorted(given.roles),
        "groups": sorted(given.groups),
        "clearance": given.clearance,
        "chain": list(given.chain),
        "session_id": given.session_id,
        "task_id": given.task_id,
        "read_paths": None if given.read_paths is None else list(given.read_paths),
        "write_paths": None if given.write_paths is None else list(given.write_paths),
        "audience": sorted(link.audience),
    }


def _link_from_json(claims: Any) -> Link:
    return Link(identity=_identity_from_json(claims), audience=frozenset(claims["audience"]))


def _identity_from_json(claims: Any) -> Identity:
    return Identity(
        tenant=claims["tenant"],
        user=claims["user"],
        roles=frozenset(claims["roles"]),
        groups=frozenset(claims["groups"]),
        clearance=claims["clearance"],
        chain=tuple(claims["chain"]),
        session_id=claims.get("session_id", ""),
        task_id=claims.get("task_id", ""),
        read_paths=None if claims["read_paths"] is None else tuple(claims["read_paths"]),
        write_paths=None if claims["write_paths"] is None else tuple(claims["write_paths"]),
    )
