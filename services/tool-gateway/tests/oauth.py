"""A real authorisation server for token exchange (RFC 8693), and an upstream that takes its tokens."""

import asyncio
import json
import secrets
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote

from memoryos_core.config import SecretFile
from memoryos_core.errors import MemoryOSError
from memoryos_core.tokens import TokenVerifier
from memoryos_toolgateway.config import TokenExchange

from .upstream import Request, read_request, send_response

CLIENT = ("gate:way",)
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"


@dataclass
class OAuthServer:
    """Exchanges tokens that `verifier` takes, at /token; /customers/{name} is an upstream that takes what it gave."""

    verifier: TokenVerifier
    client_secret: str
    audiences: frozenset[str] = frozenset({"crm"})
    lifetime_s: float = 300
    port: int = 0
    given: dict[str, str] = field(default_factory=dict)
    """Token to user."""
    exchanges: int = 0
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """What the next exchanges answer instead."""
    owners: dict[str, str] = field(default_factory=dict)
    """Customer to the user who may read it."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def section(self, folder: Path) -> TokenExchange:
        file = folder / "oauth-client"
        file.write_text(self.client_secret + "\n")
        return TokenExchange(
            endpoint=self.address, scheme="http", path="/token", client_id=CLIENT[0],
            client_secret_file=SecretFile(file),
        )  # fmt: skip

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            status, body = self._token(request) if request.path == "/token" else self._customer(request)
            await send_response(writer, status, body)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _token(self, request: Request) -> tuple[int, bytes]:
        self.exchanges += 1
        if self.answers:
            return self.answers.pop(0)
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        client, _, secret = b64decode(encoded).decode().partition(":")
        if scheme != "Basic" or (unquote(client), unquote(secret)) != (CLIENT[0], self.client_secret):
            return 401, b'{"error":"invalid_client"}'
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if form.get("grant_type") != GRANT or request.headers["content-type"] != "application/x-www-form-urlencoded":
            return 400, b'{"error":"unsupported_grant_type"}'
        if form.get("audience") not in self.audiences:
            return 400, b'{"error":"invalid_target"}'
        try:
            identity = self.verifier.subject(form["subject_token"])
        except MemoryOSError:
            return 400, b'{"error":"invalid_grant"}'
        token = secrets.token_urlsafe(24)
        self.given[token] = identity.user
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s,
                  "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}  # fmt: skip
        return 200, json.dumps(answer).encode()

    def _customer(self, request: Request) -> tuple[int, bytes]:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        user = self.given.get(token)
        if user is None:
            return 401, b"{}"
        name = request.path.rpartition("/")[2]
        if self.owners.get(name) != user:
            return 403, json.dumps({"error": f"{user} may not, {token}"}).encode()
        return 200, json.dumps({"customer": name, "seen_by": user, "echo": token}).encode()


@asynccontextmanager
async def serving_oauth(verifier: TokenVerifier) -> AsyncIterator[OAuthServer]:
    server = OAuthServer(verifier, secrets.token_hex(8))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
