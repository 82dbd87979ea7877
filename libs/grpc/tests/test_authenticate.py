"""FAULTS I1, I6: identity comes from two verified tokens and from nothing else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.policy.v1 import reviews_pb2, reviews_pb2_grpc
from memoryos_core.clock import ManualClock
from memoryos_core.errors import TokenExpired
from memoryos_core.ids import UlidSource
from memoryos_core.tokens import Identity, TokenSigner, TokenVerifier
from memoryos_grpc import DenialKind, remote_error
from memoryos_grpc.token_cache import ENTRIES_MAX, VerifiedTokens

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
CALL = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV"
DEC = "dec_01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def outcome(site, server, metadata) -> str:
    """Reason that Get is refused with, or "OK"."""
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    return await reason_of(stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=tuple(metadata)), "UNAUTHENTICATED")


async def reason_of(call, code) -> str:
    """Reason that a call is refused with, or "OK"."""
    try:
        await call
    except grpc.aio.AioRpcError as refused:
        error = remote_error(refused)
        return error.reason if error.code == code else f"{error.code} instead of {code}"
    return "OK"


def b64(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def forged(keys, *, header=None, claims=None, key=None, algorithm="EdDSA") -> str:
    """A token like ours but for what is given."""
    now = int(time.time())
    body = {
        "sub": "u42",
        "tenant": "acme",
        "roles": ["user"],
        "groups": [],
        "clearance": 0,
        "aud": ["memoryos"],
        "iss": "memoryos-dev",
        "iat": now,
        "nbf": now,
        "exp": now + 300,
        "jti": "tok_1",
    }
    head = {"kid": keys.subject.kid, "typ": "at+jwt", **(header or {})}
    return jwt.encode({**body, **(claims or {})}, key or keys.subject.private, algorithm=algorithm, headers=head)


async def test_the_unchanged_token_is_taken(site, memory_server, keys):
    assert await outcome(site, memory_server, [("authorization", f"Bearer {forged(keys)}")]) == "OK"


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        [("x-user-id", "admin")],
        [("x-user-id", "admin"), ("x-user-id", "root")],
        [("x-user-id-bin", b"admin")],
        [("x-memoryos-user", "admin"), ("x-memoryos-tenant", "acme"), ("x-agent-name", "root")],
        [("x-forwarded-user", "admin"), ("cookie", "session=admin")],
        [("authorization", "")],
    ],
)
async def test_other_metadata_never_says_who_calls(site, memory_server, memoryfs, metadata):
    assert await outcome(site, memory_server, metadata) == "TOKEN_MISSING"
    assert memoryfs.requests == []


async def test_identity_metadata_beside_a_token_changes_nothing(site, memory_server, memoryfs, bearer):
    from memoryos_grpc import scope

    seen = []

    async def behaviour(request, context):
        seen.append(scope())

    memoryfs.behaviour = behaviour
    extra = [("x-user-id", "admin"), ("x-user-id-bin", b"admin"), ("x-tenant", "other")]
    assert await outcome(site, memory_server, [*bearer, *extra]) == "OK"
    assert (seen[0].tenant, seen[0].user) == ("acme", "u42")


async def test_doubled_and_binary_twins_are_refused(site, memory_server, memoryfs, bearer, keys):
    service = keys.signer(keys.gateway).service("memoryfs")
    other = ("authorization", f"Bearer {keys.token(Identity(tenant='acme', user='u1', roles=frozenset({'user'})))}")
    for metadata in (
        [*bearer, *bearer],
        [*bearer, other],
        [other, *bearer],
        [*bearer, ("authorization", "")],
        [*bearer, ("authorization-bin", b"Bearer x")],
        [("authorization-bin", bearer[0][1].encode())],
        [*bearer, ("x-memoryos-service-token", service), ("x-memoryos-service-token", service)],
        [*bearer, ("x-memoryos-service-token-bin", service.encode())],
        [("authorization", f"{bearer[0][1]}, {bearer[0][1]}")],
        [("authorization", f"Bearer {keys.token()} ")],
        [("authorization", f"Basic {keys.token()}")],
        [("authorization", keys.token())],
    ):
        assert await outcome(site, memory_server, metadata) == "TOKEN_INVALID", metadata
    assert memoryfs.requests == []


async def test_forged_tokens_at_the_wire(site, memory_server, memoryfs, keys):
    raw_public = keys.subject.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    pem_public = keys.subject.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body, signature = forged(keys).split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "==="))
    now = int(time.time())

    def hs256(secret: bytes) -> str:
        header = b64(json.dumps({"alg": "HS256", "typ": "at+jwt", "kid": keys.subject.kid}).encode())
        mac = hmac.new(secret, f"{header}.{body}".encode(), hashlib.sha256).digest()
        return f"{header}.{body}.{b64(mac)}"

    none = b64(json.dumps({"alg": "none", "typ": "at+jwt", "kid": keys.subject.kid}).encode())
    edited = b64(json.dumps({**claims, "roles": ["tenant-admin"]}).encode())
    past = {"iat": now - 700, "nbf": now - 700, "exp": now - 60}
    future = {"iat": now + 600, "nbf": now + 600, "exp": now + 900}
    cases = {
        f"{none}.{body}.": "TOKEN_INVALID",
        f"{none}.{body}.{signature}": "TOKEN_INVALID",
        hs256(raw_public): "TOKEN_INVALID",
        hs256(pem_public): "TOKEN_INVALID",
        f"{head}.{edited}.{signature}": "TOKEN_INVALID",
        f"{head}.{body}": "TOKEN_INVALID",
        f"{head}.{body}.{signature[:-4]}AAAA": "TOKEN_INVALID",
        forged(keys, claims={"aud": ["policy"]}): "TOKEN_AUDIENCE",
        forged(keys, claims={"aud": "elsewhere"}): "TOKEN_AUDIENCE",
        forged(keys, claims={"aud": []}): "TOKEN_AUDIENCE",
        forged(keys, claims=past): "TOKEN_EXPIRED",
        forged(keys, claims=future): "TOKEN_EXPIRED",
        forged(keys, claims={"exp": now + 10**9}): "TOKEN_INVALID",
        forged(keys, header={"kid": "unknown"}): "TOKEN_INVALID",
        forged(keys, header={"kid": keys.gateway.kid}): "TOKEN_INVALID",
        forged(keys, key=keys.stranger.private): "TOKEN_INVALID",
        forged(keys, claims={"iss": "tool-gateway"}): "TOKEN_INVALID",
        forged(keys, claims={"roles": ["root"]}): "TOKEN_INVALID",
        forged(keys, header={"typ": "svc+jwt"}): "TOKEN_INVALID",
        keys.signer(keys.gateway).service("memoryfs"): "TOKEN_INVALID",
        "a" * 9000: "TOKEN_INVALID",
        "..": "TOKEN_INVALID",
    }
    for token, reason in cases.items():
        assert await outcome(site, memory_server, [("authorization", f"Bearer {token}")]) == reason, token[:60]
    assert memoryfs.requests == []
    assert len(site.audit.denials) == len(cases)
    assert {kind for kind, *_ in site.audit.denials} == {DenialKind.AUTH_FAILED}
    assert all(caller is None for _, _, caller, _ in site.audit.denials)


async def test_the_largest_tokens_always_fit(site, review_server, keys):
    """gRPC's default limit refuses metadata above 8 kB at random; a token with many groups comes near it."""
    groups = frozenset(f"group-{n:04d}-" + "x" * 14 for n in range(200))
    identity = Identity(tenant="acme", user="u42", roles=frozenset({"user"}), groups=groups)
    token = keys.token(identity)
    assert 7_500 < len(token) <= 8_192
    service = keys.signer(keys.gateway).service("policy")
    metadata = (("authorization", f"Bearer {token}"), ("x-memoryos-service-token", service), ("x-other", "y" * 13_500))
    stub = reviews_pb2_grpc.ReviewsStub(site.bare_channel(review_server))
    for _ in range(30):
        await stub.ListReviews(reviews_pb2.ListReviewsRequest(), metadata=metadata)


