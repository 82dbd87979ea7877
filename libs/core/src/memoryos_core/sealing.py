"""Sealed payloads: AES-256-GCM under a data key that dies with its subject.

A sealed value is: format byte 1, key id (16 bytes), nonce (12), ciphertext and
tag. The additional data binds it to its row and column, so that a sealed value
moved elsewhere does not open. Data keys are wrapped the same way under the
epoch key. Keys for search tokens, audit and digests are derived from one root
key per tenant by HKDF-SHA256, so no two uses share a key.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memoryos_core.errors import SealedKeyUnavailable

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 16
_FORMAT: Final = b"\x01"
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = 1 + KEY_ID_BYTES + _NONCE_BYTES + _TAG_BYTES
TOKEN_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class DataKey:
    """A key and its name. Never printed."""

    key_id: bytes
    key: bytes = field(repr=False)
    cipher: AESGCM = field(init=False, repr=False, compare=False)
    """AES-GCM under the key: made once, gone with it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cipher", AESGCM(self.key))

    @classmethod
    def generate(cls) -> DataKey:
        """Give a new random key."""
        return cls(secrets.token_bytes(KEY_ID_BYTES), secrets.token_bytes(KEY_BYTES))


def aad(*parts: str | int) -> bytes:
    """Give additional data that binds a value to its place, e.g. aad(tenant, "memoryfs.items.content", id, 3).

    Each part is length-prefixed: no two lists of parts give the same bytes.
    """
    encoded = [str(part).encode() for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def seal(key: DataKey, plaintext: bytes, additional: bytes) -> bytes:
    """Give the sealed form of `plaintext`, OVERHEAD_BYTES longer."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return b"".join((_FORMAT, key.key_id, nonce, key.cipher.encrypt(nonce, plaintext, additional)))


def key_id_of(sealed: bytes) -> bytes:
    """Give the id of the key that opens `sealed`."""
    if len(sealed) < OVERHEAD_BYTES or sealed[:1] != _FORMAT:
        raise SealedKeyUnavailable("The value is not sealed in a known format.")
    return sealed[1 : 1 + KEY_ID_BYTES]


def open_sealed(key: DataKey, sealed: bytes, additional: bytes) -> bytes:
    """Give the plaintext, or raise SealedKeyUnavailable when key or place is not the one it was sealed for."""
    if key_id_of(sealed) != key.key_id:
        raise SealedKeyUnavailable
    body = sealed[1 + KEY_ID_BYTES :]
    try:
        return key.cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], additional)
    except InvalidTag:
        raise SealedKeyUnavailable("The sealed value was changed or moved.") from None


def derive(root: DataKey, purpose: str) -> bytes:
    """Give the 32-byte key for one purpose, from a tenant's root key."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"memoryos:" + purpose.encode()).derive(root.key)


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """The derived keys of one tenant, one per purpose."""

    tokens: bytes = field(repr=False)
    digests: bytes = field(repr=False)
    audit: bytes = field(repr=False)
    subjects: bytes = field(repr=False)
    pages: bytes = field(repr=False)

    @classmethod
    def of(cls, root: DataKey) -> TenantKeys:
        """Derive them from the tenant's root key."""
        return cls(*(derive(root, name) for name in ("tokens", "digests", "audit", "subjects", "pages")))

    def token_hash(self, token: str) -> int:
        """Give the signed 64-bit keyed BLAKE2b of a search token, as stored in the lexical index."""
        digest = hashlib.blake2b(token.encode(), key=self.tokens, digest_size=TOKEN_HASH_BYTES).digest()
        return int.from_bytes(digest, "big", signed=True)

    def digest_hmac(self, action_digest: str) -> str:
        """Give the form of an action digest that may stand outside sealed rows, hex."""
        return mac(self.digests, action_digest)

    def audit_hmac(self, value: str) -> str:
        """Give the form in which audit rows name a value they may not hold, hex."""
        return mac(self.audit, value)


def mac(key: bytes, value: str) -> str:
    """Give HMAC-SHA256 as hex."""
    return hmac.digest(key, value.encode(), "sha256").hex()


Tx = TypeVar("Tx", contravariant=True)


class KeyRing(Protocol[Tx]):
    """Gives data keys inside a transaction of the store."""

    async def subject_key(self, tx: Tx, tenant: str, subject: str) -> DataKey:
        """Give the key that seals what concerns `subject`; made on first use."""

    async def by_id(self, tx: Tx, tenant: str, key_id: bytes) -> DataKey:
        """Give the key of that id; raises SealedKeyUnavailable once it is destroyed."""

    async def tenant_keys(self, tx: Tx, tenant: str) -> TenantKeys:
        """Give the derived keys of a tenant; its root is made on first use."""
