import base64
import dataclasses
import json

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from memoryos_core.clock import ManualClock
from memoryos_core.errors import NotAllowed, TokenAudience, TokenExpired, TokenInvalid
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity, TokenSigner, TokenVerifier, narrow

U42 = Identity(tenant="acme", user="u42", roles=frozenset({"user", "reviewer"}), groups=frozenset({"sales-east"}))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def dev(clock):
    return PrivateKey.generate("memoryos-dev", Use.SUBJECT)


@pytest.fixture
def service_key():
    return PrivateKey.generate("tool-gateway", Use.SERVICE)


@pytest.fixture
def signer(dev, clock):
    return TokenSigner(dev, clock, UlidSource(clock))


@pytest.fixture
def verifier(dev, service_key, clock):
    return TokenVerifier(KeySet([dev.public, service_key.public]), "memoryfs", clock)


def forge(dev, claims, *, headers=None, key=None, algorithm="EdDSA"):
    return jwt.encode(
        claims, key or dev.private, algorithm=algorithm, headers={"kid": dev.kid, "typ": "at+jwt", **(headers or {})}
    )


def claims_of(token):
    return jwt.decode(token, options={"verify_signature": False})


def test_a_token_gives_back_its_identity(signer, verifier):
    asked = dataclasses.replace(
        U42, clearance=3, chain=("planner", "helper"), session_id="ses_1", task_id="task_1",
        read_paths=("/tenants/acme/memory/episodic/u42",), write_paths=(),
    )  # fmt: skip
    got = verifier.subject(signer.subject(asked, audience=["memoryfs"], ttl_s=300))
    assert dataclasses.replace(got, issuer="", token_id="", expire_time=asked.expire_time) == asked
    assert got.principals == (
        "agent:u42/helper", "group:sales-east", "role:reviewer", "role:user", "tenant:*", "user:u42",
    )  # fmt: skip


def test_the_innermost_actor_is_the_outermost_act_claim(signer):
    token = signer.subject(dataclasses.replace(U42, chain=("planner", "helper")), audience=["memoryfs"], ttl_s=60)
    assert claims_of(token)["act"] == {"sub": "agent:u42/helper", "act": {"sub": "agent:u42/planner"}}


def test_audience_must_name_this_service(signer, verifier):
    with pytest.raises(TokenAudience):
        verifier.subject(signer.subject(U42, audience=["harness"], ttl_s=60))
    assert verifier.subject(signer.subject(U42, audience=["memoryos"], ttl_s=60)).user == "u42"


def test_times_are_those_of_the_injected_clock(signer, verifier, clock):
    token = signer.subject(U42, audience=["memoryfs"], ttl_s=60)
    clock.advance(64)
    assert verifier.subject(token).user == "u42"
    clock.advance(2)
    with pytest.raises(TokenExpired):
        verifier.subject(token)


def test_a_token_of_the_future_is_refused(signer, verifier, clock, dev):
    future = claims_of(signer.subject(U42, audience=["memoryfs"], ttl_s=60))
    for name in ("iat", "nbf", "exp"):
        future[name] += 3600
    with pytest.raises(TokenExpired):
        verifier.subject(forge(dev, future))


@pytest.mark.parametrize(
    "change",
    [
        {"roles": ["root"]},
        {"roles": "user"},
        {"roles": [1]},
        {"tenant": ""},
        {"tenant": "*"},
        {"tenant": "a/b"},
        {"tenant": None},
        {"sub": ""},
        {"sub": "a\u202eb"},
        {"clearance": True},
        {"clearance": 99},
        {"clearance": "9"},
        {"exp": 1e12},
        {"exp": 10**12},
        {"act": "agent:u42/x"},
        {"act": {"sub": "agent:other/x"}},
        {"act": {"sub": "agent:u42/x", "extra": 1}},
        {"act": {"sub": "agent:u42/x", "act": {"sub": "user:u42"}}},
        {"read_paths": ["/tenants/other/memory/episodic"]},
        {"read_paths": "/tenants/acme/memory/episodic"},
        {"write_paths": ["/etc/passwd"]},
        {"groups": ["x"] * 201},
    ],
)
def test_a_signed_token_with_impossible_claims_is_refused(signer, verifier, dev, change):
    claims = claims_of(signer.subject(U42, audience=["memoryfs"], ttl_s=60)) | change
    with pytest.raises(TokenInvalid):
        verifier.subject(forge(dev, claims))


@pytest.mark.parametrize("missing", ["iss", "sub", "aud", "exp", "iat", "nbf", "jti", "tenant"])
def test_a_token_without_a_claim_is_refused(signer, verifier, dev, missing):
    claims = claims_of(signer.subject(U42, audience=["memoryfs"], ttl_s=60))
    del claims[missing]
    with pytest.raises(TokenInvalid):
        verifier.subject(forge(dev, claims))


