"""The key that signs the chain: a file that no database role can read.

Private: PKCS #8 PEM, mode 0600. Public: `<name>.pub` beside it, one PEM block per
key ever used, so that old seals still verify after a change of key.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

_DOMAIN = b"memoryos audit seal\x00"
RECEIPT_DOMAIN = b"memoryos receipt\x00"
"""What is signed begins with its domain: no seal passes for a receipt."""
_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class SealKeyInvalid(ValueError):
    """A seal key file is missing, holds no Ed25519 key, or others can read it."""


@dataclass(frozen=True, slots=True)
class SealKey:
    """Signs hashes of blocks."""

    key_id: str
    private: Ed25519PrivateKey

    @classmethod
    def load(cls, path: Path) -> "SealKey":
        """The key in `path`."""
        if not path.exists() or path.stat().st_mode & 0o077:
            raise SealKeyInvalid(f"{path} is missing, or others than its owner can read it")
        private = load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(private, Ed25519PrivateKey):
            raise SealKeyInvalid(f"{path} is no Ed25519 key")
        return cls(_key_id(private.public_key()), private)

    def sign(self, block_hash: bytes, domain: bytes = _DOMAIN) -> bytes:
        """The signature of a block's hash, or of what another `domain` signs."""
        return self.private.sign(domain + block_hash)


class PublicSealKeys:
    """Checks signatures of all keys ever used."""

    def __init__(self, keys: Mapping[str, Ed25519PublicKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def load(cls, path: Path) -> "PublicSealKeys":
        """The keys in `path`."""
        keys = {}
        for block in _PEM.findall(path.read_bytes() if path.exists() else b""):
            public = load_pem_public_key(block)
            if not isinstance(public, Ed25519PublicKey):
                raise SealKeyInvalid(f"{path} holds a key that is no Ed25519 key")
            keys[_key_id(public)] = public
        if not keys:
            raise SealKeyInvalid(f"{path} is missing or holds no key")
        return cls(keys)

    def signed(self, key_id: str, signature: bytes, block_hash: bytes, domain: bytes = _DOMAIN) -> bool:
        """Whether the key of that id signed this hash (or what another `domain` signs)."""
        public = self._keys.get(key_id)
        if public is None:
            return False
        try:
            public.verify(signature, domain + block_hash)
        except InvalidSignature:
            return False
        return True


def create_seal_key(path: Path) -> None:
    """Make a key pair in `path` and `path.pub`, unless there is one."""
    public_path = public_file(path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        private = Ed25519PrivateKey.generate()
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    # Also after a kill between the two files, and after the private key was changed by hand.
    public = SealKey.load(path).private.public_key()
    block = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    known = public_path.read_bytes() if public_path.exists() else b""
    if block not in known:
        fresh = public_path.with_name(f".{public_path.name}.{os.getpid()}")
        fresh.write_bytes(known + block)
        fresh.rename(public_path)


def public_file(path: Path) -> Path:
    """Where the public half of `path` is."""
    return path.with_name(path.name + ".pub")


def _key_id(public: Ed25519PublicKey) -> str:
    return hashlib.sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]
