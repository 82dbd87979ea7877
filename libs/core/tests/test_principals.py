import pytest
from memoryos_core.principals import is_principal, person


@pytest.mark.parametrize(
    "text", ["user:u42", "user:张曼婷", "group:sales-east", "role:auditor", "agent:u42/helper", "tenant:*", "user:a:b"]
)
def test_principals(text):
    assert is_principal(text)


@pytest.mark.parametrize(
    "text",
    ["", "user:", "user:*", "user:a/b", "tenant:acme", "agent:u42", "agent:u42/", "agent:/x", "agent:a/b/c", "User:u42",
     "user:a b", "user:a\u200b", "user:a\n", "user:" + "x" * 201, "user:e\u0301"],
)  # fmt: skip
def test_what_is_no_principal(text):
    assert not is_principal(text)


def test_names_of_one_person():
    assert len({person(name) for name in ("Alice", "alice", "ALICE", "\uff21\uff4c\uff49\uff43\uff45")}) == 1
    assert person("stra\u00dfe") == person("STRASSE")
    assert person("alice") != person("\u0430lice")
