"""Finds in texts what should not be shown: secrets, addresses, numbers of people, cards and accounts.

Texts are compared with full-width forms and digits of other scripts folded to
ASCII and without invisible characters; what stands next to CJK text is found as
what stands between spaces. Every pattern is bounded, so a long text costs its
length.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

Span = tuple[int, int]

_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,20000}+")
_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9_\-])(?:"
    r"sk-[A-Za-z0-9_\-]{16,512}|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[A-Za-z0-9_\-]{16,255}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abposr]-[A-Za-z0-9\-]{10,255}|AIza[0-9A-Za-z_\-]{35}|npm_[A-Za-z0-9]{30,255}"
    r"|LTAI[A-Za-z0-9]{12,30}|eyJ[A-Za-z0-9_\-]{8,4096}\.[A-Za-z0-9_\-]{8,8192}\.[A-Za-z0-9_\-]{0,4096}"
    r")"
)
_HEADER: Final = re.compile(r"(?i)(?<![a-z0-9])(?:bearer|basic)\s{1,8}([a-z0-9._~+/\-]{16,8192}={0,2})")
_USERINFO: Final = re.compile(r"://([^\s/@:]{0,255}:[^\s/@]{1,255})@")
_PASSWORD: Final = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase|code)?|pwd|密码|口令|通行码)[\"']?\s{0,4}(?:[:=]|is(?![a-z])|是|为)\s{0,4}"
    r"[\"']?([!-&(-~]{4,512})"
)
_KEY: Final = re.compile(
    r"(?i)(?:secret|token|api[_\- ]?key|access[_\- ]?key|private[_\- ]?key|credentials?|密钥|令牌|私钥|凭证)"
    r"[a-z0-9_\-]{0,32}"
    r"[\"']?\s{0,4}(?:[:=]|is(?![a-z])|是|为)\s{0,4}[\"']?([A-Za-z0-9_\-+/=.~]{12,8192})"
)
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|[_\-. ])(?:pass(?:word|wd|phrase)|pwd|secret|api[_\-]?key|access[_\-]?(?:key|token)|private[_\-]?key"
    r"|client[_\-]?secret|refresh[_\-]?token|auth[_\-]?token)(?:$|[_\-. ])|密码|口令|密钥|令牌|私钥"
)
_ENTROPY_BITS_MIN: Final = 3.0
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,255}+@(?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,63}"
)
_MOBILE: Final = re.compile(r"(?<![0-9])(?:(?:\+|00)?86[ \-]?)?1[3-9][0-9][ \-]?[0-9]{4}[ \-]?[0-9]{4}(?![0-9])")
_LANDLINE: Final = re.compile(r"(?<![0-9])(?:\(0[0-9]{2,3}\) ?|0[0-9]{2,3}[ \-])[2-9][0-9]{6,7}(?![0-9])")
_INTERNATIONAL: Final = re.compile(r"(?<![0-9+])(?:\+|00)[1-9][0-9]{0,2}(?:[ .\-]?\(?[0-9]{1,4}\)?){2,6}(?![0-9])")
_AMERICAN: Final = re.compile(
    r"(?<![0-9])(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[.\-])[2-9][0-9]{2}[.\-][0-9]{4}(?![0-9])"
)
_PHONE_DIGITS: Final = range(8, 16)
_CN_ID: Final = re.compile(
    r"(?<![0-9])[1-9][0-9]{5}[ \-]?(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"[ \-]?[0-9]{3}[0-9Xx](?![0-9])"
)
_CN_ID_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CN_ID_CHECK: Final = "10X98765432"
_DIGIT_RUN: Final = re.compile(r"[0-9](?:[ \-]?[0-9]){12,}+")
_DIGIT_GROUP: Final = re.compile(r"[0-9]+")
_CARD_DIGITS: Final = range(13, 20)
_CARD_FIRST: Final = "23456"
_IBAN: Final = re.compile(r"(?i)(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}")
_INVISIBLE: Final = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")


def masked(text: str, detectors: Collection[str]) -> str:
    """Give the text with everything that the detectors find in it replaced by [redacted:NAME]."""
    folded, places = _folded(text)
    found: list[tuple[int, int, str]] = []
    for name in _ORDER:
        if name in detectors:
            found += [(start, end, name) for start, end in _FINDERS[name](folded)]
    if not found:
        return text
    found.sort(key=lambda span: (span[0], -span[1]))
    parts, at = [], 0
    for start, end, name in found:
        begin, stop = places[start], places[end - 1] + 1
        if stop <= at:
            continue
        parts += [text[at : max(begin, at)], f"[redacted:{name}]"]
        at = stop
    return "".join([*parts, text[at:]])


def names_a_secret(key: str) -> bool:
    """Tell whether a field of this name holds a secret, whatever it looks like."""
    return _SECRET_NAME.search(unicodedata.normalize("NFKC", key)) is not None


def _folded(text: str) -> tuple[str, range | list[int]]:
    """Give the text in ASCII as far as it has such a form, and where each of its characters stands."""
    if text.isascii():
        return text, range(len(text))
    characters, places = [], []
    for place, character in enumerate(text):
        if character in _INVISIBLE:
            continue
        characters.append(_ascii(character))
        places.append(place)
    return "".join(characters), places


def _ascii(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return character
    if 0xFF01 <= code <= 0xFF5E:
        return chr(code - 0xFEE0)
    if code in (0x3000, 0xA0, 0x2009, 0x202F):
        return " "
    if code in (0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212):
        return "-"
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def _secrets(text: str) -> Iterator[Span]:
    for pattern in (_PEM, _TOKEN):
        yield from (match.span() for match in pattern.finditer(text))
    for pattern in (_HEADER, _USERINFO):
        yield from (match.span(1) for match in pattern.finditer(text))
    for match in _PASSWORD.finditer(text):
        if not match[1].rstrip(".,;:)]}").isalpha():  # "password: required." is no password
            yield match.span(1)
    for match in _KEY.finditer(text):
        if _entropy_bits(match[1]) >= _ENTROPY_BITS_MIN and not match[1].isalpha():
            yield match.span(1)


def _entropy_bits(text: str) -> float:
    counts = Counter(text[:256])
    total = sum(counts.values())
    return -sum(count / total * math.log2(count / total) for count in counts.values())


def _emails(text: str) -> Iterator[Span]:
    yield from (match.span() for match in _EMAIL.finditer(text))


def _phones(text: str) -> Iterator[Span]:
    for pattern in (_MOBILE, _LANDLINE, _AMERICAN):
        yield from (match.span() for match in pattern.finditer(text))
    for match in _INTERNATIONAL.finditer(text):
        if sum(character.isdigit() for character in match[0].removeprefix("00")) in _PHONE_DIGITS:
            yield match.span()


def _cn_ids(text: str) -> Iterator[Span]:
    for match in _CN_ID.finditer(text):
        digits = re.sub("[ -]", "", match[0]).upper()
        total = sum(weight * int(digit) for weight, digit in zip(_CN_ID_WEIGHTS, digits, strict=False))
        if _CN_ID_CHECK[total % 11] == digits[17]:
            yield match.span()


def _cards(text: str) -> Iterator[Span]:
    """Runs of digit groups that add up to a card number: other numbers may stand beside it."""
    for run in _DIGIT_RUN.finditer(text):
        groups = [(run.start() + group.start(), group[0]) for group in _DIGIT_GROUP.finditer(run[0])]
        first = 0
        while first < len(groups):
            last = _card_end(groups, first)
            if last is not None:
                start, (end, digits) = groups[first][0], groups[last]
                yield start, end + len(digits)
                first = last
            first += 1


def _card_end(groups: list[tuple[int, str]], first: int) -> int | None:
    """Give the last group of the longest card number that begins with the group `first`."""
    found, digits = None, ""
    for last in range(first, min(first + _CARD_DIGITS.stop, len(groups))):
        digits += groups[last][1]
        if len(digits) >= _CARD_DIGITS.stop:
            break
        if len(digits) in _CARD_DIGITS and digits[0] in _CARD_FIRST and _luhn(digits):
            found = last
    return found


def _luhn(digits: str) -> bool:
    doubled = (int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _ibans(text: str) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        for end in range(match.end(), match.start() + 15, -1):
            before_end = text[end - 1] != " " and (
                end == len(text) or not (text[end].isascii() and text[end].isalnum())
            )
            plain = text[match.start() : end].replace(" ", "")
            if (
                before_end
                and len(plain) >= 15
                and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1
            ):
                yield match.start(), end
                break


_FINDERS: Final[Mapping[str, Callable[[str], Iterator[Span]]]] = {
    "secret": _secrets,
    "email": _emails,
    "phone": _phones,
    "cn_id_card": _cn_ids,
    "card_number": _cards,
    "iban": _ibans,
}
_ORDER: Final = ("secret", "iban", "cn_id_card", "card_number", "email", "phone")