async def test_a_bad_service_token_is_refused_even_where_none_is_needed(site, memory_server, keys, bearer):
    for token, reason in (
        (keys.signer(keys.gateway).service("policy"), "TOKEN_AUDIENCE"),
        (keys.token(), "TOKEN_INVALID"),
        ("x", "TOKEN_INVALID"),
        ("", "TOKEN_INVALID"),
    ):
        assert await outcome(site, memory_server, [*bearer, ("x-memoryos-service-token", token)]) == reason


async def test_only_the_named_services_reach_an_inner_method(site, review_server, keys, bearer):
    request = reviews_pb2.OpenReviewRequest(call_id=CALL, action_digest="ab", decision_id=DEC)
    stub = reviews_pb2_grpc.ReviewsStub(site.bare_channel(review_server))

    async def reason(extra=()) -> str:
        return await reason_of(stub.OpenReview(request, metadata=(*bearer, *extra)), "PERMISSION_DENIED")

    def service_token(key):
        return (("x-memoryos-service-token", keys.signer(key).service("policy")),)

    assert await reason() == "SERVICE_TOKEN_REQUIRED"
    assert await reason(service_token(keys.memoryfs)) == "SERVICE_TOKEN_REQUIRED"
    assert await reason(service_token(keys.gateway)) == "OK"
    kinds = [(kind, caller.identity.user, caller.service) for kind, _, caller, _ in site.audit.denials]
    assert kinds == [(DenialKind.PERMISSION_DENIED, "u42", None), (DenialKind.PERMISSION_DENIED, "u42", "memoryfs")]


