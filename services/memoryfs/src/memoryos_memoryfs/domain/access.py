"""Who may do what, decided before anything is looked up.

Readable = owner, or the ACL meets the caller's principals; clearance reaches
the sensitivity; the token's ceiling reaches the path. Changing needs the owner.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryos_core import principals
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.errors import PathNotAllowed, ReadersTooWide

WIDE_ROLE = "tenant-admin"
"""The role that may open an item to everyone of the tenant."""


def check_read(scope: Scope, path: MemoryPath) -> None:
    """Raise PathNotAllowed unless tenant and token reach `path` for reading."""
    if not scope.may_read(path):
        raise PathNotAllowed


def check_write(scope: Scope, path: MemoryPath) -> None:
    """Raise PathNotAllowed unless tenant and token reach `path` for writing."""
    if not scope.may_write(path):
        raise PathNotAllowed


def owner_of(scope: Scope) -> str:
    """Give the principal that owns what the caller writes: the user, also when an agent acts."""
    return principals.user(scope.user)


def check_readers(scope: Scope, readers: Iterable[str]) -> None:
    """Raise ReadersTooWide unless the caller may let each of `readers` in.

    Until paths have settings, every path's default ACL is empty and this rule
    is the widest grant: named users and groups of the tenant, roles that the
    caller has, the caller's own agents. Everyone (tenant:*) needs a tenant-admin.
    """
    own_agents = f"agent:{scope.user}/"
    held = set(scope.principals)
    for reader in readers:
        if reader == principals.EVERYONE:
            allowed = WIDE_ROLE in scope.roles
        else:
            allowed = reader.startswith(("user:", "group:", own_agents)) or reader in held
        if not allowed:
            raise ReadersTooWide(metadata={"principal": reader})


def readable(scope: Scope, item: Item) -> bool:
    """Tell whether the caller may see that the item is there, whatever its state."""
    return scope.may_read(item.path) and item.sensitivity <= scope.clearance and admitted(scope, item)


def admitted(scope: Scope, item: Item) -> bool:
    """Tell whether owner or readers of the item meet the caller's principals."""
    held = scope.principals
    return item.owner in held or any(reader in held for reader in item.readers)


def owns(scope: Scope, item: Item) -> bool:
    """Tell whether the caller may change the item."""
    return item.owner in scope.principals


def visible(scope: Scope, item: Item) -> bool:
    """Tell whether Get serves it: forgotten to nobody, a candidate to its owner only."""
    if item.state is State.FORGOTTEN or not readable(scope, item):
        return False
    return item.state is not State.CANDIDATE or owns(scope, item)
