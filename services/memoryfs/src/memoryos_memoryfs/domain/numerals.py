"""Numbers, dates and times of a text in one spelling, whatever they are written in: digits, words, 中文数字."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_MONTH: Final = r"(?P<month>(?:" + "|".join([*_MONTHS[:12], "sept", *_MONTHS[12:]]) + r"))\b\.?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:,?\s+(?P<year>(?:19|20)\d{2}))?\b"
_DIGITS: Final = {char: n for n, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS: Final = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_HAN: Final = "零〇一二两三四五六七八九十百千万亿"
HAN_NUMBER: Final = rf"(?:[{_HAN}](?![克米瓦卡]))+(?:[{_HAN[:11]}](?![克米瓦卡]))?"
_COUNT: Final = rf"(?:\d+|[{_HAN[:12]}]+)"
_PARTS_OF_DAY: Final = {"下午": 12, "傍晚": 12, "晚上": 12, "夜里": 12, "晚": 12, "中午": 12}
_WEEKDAYS: Final = {day: n + 1 for n, day in enumerate(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])}
_SCALES: Final = {
    "k": 1_000,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "hundred": 100,
    "百": 100,
    "千": 1_000,
    "万": 10_000,
    "亿": 100_000_000,
}
_CURRENCIES: Final = {"$": "usd", "€": "eur", "£": "gbp", "¥": "cny"}


def han_number(text: str) -> int:
    """Give the value of 中文数字: 一万二千, 二十五, 两万五 (25000), 二零二三 (digit by digit)."""
    if not any(char in _UNITS for char in text):
        return int("".join(str(_DIGITS[char]) for char in text))
    total, section, digit, unit = 0, 0, 0, 1
    zero = False
    for char in text:
        if char in _DIGITS:
            digit = _DIGITS[char]
            zero = digit == 0 or zero
            continue
        unit = _UNITS[char]
        if unit >= 10_000:
            total = (total + section + digit or 1) * unit
            section = 0
        else:
            section += (digit or 1) * unit
        digit, zero = 0, False
    # A digit that follows a unit at once counts its tenth: 一百二 is 120.
    tail = digit * (unit // 10) if text[-1] in _DIGITS and unit > 10 and not zero else digit
    return total + section + tail


def _plain(number: str) -> str:
    digits = number.replace(",", "")
    whole, _, fraction = digits.partition(".")
    return whole if fraction and not fraction.strip("0") and "." not in fraction else digits


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else han_number(text)


def _date(match: re.Match[str]) -> list[str]:
    name = match["month"].rstrip(".").lower()
    month = _MONTHS.index(name) % 12 + 1 if name in _MONTHS else 9
    return [f"d{month}-{int(match['day'])}", *([f"y{match['year']}"] if match["year"] else [])]


def _month(match: re.Match[str]) -> list[str]:
    name = match["month"].rstrip(".").lower()
    month = _MONTHS.index(name) % 12 + 1 if name in _MONTHS else 9
    return [f"m{month}", *([f"y{match['year']}"] if match["year"] else [])]


def _iso(match: re.Match[str]) -> list[str]:
    return [f"y{match[1]}", f"d{int(match[2])}-{int(match[3])}"]


def _han_date(match: re.Match[str]) -> list[str]:
    return [f"d{_count(match[1])}-{_count(match[2])}"]


def _clock(match: re.Match[str]) -> list[str]:
    hour = int(match["hour"])
    half = (match["half"] or "").replace(".", "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return [f"t{hour}:{match['minute'] or '00'}"]


def _han_clock(match: re.Match[str]) -> list[str]:
    hour = _count(match[2])
    if hour < 12:
        hour += _PARTS_OF_DAY.get(match[1] or "", 0) if not (match[1] == "中午" and hour > 9) else 0
    elif hour == 12 and match[1] in ("晚上", "夜里", "凌晨"):
        hour = 0
    rest = match[3] or ""
    minute = {"半": 30, "一刻": 15, "三刻": 45, "整": 0, "": 0}.get(rest)
    return [f"t{hour}:{_count(rest.rstrip('分')) if minute is None else minute:02}"]


def _scaled(match: re.Match[str]) -> list[str]:
    number, scale = _plain(match["number"]), match["scale"]
    if scale:
        value = float(number) * _SCALES[scale.lower()]
        number = str(int(value)) if value == int(value) else repr(value)
    after = ["percent"] if match["percent"] else []
    currency = [_CURRENCIES[match["currency"]]] if match["currency"] else []
    return [f"n{number}", *after, *currency]


def _weekday(match: re.Match[str]) -> list[str]:
    return [f"w{'一二三四五六日天'.index(match[1]) % 7 + 1 if match[1] != '天' else 7}"]


def _english_weekday(match: re.Match[str]) -> list[str]:
    day = f"w{_WEEKDAYS[match[1].lower()]}"
    return ["§EVERY", day] if match[2] else [day]


Forms = tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[str]]], ...]
_FORMS: Final[Forms] = tuple(
    (re.compile(form, flags), make)
    for form, flags, make in (
        (rf"{_MONTH}\s+{_DAY}{_YEAR}(?!:)\b", re.IGNORECASE, _date),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}", re.IGNORECASE, _date),
        (rf"(?-i:(?=[A-Z]))(?!May\b|March\b){_MONTH}{_YEAR}", re.IGNORECASE, _month),
        (r"(?-i:(?<=[Ii]n )|(?<=[Bb]y )|(?<=last )|(?<=next )|(?<=until )|(?<=[Ss]ince )|(?<=this ))(?-i:(?=[A-Z]))"
         + _MONTH + _YEAR, re.IGNORECASE, _month),
        (r"((?:19|20)\d{2})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)", 0, _iso),
        (rf"((?:19|20)\d{{2}}|[{_HAN[:11]}]{{4}})年", 0, lambda m: [f"y{_count(m[1])}"]),
        (rf"({_COUNT})月({_COUNT})[日号]", 0, _han_date),
        (rf"({_COUNT})月(?!份?[以之]?[内间])份?", 0, lambda m: [f"m{_count(m[1])}"]),
        (r"(?:周|星期|礼拜)([一二三四五六日天])", 0, _weekday),
        (r"(mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday)(s?)\b", re.IGNORECASE, _english_weekday),
        (r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\.?)(?!\w)", re.IGNORECASE, _clock),
        (r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?P<half>)(?![\d:])", 0, _clock),
        (r"(?P<hour>\d{1,2})(?P<minute>)\s*o'clock(?P<half>)", re.IGNORECASE, _clock),
        (r"\bnoon\b|正午", re.IGNORECASE, lambda m: ["t12:00"]),
        (r"\bmidnight\b|午夜", re.IGNORECASE, lambda m: ["t0:00"]),
        (rf"(凌晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|晚)?({_COUNT})点(半|一刻|三刻|整|{_COUNT}分)?(?!\w*版)",
         0, _han_clock),
        (rf"第({_COUNT})", 0, lambda m: [f"#{_count(m[1])}"]),
        (r"(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE, lambda m: [f"#{int(m[1])}"]),
        (rf"百分之(\d+(?:\.\d+)?|{HAN_NUMBER})", 0,
         lambda m: [f"n{_plain(m[1]) if m[1][0].isdecimal() else han_number(m[1])}", "percent"]),
        (r"(?P<currency>[$€£¥]?)\s?(?P<number>(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)*|"
         r"(?<=[\u4e00-\u9fff])\d+(?:\.\d+)*)"
         r"(?:\s*(?P<scale>thousand|million|billion|hundred|万|亿|百|千(?![克米瓦卡])|k(?![\w]))(?!\w{3}))?(?P<percent>\s?%)?"
         r"(?![A-Za-z0-9]*-?[A-Za-z]\d)(?![\-_/][A-Za-z0-9])", re.IGNORECASE, _scaled),
    )
)  # fmt: skip
"""Forms in the order in which they are tried, and what they give: `n` numbers, `#` ordinals, `d` `m` `y` dates,
`w` weekdays, `t` times."""

_LATIN: Final = frozenset(name[:3] for name in (*_MONTHS, *_WEEKDAYS, "noon", "midnight"))
_LATIN_FORMS: Final = tuple(form for form in _FORMS if re.search(r"month|mon\||noon|midnight", form[0].pattern))
_HAN_STARTS: Final = frozenset(_HAN + "周星礼第凌早上中下傍晚夜正午百")
_HAN_FORMS: Final = tuple(form for form in _FORMS if re.search(r"[\u4e00-\u9fff]", form[0].pattern))


def forms_at(text: str, at: int) -> Forms:
    """Give the forms that can begin at this character; most of a text begins none."""
    char = text[at]
    if char.isdigit() or char in "$€£¥-":
        return _FORMS
    if char.isascii():
        return _LATIN_FORMS if text[at : at + 3].lower() in _LATIN else ()
    return _HAN_FORMS if char in _HAN_STARTS else ()


_SMALL: Final = {
    word: n
    for n, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_TENS: Final = {
    word: 10 * n
    for n, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2)
}
ORDINALS: Final = {
    word: f"#{n}"
    for n, word in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
        ],
        start=1,
    )
}
_FIXED: Final = {"dozen": 12, "couple": 2, "pair": 2}


NUMBER_WORDS: Final = frozenset((*_SMALL, *_TENS, *_FIXED, "hundred", "thousand", "million", "billion"))
"""Words with which a number can begin."""


def english_number(words: list[str]) -> tuple[int, int]:
    """Give the value of the number words at the start of `words` and how many they are; 0 words when there is none."""
    total = value = used = 0
    for at, word in enumerate(words):
        if word in _SMALL:
            value += _SMALL[word]
        elif word in _TENS:
            value += _TENS[word]
        elif word in _FIXED and at == 0:
            return _FIXED[word], 1
        elif word == "hundred":
            value = (value or 1) * 100
        elif word in ("thousand", "million", "billion"):
            total += (value or 1) * _SCALES[word]
            value = 0
        elif word == "and" and used and at + 1 < len(words) and words[at + 1] in (_SMALL | _TENS) and value >= 100:
            continue
        else:
            break
        used = at + 1
    return total + value, used