def test_foreign_algorithms_are_refused(signer, verifier, dev):
    claims = claims_of(signer.subject(U42, audience=["memoryfs"], ttl_s=60))
    public = dev.public.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    none = jwt.encode(claims, None, algorithm="none", headers={"kid": dev.kid, "typ": "at+jwt"})
    body = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "HS256", "kid": dev.kid, "typ": "at+jwt"}, claims)
    )
    import hashlib
    import hmac as hmac_module

    signature = hmac_module.new(public, body.encode(), hashlib.sha256).digest()
    hs256 = body + "." + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    for token in (none, hs256, "", "a.b.c", "x" * 9000, "é.é.é"):
        with pytest.raises(TokenInvalid):
            verifier.subject(token)


def test_edited_claims_break_the_signature(signer, verifier):
    head, body, signature = signer.subject(U42, audience=["memoryfs"], ttl_s=60).split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["roles"] = ["tenant-admin"]
    edited = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(TokenInvalid):
        verifier.subject(f"{head}.{edited}.{signature}")


def test_a_key_signs_for_its_issuer_and_use_only(signer, verifier, dev, service_key, clock):
    claims = claims_of(signer.subject(U42, audience=["memoryfs"], ttl_s=60))
    with pytest.raises(TokenInvalid):
        verifier.subject(forge(dev, claims | {"iss": "memoryos-harness"}))
    with pytest.raises(TokenInvalid):
        verifier.subject(forge(dev, claims, headers={"kid": "unknown"}))
    service = TokenSigner(service_key, clock, UlidSource(clock))
    with pytest.raises(TokenInvalid):
        verifier.subject(forge(service_key, claims | {"iss": "tool-gateway"}, key=service_key.private))
    with pytest.raises(TokenInvalid):
        verifier.subject(service.service("memoryfs"))
    with pytest.raises(TokenInvalid):
        verifier.service(signer.subject(U42, audience=["memoryfs"], ttl_s=60))
    with pytest.raises(ValueError, match="signs no subject"):
        service.subject(U42, audience=["memoryfs"], ttl_s=60)


def test_a_service_token_is_for_one_callee(verifier, service_key, clock):
    service = TokenSigner(service_key, clock, UlidSource(clock))
    assert verifier.service(service.service("memoryfs")) == "tool-gateway"
    with pytest.raises(TokenAudience):
        verifier.service(service.service("policy"))


def test_narrowing_never_widens():
    grant = dataclasses.replace(U42, read_paths=("/tenants/acme/memory/episodic",))
    child = narrow(
        grant, agent="helper", session_id="s", task_id="t",
        read_paths=["/tenants/acme/memory/episodic/u42"], write_paths=["/tenants/acme/memory/episodic/u42"],
    )  # fmt: skip
    assert child.roles == {"agent", "user"}
    assert child.chain == ("helper",)
    assert (child.tenant, child.user, child.groups) == ("acme", "u42", U42.groups)
    for paths in (["/tenants/acme/memory/semantic"], ["/tenants/other/memory/episodic"]):
        with pytest.raises(NotAllowed):
            narrow(grant, agent="helper", session_id="s", task_id="t", read_paths=paths, write_paths=[])
    with pytest.raises(NotAllowed):
        narrow(child, agent="sub", session_id="s", task_id="t", read_paths=grant.read_paths, write_paths=[])


def test_a_chain_has_a_limit():
    with pytest.raises(NotAllowed):
        narrow(
            dataclasses.replace(U42, chain=("a",) * 16),
            agent="b", session_id="s", task_id="t", read_paths=[], write_paths=[],
        )  # fmt: skip


def test_an_empty_ceiling_lets_nothing_through_and_none_lets_all_of_the_tenant():
    from memoryos_core.paths import MemoryPath

    own, foreign = (MemoryPath.parse(f"/tenants/{name}/memory/episodic") for name in ("acme", "other"))
    assert not Scope.of(dataclasses.replace(U42, read_paths=())).may_read(own)
    assert Scope.of(U42).may_read(own)
    assert not Scope.of(U42).may_read(foreign)


def test_keys_read_back_from_their_files(tmp_path, dev):
    dev.save(tmp_path / "dev.pem")
    loaded = PrivateKey.load(tmp_path / "dev.pem")
    assert (loaded.kid, loaded.issuer, loaded.use) == (dev.kid, dev.issuer, dev.use)
    assert (tmp_path / "dev.pem").stat().st_mode & 0o777 == 0o600
    KeySet([dev.public]).save(tmp_path / "jwks.json")
    assert KeySet.load(tmp_path / "jwks.json").find(dev.kid, Use.SUBJECT) is not None
    assert KeySet.load(tmp_path / "jwks.json").find(dev.kid, Use.SERVICE) is None
