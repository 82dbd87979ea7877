"""Give calls of the journal, newest first, without what was asked and answered."""

from __future__ import annotations

from typing import Final

from memoryos_core.canonical import canonical_json
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.ports import CallBook, CallFilter, Journal

PAGE_SIZE_DEFAULT: Final = 50
_METHOD: Final = "ListCalls"


async def list_calls(
    journal: Journal, book: CallBook, scope: Scope, wanted: CallFilter, page: tuple[int, str]
) -> tuple[list[Call], str]:
    """Give one page (size, token) of calls and the token of the next.

    A user sees the calls made on their behalf, an agent its own and those of
    agents below it; auditors and operators see all of the tenant.
    """
    page_size, page_token = page
    tokens = PageTokens(await journal.page_key(scope))
    filter_bytes = canonical_json([wanted.state or "", wanted.skill, wanted.session_id, wanted.task_id])
    after = tokens.decode(scope, _METHOD, filter_bytes, page_token)
    size = page_size or PAGE_SIZE_DEFAULT
    found = await book.list_calls(scope, wanted, after, size + 1)
    calls = [call.without_contents() for call in found[:size]]
    more = len(found) > size
    return calls, tokens.encode(scope, _METHOD, filter_bytes, (calls[-1].id,)) if more else ""
