import dataclasses

import pytest
from memoryos_core.errors import InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity

SCOPE = Scope.of(Identity(tenant="acme", user="u42", roles=frozenset({"user"})))
PAGES = PageTokens(b"s" * 32)


def test_a_token_gives_back_its_position_to_the_same_request_only():
    token = PAGES.encode(SCOPE, "List", b"filter", ("2026-01-01T00:00:00Z", "mem_1", 7))
    assert PAGES.decode(SCOPE, "List", b"filter", token) == ("2026-01-01T00:00:00Z", "mem_1", 7)
    others = [
        (dataclasses.replace(SCOPE, user="u43"), "List", b"filter", token),
        (dataclasses.replace(SCOPE, tenant="other"), "List", b"filter", token),
        (SCOPE, "Other", b"filter", token),
        (SCOPE, "List", b"wider", token),
        (SCOPE, "List", b"filter", token[:-2]),
        (SCOPE, "List", b"filter", "A" + token[1:]),
        (SCOPE, "List", b"filter", "!"),
        (SCOPE, "List", b"filter", "é"),
        (SCOPE, "List", b"filter", "A" * 2000),
    ]
    for scope, method, filter_bytes, given in others:
        with pytest.raises(InvalidPageToken):
            PAGES.decode(scope, method, filter_bytes, given)


def test_no_token_is_the_first_page():
    assert PAGES.decode(SCOPE, "List", b"", "") is None


def test_a_token_of_another_secret_is_refused():
    with pytest.raises(InvalidPageToken):
        PAGES.decode(SCOPE, "List", b"", PageTokens(b"t" * 32).encode(SCOPE, "List", b"", ("a",)))
