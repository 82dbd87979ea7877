"""A real mail server on loopback that keeps what it is handed, and can misbehave on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session


@dataclass
class MailServer:
    """`behaviour`: ok · refuse-rcpt: 550 for anybody at refused.example · drop-data: keeps it, then hangs up ·
    refuse-data: 554 · hang-data: keeps it, never answers · drop-mail: hangs up at MAIL · busy: 451 at MAIL."""

    port: int = 0
    behaviour: str = "ok"
    kept: list[Envelope] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)
    servers: list[SMTP] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def last(self) -> EmailMessage:
        content = self.kept[-1].content
        assert isinstance(content, bytes)
        return cast("EmailMessage", message_from_bytes(content, policy=default))

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.behaviour == "drop-mail":
            server.transport.abort()
        if self.behaviour == "busy":
            return "451 later"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.behaviour == "refuse-rcpt" and address.endswith("@refused.example"):
            return "550 no such user sk-secret"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.behaviour == "refuse-data":
            return "554 not that sk-secret"
        self.kept.append(envelope)
        if self.behaviour == "drop-data":
            server.transport.abort()
        if self.behaviour == "hang-data":
            await asyncio.Event().wait()
        return "250 OK"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"pass word", handled=False)


@asynccontextmanager
async def serving_mail(**more: Any) -> AsyncIterator[MailServer]:
    mail = MailServer()

    def server() -> SMTP:
        made = SMTP(mail, hostname="mail.test", authenticator=mail.authenticate, **more)
        mail.servers.append(made)
        return made

    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    mail.port = listening.sockets[0].getsockname()[1]
    try:
        yield mail
    finally:
        listening.close()
        for made in mail.servers:
            if made.transport is not None:
                made.transport.abort()
