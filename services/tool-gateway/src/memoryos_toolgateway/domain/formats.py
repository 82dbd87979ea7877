"""The formats that skills may declare; each is asserted.

Other formats are refused at registration. A value longer than FORMAT_LENGTH_MAX
never has a format, which bounds what checking costs.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, Final

import idna

from memoryos_toolgateway.domain.patterns import PatternRefused, compile_pattern

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

# RFC 3987: what an IRI has beyond a URI; none of it is private or unassigned for good.
_BEYOND: Final = re.compile(
    "[\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd\U00020000-\U0002fffd\U00030000-\U0003fffd]"
)
_VARIABLE: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*(?::[1-9][0-9]{0,3}|\*)?"
_TEMPLATE: Final = compile_pattern(
    rf"^(?:[^\x00-\x20\"'%<>\\^`{{|}}]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*$"
)
_RELATIVE_POINTER: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)\Z", re.ASCII)


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


def _is_uri_reference(text: str) -> bool:
    return _is_uri(text) or _RELATIVE_REFERENCE.matches(text)


def _is_idn_hostname(text: str) -> bool:
    try:
        return 0 < len(text) <= 253 and bool(idna.encode(text, strict=True))
    except idna.IDNAError:
        return False


def _is_idn_email(text: str) -> bool:
    local, at, host = text.rpartition("@")
    if (
        not at
        or not 0 < len(local) <= 64
        or any(c.isspace() or not c.isprintable() or c in '@"<>()[],;:\\' for c in local)
    ):
        return False
    return not (local.startswith(".") or local.endswith(".") or ".." in local) and _is_idn_hostname(host)


def _is_regex(text: str) -> bool:
    try:
        compile_pattern(text)
    except PatternRefused:
        return False
    return True


def _is_base64(text: str) -> bool:
    return text.isascii() and bool(base64.b64decode(text, validate=True) or True)


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
    "uri-reference": _is_uri_reference,
    "json-pointer": lambda text: bool(_POINTER.match(text)),
    "relative-json-pointer": lambda text: bool(_RELATIVE_POINTER.match(text)),
    "idn-email": _is_idn_email,
    "idn-hostname": _is_idn_hostname,
    "iri": lambda text: _is_uri(_BEYOND.sub("a", text)),
    "iri-reference": lambda text: _is_uri_reference(_BEYOND.sub("a", text)),
    "uri-template": _TEMPLATE.matches,
    "regex": _is_regex,
    # Of OpenAPI, which many tools are written in.
    "url": _is_uri,
    "byte": _is_base64,
    "binary": lambda text: True,
    "password": lambda text: True,
}

NUMBER_FORMATS: Final[dict[str, Callable[[Any], bool]]] = {
    "int32": lambda number: number == int(number) and -(2**31) <= number < 2**31,
    "int64": lambda number: number == int(number) and -(2**63) <= number < 2**63,
    "float": lambda number: abs(number) <= 3.4028235e38,
    "double": lambda number: abs(number) <= 1.7976931348623157e308,
}
"""Formats of numbers (OpenAPI); of a string, they say nothing."""


def has_number_format(value: object, declared: str) -> bool:
    """Tell whether a value that is no string has the declared format; formats of strings say nothing of it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or declared not in NUMBER_FORMATS:
        return True
    return NUMBER_FORMATS[declared](value)


def has_format(text: str, declared: str) -> bool:
    """Tell whether `text` has the declared format, one of FORMATS or, which say nothing of it, NUMBER_FORMATS."""
    if declared in NUMBER_FORMATS:
        return True
    if len(text) > FORMAT_LENGTH_MAX:
        return False
    try:
        return FORMATS[declared](text)
    except ValueError:
        return False
