"""Server-sent events out of a byte stream, however the bytes arrive. No I/O.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from memoryos_models.errors import ModelReplyInvalid


@dataclass(slots=True)
class SseReader:
    """Gives the `data` of each event once its bytes are all there.

    Lines end with LF, CR LF or CR, also when a piece ends in between; a
    character may be split over pieces. Comments (keep-alives) and the fields
    `event`, `id` and `retry` give nothing. Bytes that are no UTF-8 are
    `ModelReplyInvalid`. Whoever feeds it bounds the bytes.
    """

    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    _rest: list[str] = field(default_factory=list)
    _data: list[str] = field(default_factory=list)
    _after_cr: bool = False
    _first: bool = True

    def feed(self, piece: bytes, *, last: bool = False) -> list[str]:
        """Give the events that end within this piece; `last` ends one that lacks its empty line."""
        try:
            text = self._decoder.decode(piece, last)
        except UnicodeDecodeError:
            raise ModelReplyInvalid("the reply is not UTF-8") from None
        events: list[str] = []
        for line in self._lines(text):
            self._line(line, events)
        if last:
            rest = "".join(self._rest)
            self._rest.clear()
            if rest:
                self._line(rest, events)
            self._line("", events)
        return events

    def _lines(self, text: str) -> list[str]:
        """Give the lines that end in this text; what follows the last end is kept."""
        if self._first and text:
            self._first = False
            text = text.removeprefix("\ufeff")
        if self._after_cr and text:
            self._after_cr = False
            text = text.removeprefix("\n")
        if not text:
            return []
        if text.endswith("\r"):
            self._after_cr = True
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if len(lines) > 1:
            lines[0] = "".join((*self._rest, lines[0]))
            self._rest.clear()
        self._rest.append(lines.pop())
        return lines

    def _line(self, line: str, events: list[str]) -> None:
        if not line:
            if self._data:
                events.append("\n".join(self._data))
                self._data.clear()
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
