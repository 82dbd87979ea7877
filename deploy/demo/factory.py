"""All that stands outside of Memory OS in the demo, and the settings that lead there."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import cast

from aiosmtpd.smtp import SMTP, Envelope, Session
from business import Books, Business, Server

HERE = Path(__file__).parent


class PostOffice:
    """A real mail server on loopback; it keeps what it is handed."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Keep one mail."""
        content = cast("bytes", envelope.content)
        self.mails.append((envelope.rcpt_tos, message_from_bytes(content, policy=default)))
        return "250 OK"

    def __enter__(self) -> PostOffice:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: SMTP(self, hostname="mail.factory", loop=self._loop), "127.0.0.1", 0)
        )
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        self._ready.set()
        self._loop.run_forever()
        server.close()


@dataclass
class Factory:
    """The business, its mail server and the settings of a deployment that reaches both."""

    business: Business
    server: Server
    post: PostOffice
    secrets: Path

    def settings(self) -> list[str]:
        """Give `section.field=value` texts; secrets are files, so none of them is in here."""
        login = {
            "endpoint": self.server.address,
            "scheme": "http",
            "path": "/login/token",
            "client_id": self.business.login.client_id,
            "client_secret_file": str(self.secrets / "login"),
        }
        return [
            f"tool-gateway.endpoints={{BUSINESS: '{self.server.address}', MAIL: '{self.post.address}'}}",
            # Both are on loopback, which is not public: they are listed with their ports.
            f"tool-gateway.networks=['{self.server.address}', '{self.post.address}']",
            f"tool-gateway.secrets={{WORK_GROUP: '{self.secrets / 'robot'}'}}",
            f"tool-gateway.token_exchanges={{business: {login}}}",
            f"tool-gateway.skill_dirs=[{HERE / 'skills'}]",
            f"harness.agents_dir={HERE / 'agents'}",
        ]


@contextmanager
def running(books: Books) -> Iterator[Factory]:
    """Run the business and its mail server until the block ends."""
    business = Business(books)
    with tempfile.TemporaryDirectory() as folder, Server(business) as server, PostOffice() as post:
        secrets = Path(folder)
        for name, text in (("login", business.login.client_secret), ("robot", business.login.robot_key)):
            file = secrets / name
            file.touch(mode=0o600)
            file.write_text(text + "\n")
        yield Factory(business, server, post, secrets)
