"""Verified identity: the only source of tenant, user, roles and agent chain (I2).

Tokens are JWTs signed with Ed25519 (alg EdDSA, no other). A key belongs to one
issuer and one use: keys of use "subject" sign who a call is for, keys of use
"service" sign which service makes it. The agent chain is the `act` claim of
RFC 8693: the outermost `act` is the agent that acts now, the ones inside it
acted before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jwt

from memoryos_core import principals
from memoryos_core.clock import Clock
from memoryos_core.errors import NotAllowed, TokenAudience, TokenExpired, TokenInvalid
from memoryos_core.ids import IdSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.paths import MemoryPath, PathInvalid

ROLES: Final = frozenset({"agent", "user", "reviewer", "policy-admin", "operator", "auditor", "tenant-admin"})
EDGE_AUDIENCE: Final = "memoryos"
"""Audience of tokens that people and applications hold; every service takes it."""
SUBJECT_TTL_S_MAX: Final = 24 * 3600
SERVICE_TTL_S_MAX: Final = 60
LEEWAY_S: Final = 5
CHAIN_LENGTH_MAX: Final = 16
TOKEN_BYTES_MAX: Final = 8192
NAMES_MAX: Final = 200
"""Most roles, groups or paths in one token: with user, agent and tenant:* below the 256 principals of a scope."""
CLEARANCE_MAX: Final = 9
_SUBJECT_TYPE: Final = "at+jwt"
_SERVICE_TYPE: Final = "svc+jwt"
_MANDATE_TYPE: Final = "mandate+jwt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a verified subject token says. `chain` holds agent names, outermost (first) agent first."""

    tenant: str
    user: str
    roles: frozenset[str]
    groups: frozenset[str] = frozenset()
    clearance: int = 0
    chain: tuple[str, ...] = ()
    session_id: str = ""
    task_id: str = ""
    read_paths: tuple[str, ...] | None = None
    write_paths: tuple[str, ...] | None = None
    issuer: str = ""
    token_id: str = ""
    expire_time: datetime = field(default=datetime.max.replace(tzinfo=UTC))

    @property
    def principals(self) -> tuple[str, ...]:
        """Every principal the caller stands for, sorted."""
        names = {principals.user(self.user), principals.EVERYONE}
        names.update(principals.group(name) for name in self.groups)
        names.update(principals.role(name) for name in self.roles)
        if self.chain:
            names.add(principals.agent(self.user, self.chain[-1]))
        return tuple(sorted(names))


