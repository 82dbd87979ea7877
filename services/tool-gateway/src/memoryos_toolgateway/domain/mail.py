"""A mail made of arguments: addresses of one plain form, no header that an argument could add to."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.skill import SmtpConnector

RECIPIENTS_MAX: Final = 50
SUBJECT_LENGTH_MAX: Final = 500
BODY_LENGTH_MAX: Final = 200_000
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\Z"
)
"""user@host in ASCII; no comment, no quotes, no name, no percent routes."""
_ADDRESS_LENGTH_MAX: Final = 254


class CannotMail(ValueError):
    """No mail can be made of the arguments; `pointer` names the one at fault."""

    def __init__(self, pointer: str, text: str) -> None:
        self.pointer = pointer
        super().__init__(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What is sent to whom."""

    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    body: str

    @property
    def recipients(self) -> tuple[str, ...]:
        """Everybody who gets it, each once."""
        return tuple(dict.fromkeys((*self.to, *self.cc)))


def is_address(text: str) -> bool:
    """Tell whether a text is one mail address."""
    return len(text) <= _ADDRESS_LENGTH_MAX and _ADDRESS.match(text) is not None


def mail_of(definition: SmtpConnector, arguments: dict[str, Any]) -> Mail:
    """Give the mail, or raise CannotMail."""
    to = _addresses(definition.to, arguments)
    cc = _addresses(definition.cc, arguments) if definition.cc else ()
    if not to or len(to) + len(cc) > RECIPIENTS_MAX:
        raise CannotMail(definition.to, f"1 to {RECIPIENTS_MAX} recipients in all")
    subject = _text(definition.subject, arguments, SUBJECT_LENGTH_MAX)
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in subject):
        raise CannotMail(definition.subject, "one line, for it stands in a header")
    body = _text(definition.body, arguments, BODY_LENGTH_MAX)
    if "\0" in body or any(unicodedata.category(c) == "Cs" for c in body):
        raise CannotMail(definition.body, "text without NUL")
    return Mail(to=to, cc=cc, subject=subject, body=body)


def _addresses(pointer: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    found = pointers.find(arguments, pointer)
    if found is pointers.MISSING:
        return ()
    values = found if isinstance(found, list) else [found]
    if not all(isinstance(value, str) and is_address(value) for value in values):
        raise CannotMail(pointer, "user@host in plain ASCII, or a list of them")
    return tuple(values)


def _text(pointer: str, arguments: dict[str, Any], length_max: int) -> str:
    found = pointers.find(arguments, pointer)
    if not isinstance(found, str) or len(found) > length_max:
        raise CannotMail(pointer, f"a text of at most {length_max} characters")
    return found