async def test_a_service_token_alone_is_nobody(site, memory_server, keys):
    token = keys.signer(keys.gateway).service("memoryfs")
    assert await outcome(site, memory_server, [("x-memoryos-service-token", token)]) == "TOKEN_MISSING"


async def test_roles_are_looked_at_before_the_request(site, memory_server, review_server, keys):
    """PERMISSION_DENIED comes first: a caller without the role learns nothing, not even what is malformed."""
    auditor = Identity(tenant="acme", user="eve", roles=frozenset({"auditor"}))
    metadata = (("authorization", f"Bearer {keys.token(auditor)}"),)
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    for request in (memoryfs_pb2.GetRequest(id=MEM), memoryfs_pb2.GetRequest(id="no id")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Get(request, metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert remote_error(refused.value).reason == "ROLE_REQUIRED"
    reviews = reviews_pb2_grpc.ReviewsStub(site.bare_channel(review_server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await reviews.ResolveReview(reviews_pb2.ResolveReviewRequest(), metadata=metadata)
    assert remote_error(refused.value).reason == "ROLE_REQUIRED"


def test_a_kept_verification_ends_with_the_token(keys):
    clock = ManualClock()
    signer = TokenSigner(keys.subject, clock, UlidSource(clock))
    identity = Identity(tenant="acme", user="u42", roles=frozenset({"user"}))
    tokens = VerifiedTokens(TokenVerifier(keys.key_set(), "memoryfs", clock), clock)
    token = signer.subject(identity, audience=["memoryfs"], ttl_s=30)
    first = tokens.caller(token, None)
    assert tokens.caller(token, None) is first
    assert tokens.caller(token, "tool-gateway").service == "tool-gateway"
    clock.advance(40)
    with pytest.raises(TokenExpired):
        tokens.caller(token, None)


def test_a_kept_verification_is_asked_again_after_a_minute(keys):
    clock = ManualClock()
    signer = TokenSigner(keys.gateway, clock, UlidSource(clock))
    tokens = VerifiedTokens(TokenVerifier(keys.key_set(), "memoryfs", clock), clock)
    token = signer.service("memoryfs")
    assert tokens.service(token) == "tool-gateway"
    clock.advance(66)
    with pytest.raises(TokenExpired):
        tokens.service(token)


def test_the_cache_is_bounded(keys):
    clock = ManualClock()

    class Anybody:
        def service(self, token):
            return "tool-gateway"

    tokens = VerifiedTokens(Anybody(), clock)
    body = b64(json.dumps({"exp": clock.now().timestamp() + 60}).encode())
    for number in range(ENTRIES_MAX + 100):
        tokens.service(f"{number}.{body}.x")
    assert len(tokens._services._entries) == ENTRIES_MAX
