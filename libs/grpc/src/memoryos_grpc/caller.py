"""Who makes the call at hand, as its verified tokens say (I2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The verified caller of one call: for whom (identity) and through which service, if any."""

    identity: Identity
    service: str | None
    subject_token: str = field(repr=False)
    bound: Scope | None = None
    """The scope below what the service keeps (interceptor bound), where that is less than the token's."""

    @cached_property
    def scope(self) -> Scope:
        """The scope of storage calls made for this caller."""
        return self.bound or Scope.of(self.identity)


class NoCaller(RuntimeError):
    """There is no verified caller here: this code runs outside of an RPC."""


_caller: ContextVar[Caller | None] = ContextVar("memoryos_caller", default=None)
_subject_token: ContextVar[str | None] = ContextVar("memoryos_subject_token", default=None)


def caller() -> Caller:
    """Give the verified caller of the call at hand; raises NoCaller outside of one."""
    found = _caller.get()
    if found is None:
        raise NoCaller
    return found


def scope() -> Scope:
    """Give the scope of the call at hand; raises NoCaller outside of one."""
    return caller().scope


def set_caller(who: Caller) -> None:
    """Make `who` the caller of the current task. For the authenticate interceptor."""
    _caller.set(who)


@contextmanager
def subject_token(token: str) -> Iterator[None]:
    """Make outgoing calls inside the block on behalf of `token` instead of the caller's."""
    reset = _subject_token.set(token)
    try:
        yield
    finally:
        _subject_token.reset(reset)


def outgoing_subject_token() -> str | None:
    """Give the subject token that an outgoing call forwards, or None."""
    explicit = _subject_token.get()
    if explicit is not None:
        return explicit
    found = _caller.get()
    return found.subject_token if found else None
