"""What the steps of Read and Explain ask of storage beside both arms. Adapters live in adapters/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from memoryos_core.scope import Scope
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.items import Item

if TYPE_CHECKING:
    from memoryos_memoryfs.ports.storage import Look


@dataclass(frozen=True, slots=True)
class KnownThen:
    """Items in the revisions that were current at an instant."""

    items: list[Item]
    truncated: bool
    """A bound ended the search: more were known."""


class Scans(Protocol):
    """Vectors, use and earlier revisions of items, in the transaction of one caller."""

    async def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        """Give the vectors of items that have one of this model, also where no search finds them."""

    async def uses(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Give how many answers held each of the items, as written down by now; 0 is left out."""

    async def known_then(self, look: Look, at: datetime, *, limit: int, bytes_max: int) -> KnownThen:
        """Give the revisions that were current at `at` and meet `look` as they were then, newest items first.

        At most `limit`, and no further one once their contents have `bytes_max` bytes.

        Only of items that the caller may read today, by the owner and readers that
        they have today; what was forgotten then, or is today, is left out.
        """


class Inspector(Protocol):
    """Items whoever may read them, for auditors: what comes of it must hold no text."""

    async def items(self, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> Mapping[str, Item]:
        """Give those of `ids` that the tenant of `scope` has, in any state.

        With `as_of` in the revision of then, if there was one, under the state,
        owner, readers, sensitivity and expiry of today where today forbids.
        """
