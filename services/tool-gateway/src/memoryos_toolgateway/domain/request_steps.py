"""What a request needs: as a whole, step by step, and what it needs without saying so.

A file that it names is read or written by a tool of its own, and a date such as
"tomorrow" asks for the present one: neither looks like the rest of the request.
"""

from __future__ import annotations

import re
from typing import Final

from memoryos_toolgateway.domain.skill_words import SPACELESS, TEXT_CHARS_MAX

_STEP_END: Final = re.compile(
    r"(?<=[.!?;])\s+|[。!?;\n]+|,?\s+\b(?:and then|then|and also|finally)\b\s*,?|[,,]\s*(?:并且?|然后|再|最后|同时)"
)
_STEP_CHARS_MIN: Final = 8
NEEDS_MAX: Final = 8
_KINDS: Final = {
    "doc": "word document", "docx": "word document", "pdf": "pdf document", "ppt": "powerpoint presentation",
    "pptx": "powerpoint presentation", "xls": "excel spreadsheet", "xlsx": "excel spreadsheet",
}  # fmt: skip
_TEXT_ENDINGS: Final = (
    "bib c cpp css csv go h htm html ini java js json jsx log markdown md py rs sh sql tex toml ts tsv tsx txt xml yaml"
    " yml"
)
_TEXT: Final = frozenset(_TEXT_ENDINGS.split())
_BARE: Final = "|".join(sorted((_TEXT | _KINDS.keys()) - {"c", "go", "h", "js", "log"}, key=len, reverse=True))
_ASCII_WORD: Final = r"[A-Za-z0-9_]"
_FILE: Final = re.compile(
    rf"(?<![\w:/.])(?:[A-Za-z]:\\|~?/|\./)[\w.\-/\\]{{0,1024}}\.({_ASCII_WORD}{{1,8}})(?!{_ASCII_WORD})"
    rf"|(?<![\w:/.@\-])[\w\-]{{1,128}}\.({_BARE})(?!{_ASCII_WORD})",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"[.!?;,。,!?;、]\s*|\band\b")
_WRITES: Final = re.compile(
    r"\b(?:sav|writ|creat|stor|export|output|generat|put|record|draft|mak)\w*|写|存|导出|创建|生成", re.IGNORECASE
)
_RELATIVE_DATE: Final = re.compile(
    r"\b(?:today|tomorrow|yesterday|tonight)\b(?!['’]s)"
    r"|\b(?:next|last|this) (?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|\b(?:next|this|coming) (?:week|weekend|month)s?\b"
    r"|今天|明天|昨天|后天|[本这下上]个?(?:周|星期|礼拜|月)",
    re.IGNORECASE,
)
_PRESENT_DATE: Final = "get the current date and time"
_PART_CHARS: Final = 256


def needs(request: str) -> list[str]:
    """Give the request without names of files, then its steps where it has several, then what it implies."""
    request = request[:TEXT_CHARS_MAX]
    whole = _FILE.sub(lambda found: _KINDS.get(_ending(found), " "), request)
    implied = _files(request) + ([_PRESENT_DATE] if _RELATIVE_DATE.search(request) else [])
    return [whole, *list(dict.fromkeys(steps(whole) + implied))[:NEEDS_MAX]]


def steps(request: str) -> list[str]:
    """Give the steps of a request that has several; none when it has one."""
    parts = [part.strip() for part in _STEP_END.split(request) if part and part.strip()]
    parts = [part for part in parts if len(part) >= _STEP_CHARS_MIN or SPACELESS.search(part)]
    return parts[:NEEDS_MAX] if len(parts) > 1 else []


def _files(request: str) -> list[str]:
    found: list[str] = []
    for file in _FILE.finditer(request):
        ending = _ending(file)
        before = _PART.split(request[max(0, file.start() - _PART_CHARS) : file.start()])[-1]
        writes = _WRITES.search(before) is not None
        if ending in _KINDS:
            found.append(f"{'save' if writes else 'read'} {_KINDS[ending]}")
        elif ending in _TEXT:
            found.append("write file" if writes else "read file")
    return found


def _ending(file: re.Match[str]) -> str:
    return str(file[1] or file[2]).lower()
