"""Signing keys and the set of keys that verifiers trust.

A private key file is PKCS #8 PEM with two header lines that say what it is for.
The key set is a JWKS file (RFC 7517/8037, OKP Ed25519) whose entries carry `iss`
(the one issuer that may use the key) and `use`: "subject" or "service".
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)


class Use(StrEnum):
    """What a key may sign."""

    SUBJECT = "subject"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A trusted key."""

    kid: str
    issuer: str
    use: Use
    public: Ed25519PublicKey

    def as_jwk(self) -> dict[str, str]:
        """Give the entry of the key set."""
        raw = self.public.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return {
            "kty": "OKP",
            "crv": "Ed25519",
            "alg": "EdDSA",
            "kid": self.kid,
            "iss": self.issuer,
            "use": str(self.use),
            "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode(),
        }


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key that signs for one issuer."""

    kid: str
    issuer: str
    use: Use
    private: Ed25519PrivateKey

    @classmethod
    def generate(cls, issuer: str, use: Use) -> PrivateKey:
        """Give a new key."""
        private = Ed25519PrivateKey.generate()
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(hashlib.sha256(raw).hexdigest()[:16], issuer, use, private)

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """Give the key of a file that `save` wrote; raises ValueError when it is none."""
        text = path.read_text(encoding="utf-8")
        head = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        private = load_pem_private_key(text[text.index("-----BEGIN") :].encode(), password=None)
        if not isinstance(private, Ed25519PrivateKey) or not {"Issuer", "Use"} <= set(head):
            raise ValueError(f"{path} holds no Ed25519 key with Issuer and Use")
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(hashlib.sha256(raw).hexdigest()[:16], head["Issuer"], Use(head["Use"]), private)

    def save(self, path: Path) -> None:
        """Write the key to a new file that only its owner reads."""
        pem = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"Issuer: {self.issuer}\nUse: {self.use}\n{pem}")

    @property
    def public(self) -> PublicKey:
        """The key that verifies what this one signs."""
        return PublicKey(self.kid, self.issuer, self.use, self.private.public_key())


class KeySet:
    """The keys that a verifier trusts."""

    def __init__(self, keys: Iterable[PublicKey]) -> None:
        self._keys = {key.kid: key for key in keys}

    @classmethod
    def parse(cls, jwks: Mapping[str, Any]) -> KeySet:
        """Give the set of a JWKS document; raises ValueError for any entry that is not ours."""
        keys = []
        for entry in jwks["keys"]:
            if entry.get("kty") != "OKP" or entry.get("crv") != "Ed25519":
                raise ValueError("a key set holds Ed25519 keys only")
            raw = base64.urlsafe_b64decode(entry["x"] + "=" * (-len(entry["x"]) % 4))
            keys.append(
                PublicKey(entry["kid"], entry["iss"], Use(entry["use"]), Ed25519PublicKey.from_public_bytes(raw))
            )
        return cls(keys)

    @classmethod
    def load(cls, path: Path) -> KeySet:
        """Give the set of a JWKS file."""
        return cls.parse(json.loads(path.read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Write the JWKS file, whole or not at all."""
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps({"keys": [key.as_jwk() for key in self._keys.values()]}, indent=2) + "\n")
        temporary.replace(path)

    def of_issuer(self, issuer: str, use: Use) -> tuple[PublicKey, ...]:
        """Give the keys that an issuer may use so, by id."""
        found = [key for key in self._keys.values() if key.issuer == issuer and key.use is use]
        return tuple(sorted(found, key=lambda key: key.kid))

    def find(self, kid: str, use: Use) -> PublicKey | None:
        """Give the key of that id if it may be used so."""
        key = self._keys.get(kid)
        return key if key is not None and key.use is use else None
