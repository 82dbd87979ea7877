"""Calls that hand one mail to a mail server.

Everything up to the content is talk: what fails there has sent nothing. Once
the content is on its way only the server knows, so an answer that does not come
leaves the call UNKNOWN. All recipients or none: a server that refuses one gets
no content.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, Final

import aiosmtplib
from memoryos_core.canonical import canonical_json
from memoryos_core.clock import Clock

from memoryos_toolgateway.adapters.network_guard import NetworkGuard
from memoryos_toolgateway.adapters.secrets import SecretMissing, Secrets
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.addresses import AddressRefused
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.mail import CannotMail, Mail, mail_of
from memoryos_toolgateway.domain.results import result_json
from memoryos_toolgateway.domain.skill import Skill, SmtpConnector
from memoryos_toolgateway.errors import ArgumentsInvalid
from memoryos_toolgateway.ports import Attempt

_QUIT_S: Final = 1.0
_UNKNOWN: Final = Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailConnector:
    """ports.Connector over SMTP."""

    guard: NetworkGuard
    secrets: Secrets
    tls: ssl.SSLContext
    clock: Clock

    def check(self, skill: Skill, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsInvalid when no mail can be made of these arguments."""
        try:
            mail_of(_definition(skill), arguments)
        except CannotMail as error:
            raise ArgumentsInvalid.of([(error.pointer, f"expected {error}")]) from None

    async def attempt(self, attempt: Attempt) -> Outcome:
        """Hand the mail over once and say what is known then."""
        definition = _definition(attempt.skill)
        mail = mail_of(definition, attempt.arguments)
        talk = _Talk()
        try:
            async with asyncio.timeout(attempt.skill.timeout_s):
                return await self._hand_over(attempt, definition, mail, talk)
        except (AddressRefused, SecretMissing) as refused:
            _log.warning("mail not sent: the server %s", refused)
            code = messages.NETWORK_REFUSED_CODE if isinstance(refused, AddressRefused) else messages.NO_IDENTITY_CODE
            return _not_sent(code)
        except aiosmtplib.SMTPAuthenticationError:
            _log.error("mail not sent: the server does not take our password")
            return _not_sent(messages.NO_IDENTITY_CODE)
        except aiosmtplib.SMTPResponseException as answer:
            if 400 <= answer.code < 600:
                return _refused(answer.code)
            return _UNKNOWN if talk.content_sent else _not_sent(messages.NOT_SENT_CODE)
        except (aiosmtplib.SMTPException, TimeoutError, OSError, ValueError):
            return _UNKNOWN if talk.content_sent else _not_sent(messages.NOT_SENT_CODE)
        finally:
            await talk.end()

    async def _hand_over(self, attempt: Attempt, definition: SmtpConnector, mail: Mail, talk: _Talk) -> Outcome:
        endpoint = self.guard.check(definition.endpoint, (definition.endpoint,))
        password = self.secrets.read([definition.password_secret] if definition.password_secret else [])
        sock = await self.guard.open_socket(endpoint, attempt.skill.timeout_s)
        talk.server = server = aiosmtplib.SMTP(
            hostname=endpoint.host,
            sock=sock,
            timeout=attempt.skill.timeout_s,
            use_tls=definition.tls == "tls",
            start_tls=definition.tls == "starttls",
            tls_context=self.tls if definition.tls != "none" else None,
            local_hostname="memoryos",
        )
        await server.connect()
        if definition.username:
            await server.login(definition.username, password[definition.password_secret])
        await server.mail(definition.sender)
        for recipient in mail.recipients:
            await server.rcpt(recipient)
        content = self._content(attempt.call_id, definition, mail)
        talk.content_sent = True
        await server.data(content)
        accepted = {"message_id": _message_id(attempt.call_id, definition), "recipients": len(mail.recipients)}
        result = result_json(
            canonical_json(accepted), attempt.skill, attempt.arguments, secrets=tuple(password.values())
        )
        return Outcome(kind=OutcomeKind.SUCCEEDED, result=result)

    def _content(self, call_id: str, definition: SmtpConnector, mail: Mail) -> bytes:
        made = EmailMessage(policy=SMTP)
        made["From"] = definition.sender
        made["To"] = ", ".join(mail.to)
        if mail.cc:
            made["Cc"] = ", ".join(mail.cc)
        made["Subject"] = mail.subject
        made["Date"] = format_datetime(self.clock.now())
        made["Message-ID"] = _message_id(call_id, definition)
        made["Auto-Submitted"] = "auto-generated"
        made.set_content(mail.body, cte="base64")
        return made.as_bytes()


class _Talk:
    """How far the talk with the server came."""

    def __init__(self) -> None:
        self.server: aiosmtplib.SMTP | None = None
        self.content_sent = False

    async def end(self) -> None:
        """Say goodbye if the server still listens; in any case hang up."""
        if self.server is None:
            return
        try:
            async with asyncio.timeout(_QUIT_S):
                if self.server.is_connected:
                    await self.server.quit()
        except (aiosmtplib.SMTPException, TimeoutError, OSError):
            pass
        finally:
            self.server.close()


def _definition(skill: Skill) -> SmtpConnector:
    assert isinstance(skill.connector, SmtpConnector)
    return skill.connector


def _message_id(call_id: str, definition: SmtpConnector) -> str:
    """The same for every attempt at a call, so that who receives two can tell."""
    return f"<{call_id}@{definition.sender.rpartition('@')[2]}>"


def _not_sent(code: str) -> Outcome:
    """The outcome of a talk that ended before the content."""
    return Outcome(kind=OutcomeKind.NOT_SENT, error_code=code, agent_message=messages.NOT_SENT)


def _refused(code: int) -> Outcome:
    """The outcome of an answer that says no, be it to a recipient or to the content: it delivers nothing then."""
    text = messages.BUSY if code < 500 else messages.REFUSED
    return Outcome(kind=OutcomeKind.REFUSED, error_code=messages.REFUSED_CODE, agent_message=text)
