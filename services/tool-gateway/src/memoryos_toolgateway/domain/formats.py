"""The string formats that skills may declare; each is asserted.

Other formats are refused at registration. A value longer than FORMAT_LENGTH_MAX
never has a format, which bounds what checking costs.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Final

from memoryos_toolgateway.domain.patterns import compile_pattern

FORMAT_LENGTH_MAX: Final = 2048
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_TIME: Final = re.compile(r"(\d{2}:\d{2}):(\d{2})(\.\d+)?([zZ]|[+-]\d{2}:\d{2})\Z", re.ASCII)
_DURATION: Final = re.compile(
    r"P(?:\d+W|(?=.)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)\Z", re.ASCII
)
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z")
_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII | re.IGNORECASE)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*\Z")

# RFC 3986, appendix A, run by RE2.
_SUB: Final = "A-Za-z0-9._~!$&'()*+,;="
_CHARACTER: Final = rf"(?:[{_SUB}:@-]|%[0-9A-Fa-f]{{2}})"
_HOST: Final = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:[{_SUB}-]|%[0-9A-Fa-f]{{2}})*)"
_AUTHORITY: Final = rf"//(?:[^@/?#\[\]\\ ]*@)?{_HOST}(?::[0-9]*)?"
_TAIL: Final = rf"(?:\?(?:{_CHARACTER}|[/?])*)?(?:#(?:{_CHARACTER}|[/?])*)?$"
_PATH: Final = rf"(?:{_CHARACTER}|/)*"
_HIER: Final = rf"(?:{_AUTHORITY}(?:/{_PATH})?|/?{_CHARACTER}{_PATH}|/)?"
_FIRST: Final = rf"(?:[{_SUB}@-]|%[0-9A-Fa-f]{{2}})+"
_RELATIVE: Final = rf"(?:{_AUTHORITY}(?:/{_PATH})?|/(?:{_CHARACTER}{_PATH})?|{_FIRST}(?:/{_PATH})?)?"
_URI: Final = compile_pattern(rf"^[A-Za-z][A-Za-z0-9+.-]*:{_HIER}{_TAIL}")
_RELATIVE_REFERENCE: Final = compile_pattern(rf"^{_RELATIVE}{_TAIL}")


def _is_date(text: str) -> bool:
    if not _DATE.match(text):
        return False
    date.fromisoformat(text)
    return True


def _is_time(text: str) -> bool:
    match = _TIME.match(text)
    if not match:
        return False
    offset = "+00:00" if match[4] in "zZ" else match[4]
    parsed = time.fromisoformat(f"{match[1]}:{'59' if match[2] == '60' else match[2]}{offset}")
    if match[2] != "60":
        return True
    shift = parsed.utcoffset()
    minutes = parsed.hour * 60 + parsed.minute - (int(shift.total_seconds() // 60) if shift else 0)
    return minutes % (24 * 60) == 24 * 60 - 1  # RFC 3339: leap seconds come at the end of a UTC day


def _is_date_time(text: str) -> bool:
    head, separator, tail = text[:10], text[10:11], text[11:]
    if separator not in ("T", "t") or not (_is_date(head) and _is_time(tail)):
        return False
    datetime.fromisoformat(head)
    return True


def _is_hostname(text: str) -> bool:
    return 0 < len(text) <= 253 and all(_LABEL.match(label) for label in text.split("."))


def _is_email(text: str) -> bool:
    local, at, host = text.rpartition("@")
    return bool(at) and len(local) <= 64 and bool(_LOCAL_PART.match(local)) and _is_hostname(host)


def _is_ipv4(text: str) -> bool:
    ipaddress.IPv4Address(text)
    return True


def _is_ipv6(text: str) -> bool:
    return "%" not in text and bool(ipaddress.IPv6Address(text))


def _is_uuid(text: str) -> bool:
    return bool(_UUID.match(text)) and bool(uuid.UUID(text) or True)


def _is_uri(text: str) -> bool:
    return _URI.matches(text)


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_date_time,
    "duration": lambda text: bool(_DURATION.match(text)),
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "uuid": _is_uuid,
    "uri": _is_uri,
    "uri-reference": lambda text: _is_uri(text) or _RELATIVE_REFERENCE.matches(text),
    "json-pointer": lambda text: bool(_POINTER.match(text)),
}


def has_format(text: str, declared: str) -> bool:
    """Tell whether `text` has the declared format, which must be one of FORMATS."""
    if len(text) > FORMAT_LENGTH_MAX:
        return False
    try:
        return FORMATS[declared](text)
    except ValueError:
        return False
