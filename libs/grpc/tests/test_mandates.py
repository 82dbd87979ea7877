"""A mandate is for erasure, of its own service, to one callee, for a minute; and no other token is one."""

from __future__ import annotations

import pytest
from memoryos_core.clock import ManualClock
from memoryos_core.errors import TokenAudience, TokenExpired, TokenInvalid
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import SERVICE_TTL_S_MAX, Identity, TokenSigner, TokenVerifier
from memoryos_grpc.interceptors.authenticate import Authenticate
from memoryos_grpc.methods import METHOD_RULES


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def signer(clock):
    return TokenSigner(PrivateKey.generate("memoryfs", Use.SERVICE), clock, UlidSource(clock))


@pytest.fixture
def people(clock):
    return TokenSigner(PrivateKey.generate("memoryos-dev", Use.SUBJECT), clock, UlidSource(clock))


@pytest.fixture
def verifier(signer, people, clock):
    return TokenVerifier(KeySet([signer._key.public, people._key.public]), "harness", clock)


def test_it_names_tenant_user_and_service(signer, verifier):
    who = verifier.mandate(signer.mandate("harness", tenant="acme", user="alice"))
    assert (who.tenant, who.user, who.roles, who.issuer, who.chain) == (
        "acme", "alice", frozenset({"user"}), "memoryfs", (),
    )  # fmt: skip


def test_it_is_for_one_callee_and_a_minute(signer, verifier, clock):
    with pytest.raises(TokenAudience):
        verifier.mandate(signer.mandate("policy", tenant="acme", user="alice"))
    token = signer.mandate("harness", tenant="acme", user="alice")
    clock.advance(SERVICE_TTL_S_MAX + 6)
    with pytest.raises(TokenExpired):
        verifier.mandate(token)


def test_one_kind_of_token_is_no_other(signer, people, verifier):
    mandate = signer.mandate("harness", tenant="acme", user="alice")
    person = people.subject(
        Identity(tenant="acme", user="alice", roles=frozenset({"user"})), audience=["harness"], ttl_s=60
    )
    for check, token in (
        (verifier.subject, mandate),
        (verifier.service, mandate),
        (verifier.mandate, person),
        (verifier.mandate, signer.service("harness")),
    ):
        with pytest.raises(TokenInvalid):
            check(token)
    with pytest.raises(ValueError, match="mandates"):
        people.mandate("harness", tenant="acme", user="alice")


@pytest.mark.parametrize("claims", [{"tenant": "a/b", "user": "alice"}, {"tenant": "acme", "user": ""}])
def test_it_names_no_strange_names(signer, verifier, claims):
    with pytest.raises(TokenInvalid):
        verifier.mandate(signer.mandate("harness", **claims))


def test_only_erasure_by_memoryfs_takes_one():
    mandated = {name: rule for name, rule in METHOD_RULES.items() if rule.mandated}
    assert set(mandated) == {"/memoryos.erasure.v1.Erasure/Erase", "/memoryos.erasure.v1.Erasure/FindRemains"}
    assert all(rule.services == {"memoryfs"} for rule in mandated.values())


@pytest.mark.parametrize("caller", [None, "policy", "memoryfs"])
async def test_a_mandate_needs_its_own_service_token_beside_it(signer, verifier, clock, caller):
    proceeded = []

    class Call:
        method = type("M", (), {"rule": METHOD_RULES["/memoryos.erasure.v1.Erasure/Erase"]})()
        metadata = (("authorization", f"Bearer {signer.mandate('harness', tenant='acme', user='alice')}"),)
        caller = None

    async def proceed(call):
        proceeded.append(call.caller)

    authenticate = Authenticate(verifier, clock)
    authenticate._tokens.service = lambda token: token  # who a service token names is tested elsewhere
    call = Call()
    if caller:
        call.metadata = (*call.metadata, ("x-memoryos-service-token", caller))
    if caller == "memoryfs":
        await authenticate.intercept(call, proceed)
        assert proceeded[0].identity.user == "alice"
        return
    with pytest.raises(TokenInvalid):
        await authenticate.intercept(call, proceed)
    assert not proceeded
