"""The login of the business: it exchanges a token of Memory OS for one of its own (RFC 8693).

It trusts the keys of the deployment, so the CRM sees the person who asks and
no service account. What it gives is good here only, and for minutes.
"""

from __future__ import annotations

import secrets
import time
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from memoryos_core.clock import SystemClock
from memoryos_core.errors import MemoryOSError
from memoryos_core.keys import KeySet
from memoryos_core.tokens import TokenVerifier

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
LIFETIME_S = 300


class Login:
    """Who is who."""

    def __init__(self) -> None:
        self.client_id = "memory-os"
        self.client_secret = secrets.token_urlsafe(16)
        self.robot_key = secrets.token_urlsafe(16)
        self.keys_file: Path | None = None
        """Public keys of the deployment whose tokens are taken; None: none are."""
        self._given: dict[str, tuple[str, float]] = {}

    def exchange(self, authorization: str, form: dict[str, Any]) -> dict[str, Any]:
        """Give the answer to a token request; PermissionError names the OAuth error."""
        client, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote(client), unquote(secret)) != (self.client_id, self.client_secret):
            raise PermissionError("invalid_client")
        if form.get("grant_type") != GRANT or form.get("audience") != "crm":
            raise PermissionError("invalid_target")
        if self.keys_file is None:
            raise PermissionError("invalid_grant")
        try:
            # The token was given to who exchanges it: its audience is the tool gateway.
            verifier = TokenVerifier(KeySet.load(self.keys_file), "tool-gateway", SystemClock())
            user = verifier.subject(str(form.get("subject_token"))).user
        except MemoryOSError:
            raise PermissionError("invalid_grant") from None
        token = secrets.token_urlsafe(24)
        self._given[token] = (user, time.monotonic() + LIFETIME_S)
        return {
            "access_token": token,
            "issued_token_type": ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": LIFETIME_S,
        }

    def user(self, token: str) -> str | None:
        """Give whom a token was given for, while it lasts."""
        user, until = self._given.get(token, (None, 0.0))
        return user if time.monotonic() < until else None