class TokenVerifier:
    """Checks tokens for one service."""

    def __init__(self, keys: KeySet, service: str, clock: Clock) -> None:
        self._keys = keys
        self._service = service
        self._clock = clock

    def subject(self, token: str) -> Identity:
        """Give the identity of a subject token, or raise TokenInvalid, TokenExpired or TokenAudience."""
        claims = self._verify(token, use=Use.SUBJECT, kind=_SUBJECT_TYPE, ttl_s_max=SUBJECT_TTL_S_MAX)
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or not {self._service, EDGE_AUDIENCE} & {str(name) for name in audiences}:
            raise TokenAudience
        return _identity(claims)

    def service(self, token: str) -> str:
        """Give the name of the service that a service token belongs to."""
        claims = self._verify(token, use=Use.SERVICE, kind=_SERVICE_TYPE, ttl_s_max=SERVICE_TTL_S_MAX)
        if claims.get("aud") != self._service:
            raise TokenAudience
        return str(claims["iss"])

    def mandate(self, token: str) -> Identity:
        """Give for whom a service acts without that person's token; `issuer` is the service.

        Only methods that say so take one (MethodRule.mandated): erasure goes on
        after the token of who asked for it has expired.
        """
        claims = self._verify(token, use=Use.SERVICE, kind=_MANDATE_TYPE, ttl_s_max=SERVICE_TTL_S_MAX)
        if claims.get("aud") != self._service:
            raise TokenAudience
        return _identity({**claims, "roles": ["user"]})

    def _verify(self, token: str, *, use: Use, kind: str, ttl_s_max: int) -> dict[str, Any]:
        if len(token) > TOKEN_BYTES_MAX or not token.isascii():
            raise TokenInvalid
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(str(header.get("kid", "")), use)
            if header.get("alg") != "EdDSA" or header.get("typ") != kind or key is None:
                raise TokenInvalid
            claims: dict[str, Any] = jwt.decode(
                token,
                key=key.public,
                algorithms=["EdDSA"],
                issuer=key.issuer,
                # Times are checked below by the injected clock, the audience by the caller.
                options={
                    "require": ["iss", "sub", "aud", "exp", "iat", "nbf", "jti"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_aud": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise TokenInvalid from None
        self._check_times(claims, ttl_s_max)
        return claims

    def _check_times(self, claims: Mapping[str, Any], ttl_s_max: int) -> None:
        times = [claims["exp"], claims["iat"], claims["nbf"]]
        if not all(isinstance(time, int) and not isinstance(time, bool) for time in times):
            raise TokenInvalid
        expires, issued, not_before = times
        now = self._clock.now().timestamp()
        if not 0 < expires - issued <= ttl_s_max:
            raise TokenInvalid
        if now >= expires + LEEWAY_S or now < max(issued, not_before) - LEEWAY_S:
            raise TokenExpired


class TokenSigner:
    """Makes tokens of one issuer."""

    def __init__(self, key: PrivateKey, clock: Clock, ids: IdSource) -> None:
        self._key = key
        self._clock = clock
        self._ids = ids

    @classmethod
    def load(cls, private_key_file: Path, clock: Clock, ids: IdSource) -> TokenSigner:
        """Give a signer from a private key file (see memoryos_core.keys)."""
        return cls(PrivateKey.load(private_key_file), clock, ids)

    @property
    def issuer(self) -> str:
        """Issuer of the tokens; a service's name for use "service"."""
        return self._key.issuer

    def subject(self, identity: Identity, *, audience: Sequence[str], ttl_s: int) -> str:
        """Give a subject token that says what `identity` says."""
        if self._key.use is not Use.SUBJECT:
            raise ValueError("a service key signs no subject tokens")
        if not 0 < ttl_s <= SUBJECT_TTL_S_MAX:
            raise ValueError(f"a subject token lives 1..{SUBJECT_TTL_S_MAX} s")
        claims: dict[str, Any] = {
            "sub": identity.user,
            "tenant": identity.tenant,
            "roles": sorted(identity.roles),
            "groups": sorted(identity.groups),
            "clearance": identity.clearance,
            "aud": list(audience),
        }
        act: dict[str, Any] | None = None
        for name in identity.chain:
            act = {"sub": principals.agent(identity.user, name)} | ({"act": act} if act else {})
        optional = {
            "act": act,
            "sid": identity.session_id or None,
            "task": identity.task_id or None,
            "read_paths": None if identity.read_paths is None else list(identity.read_paths),
            "write_paths": None if identity.write_paths is None else list(identity.write_paths),
        }
        claims.update({name: value for name, value in optional.items() if value is not None})
        _identity({**claims, "iss": self._key.issuer, "jti": "tok", "exp": 1})  # never sign what no verifier takes
        return self._sign(claims, ttl_s, _SUBJECT_TYPE)

    def service(self, audience: str, *, ttl_s: int = SERVICE_TTL_S_MAX) -> str:
        """Give a service token for calls to the service `audience`."""
        if self._key.use is not Use.SERVICE:
            raise ValueError("a subject key signs no service tokens")
        return self._sign({"sub": self._key.issuer, "aud": audience}, ttl_s, _SERVICE_TYPE)

    def mandate(self, audience: str, *, tenant: str, user: str) -> str:
        """Give a token with which this service acts for a user of a tenant where a method allows that."""
        if self._key.use is not Use.SERVICE:
            raise ValueError("a subject key signs no mandates")
        return self._sign({"sub": user, "tenant": tenant, "aud": audience}, SERVICE_TTL_S_MAX, _MANDATE_TYPE)

    def _sign(self, claims: Mapping[str, Any], ttl_s: int, kind: str) -> str:
        now = int(self._clock.now().timestamp())
        full = {
            **claims,
            "iss": self._key.issuer,
            "iat": now,
            "nbf": now,
            "exp": now + ttl_s,
            "jti": self._ids.new("tok"),
        }
        return jwt.encode(full, self._key.private, algorithm="EdDSA", headers={"kid": self._key.kid, "typ": kind})


def narrow(
    grant: Identity,
    *,
    agent: str,
    session_id: str,
    task_id: str,
    read_paths: Collection[str],
    write_paths: Collection[str],
) -> Identity:
    """Give the identity of an agent that acts for `grant`: never wider than it.

    User, tenant, groups and clearance stay, the chain grows by `agent`, roles
    shrink to agent and, if the grant has it, user; paths must lie within the
    grant's ceilings. Raises NotAllowed otherwise.
    """
    if len(grant.chain) >= CHAIN_LENGTH_MAX:
        raise NotAllowed("The agent chain is too long.", metadata={"limit": str(CHAIN_LENGTH_MAX)})
    for asked, ceiling in ((read_paths, grant.read_paths), (write_paths, grant.write_paths)):
        for path in asked:
            wanted = MemoryPath.parse(path, field="paths")
            allowed = ceiling is None or any(MemoryPath.parse(top).contains(wanted) for top in ceiling)
            if not allowed or wanted.tenant != grant.tenant:
                raise NotAllowed("The agent asks for paths that its user's token does not reach.")
    return Identity(
        tenant=grant.tenant,
        user=grant.user,
        roles=(grant.roles & {"user"}) | {"agent"},
        groups=grant.groups,
        clearance=grant.clearance,
        chain=(*grant.chain, agent),
        session_id=session_id,
        task_id=task_id,
        read_paths=tuple(sorted(read_paths)),
        write_paths=tuple(sorted(write_paths)),
    )


def _names(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    value = claims.get(name, [])
    if not isinstance(value, list) or len(value) > NAMES_MAX:
        raise TokenInvalid
    if not all(isinstance(item, str) and principals.is_name(item) for item in value):
        raise TokenInvalid
    return frozenset(value)


def _paths(claims: Mapping[str, Any], name: str, tenant: str) -> tuple[str, ...] | None:
    if name not in claims:
        return None
    value = claims[name]
    if not isinstance(value, list) or len(value) > NAMES_MAX or not all(isinstance(item, str) for item in value):
        raise TokenInvalid
    try:
        parsed = [MemoryPath.parse(item) for item in value]
    except PathInvalid:
        raise TokenInvalid from None
    if any(path.tenant != tenant for path in parsed):
        raise TokenInvalid
    return tuple(value)


def _chain(claims: Mapping[str, Any], user: str) -> tuple[str, ...]:
    chain: list[str] = []
    act = claims.get("act")
    prefix = principals.agent(user, "")
    while act is not None:
        if not isinstance(act, dict) or not set(act) <= {"sub", "act"} or len(chain) >= CHAIN_LENGTH_MAX:
            raise TokenInvalid
        name = act.get("sub")
        # A link that names another user was spliced from another chain.
        if not isinstance(name, str) or not name.startswith(prefix) or not principals.is_name(name[len(prefix) :]):
            raise TokenInvalid
        chain.append(name[len(prefix) :])
        act = act.get("act")
    return tuple(reversed(chain))


def _label(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name, "")
    if not isinstance(value, str) or (value and not principals.is_name(value)):
        raise TokenInvalid
    return value


def _identity(claims: Mapping[str, Any]) -> Identity:
    user, tenant = _label(claims, "sub"), _label(claims, "tenant")
    clearance = claims.get("clearance", 0)
    roles = _names(claims, "roles")
    if not user or not tenant or not roles <= ROLES:
        raise TokenInvalid
    if not isinstance(clearance, int) or isinstance(clearance, bool) or not 0 <= clearance <= CLEARANCE_MAX:
        raise TokenInvalid
    return Identity(
        tenant=tenant,
        user=user,
        roles=roles,
        groups=_names(claims, "groups"),
        clearance=clearance,
        chain=_chain(claims, user),
        session_id=_label(claims, "sid"),
        task_id=_label(claims, "task"),
        read_paths=_paths(claims, "read_paths", tenant),
        write_paths=_paths(claims, "write_paths", tenant),
        issuer=str(claims["iss"]),
        token_id=str(claims["jti"]),
        expire_time=datetime.fromtimestamp(claims["exp"], UTC),
    )
