"""Page tokens: where a page ended, for this caller, method and filter only.

A token is base64url of HMAC-SHA256 (16 bytes) and the JSON position of the last
row (keyset paging). The MAC covers tenant, principals, method and a digest of
the request without page fields: a token of another caller or filter is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Final

from memoryos_core.canonical import canonical_json
from memoryos_core.errors import InvalidPageToken
from memoryos_core.scope import Scope

_MAC_BYTES: Final = 16
TOKEN_BYTES_MAX: Final = 1024
Position = tuple[str | int, ...]


class PageTokens:
    """Makes and checks page tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(self, scope: Scope, method: str, filter_bytes: bytes, position: Position) -> str:
        """Give the token that continues after `position`."""
        body = canonical_json(list(position))
        return base64.urlsafe_b64encode(self._mac(scope, method, filter_bytes, body) + body).rstrip(b"=").decode()

    def decode(self, scope: Scope, method: str, filter_bytes: bytes, token: str) -> Position | None:
        """Give the position of a token, None for the first page; raises InvalidPageToken."""
        if not token:
            return None
        try:
            if len(token) > TOKEN_BYTES_MAX:
                raise InvalidPageToken
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            body = raw[_MAC_BYTES:]
            if not hmac.compare_digest(raw[:_MAC_BYTES], self._mac(scope, method, filter_bytes, body)):
                raise InvalidPageToken
            return tuple(json.loads(body))
        except (binascii.Error, ValueError):
            raise InvalidPageToken from None

    def _mac(self, scope: Scope, method: str, filter_bytes: bytes, body: bytes) -> bytes:
        caller = canonical_json(
            [scope.tenant, scope.user, list(scope.principals), method, hashlib.sha256(filter_bytes).hexdigest()]
        )
        return hmac.new(self._secret, caller + b"\0" + body, hashlib.sha256).digest()[:_MAC_BYTES]
