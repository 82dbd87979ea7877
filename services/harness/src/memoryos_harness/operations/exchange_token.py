"""Give an agent that works for the caller a token of its own (RFC 8693)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.errors import InvalidField, NotAllowed, TokenExpired
from memoryos_core.tokens import Identity, narrow

from memoryos_harness.agent_ports import AgentCatalog
from memoryos_harness.domain.agents import NAME_PATTERN
from memoryos_harness.domain.grants import AUDIENCE, TOKEN_TTL_S
from memoryos_harness.errors import AgentNotFound
from memoryos_harness.ports import IssuedToken, TokenIssuer

_NAME: Final = re.compile(NAME_PATTERN.removesuffix("$"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedToken:
    """What the caller wants for its agent. No audience: all that an agent may call; no paths: none."""

    agent: str
    audience: Collection[str]
    read_paths: Collection[str]
    write_paths: Collection[str]
    ttl_s: int


async def exchange_token(
    issuer: TokenIssuer, agents: AgentCatalog, clock: Clock, caller: Identity, wanted: WantedToken
) -> IssuedToken:
    """Give a token of `wanted.agent` that acts for the caller: never wider, and never living longer, than the caller's.

    User, tenant, session, task, groups and clearance stay, the chain grows by
    the agent, roles shrink. An agent with a file makes tokens of the sub-agents
    that the file names only. Raises InvalidField, NotAllowed, AccessRevoked.
    """
    if not _NAME.fullmatch(wanted.agent):
        raise InvalidField.of("agent", f"is a name of an agent: {NAME_PATTERN}")
    for name in wanted.audience:
        if name not in AUDIENCE:
            raise InvalidField.of("audience", f"is one of {', '.join(sorted(AUDIENCE))}")
    _may_start(agents, caller, wanted.agent)
    left_s = int((caller.expire_time - clock.now()).total_seconds())
    if left_s <= 0:
        raise TokenExpired
    narrowed = narrow(
        caller,
        agent=wanted.agent,
        session_id=caller.session_id,
        task_id=caller.task_id,
        read_paths=set(wanted.read_paths),
        write_paths=set(wanted.write_paths),
    )
    return await issuer.issue(
        caller,
        replace(narrowed, expire_time=caller.expire_time),
        audience=sorted(wanted.audience or AUDIENCE),
        ttl_s=min(wanted.ttl_s or TOKEN_TTL_S, TOKEN_TTL_S, left_s),
    )


def _may_start(agents: AgentCatalog, caller: Identity, wanted: str) -> None:
    if not caller.chain:
        return
    try:
        acting = agents.find(caller.chain[-1], caller).agent
    except AgentNotFound:
        return  # an agent of another process: what it may do is in its token
    if wanted not in acting.agents:
        raise NotAllowed("The agent's file does not name this sub-agent.")
