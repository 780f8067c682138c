"""The JSON values of a server's answer, as its bytes come, whatever the server says of their type.

Server-sent events are read as the HTML standard describes them: UTF-8, lines that end with CR, LF or both,
lines `data:` that are joined, comments. What servers do beside it is read as it is meant: an answer in one
piece, a value on each line, events that no blank line ends, `data: [DONE]`. This module does not know what
the values mean.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator
from typing import Any, cast

DONE = "[DONE]"
"""The last event of a stream."""
LARGEST_PLAIN = 20_000
"""Characters of a text that is no JSON that are kept, for an error message."""
_BLANK = "\ufeff \t\r\n"
_FIELDS = ("data:", "event:", "retry:", "id:", ":")
_NO_JSON: Any = object()


class Events:
    """Takes the bytes of one answer and yields its values. An event named `error` is {"error": its value}."""

    def __init__(self) -> None:
        self.kind = ""
        """What it is: `stream`, `json`, or `text` (also a web page); "" until that is known."""
        self.done = False
        """Whether the stream has said that it is done."""
        self.damaged = ""
        """The beginning of what should be JSON and is not."""
        self.cut = False
        """Whether what is damaged has no end."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._head = ""
        self._whole: list[str] = []
        self._line: list[str] = []
        self._data: list[str] = []
        self._event = ""
        self._plain: list[str] = []
        self._room = LARGEST_PLAIN

    @property
    def plain(self) -> str:
        """The beginning of what is no JSON and does not look like it."""
        return "".join(self._plain).strip(_BLANK)

    def take(self, piece: bytes, last: bool = False) -> Iterator[Any]:
        """Take the next bytes; yield the values that they complete."""
        text = self._decoder.decode(piece, last)
        if not self.kind:
            text = self._head = (self._head + text).lstrip(_BLANK)  # no later piece reads the blanks again
            self.kind = _kind_of(text, last)
        if self.kind == "json":
            self._whole.append(text)
        elif self.kind:
            yield from self._take_lines(text)

    def end(self) -> Iterator[Any]:
        """The values that only the end completes."""
        yield from self.take(b"", True)
        if self.kind == "json":
            yield from self._values("".join(self._whole))
            return
        yield from self._take_line()
        yield from self._dispatch(last=True)

    def _take_lines(self, text: str) -> Iterator[Any]:
        *lines, rest = text.split("\n")
        for line in lines:
            self._line.append(line)
            yield from self._take_line()
        self._line.append(rest)

    def _take_line(self) -> Iterator[Any]:
        line = "".join(self._line)
        self._line.clear()
        if not line:
            yield from self._dispatch()
        elif (data := _data_in(line)) is not None:
            if len(self._data) == 1:  # no blank line ended the one before
                yield from self._dispatch(whole=True)
            self._data.append(data)
        elif line.startswith("event:"):
            yield from self._dispatch(whole=True)
            self._event = line.removeprefix("event:").strip()
        elif not line.startswith(_FIELDS):
            self._keep(line)

    def _dispatch(self, whole: bool = False, last: bool = False) -> Iterator[Any]:
        """Yield the value of the event that has come; with `whole` only if it is one."""
        data, name = "\n".join(self._data).strip(_BLANK), self._event
        if not data or self.done:
            self._data.clear()
        elif data == DONE:
            self.done = True
            self._data.clear()
        else:
            value = _read(data)
            if value is _NO_JSON and whole:
                return
            self._data.clear()
            if value is _NO_JSON:
                self._no_json(data, last)
                value = data if name == "error" else None
            if name == "error" and value is not None:
                value = value if isinstance(value, dict) and "error" in value else {"error": value}
            if value is not None:
                yield value
        self._event = ""

    def _no_json(self, data: str, last: bool) -> None:
        if data[0] in '{["':
            self.damaged = self.damaged or data[:LARGEST_PLAIN]
            self.cut = self.cut or last
        else:  # a word that keeps the connection alive, or the server's own
            self._keep(data)

    def _keep(self, line: str) -> None:
        if self._room > 0:
            self._plain.append(f"{line[: self._room]}\n")
            self._room -= len(line) + 1

    def _values(self, text: str) -> Iterator[Any]:
        """The value of a text, or of each of its lines."""
        value = _read(text)
        if value is not _NO_JSON:
            yield value
            return
        decoder, at = json.JSONDecoder(strict=False), 0
        while at < len(text):
            if text.startswith(DONE, at):
                self.done = True
                return
            try:
                value, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                self.damaged = text[at : at + LARGEST_PLAIN]
                self.cut = not text.rstrip(_BLANK).endswith(("}", "]"))
                return
            yield value
            while at < len(text) and text[at] in f"{_BLANK},":
                at += 1


def _kind_of(head: str, last: bool) -> str:
    """What an answer is by its first characters that are not blank; "" if more are needed."""
    head = head[:8]
    if not head or (not last and any(field.startswith(head) and field != head for field in _FIELDS)):
        return ""
    if head[0] in "{[":
        return "json"
    return "stream" if head.startswith(_FIELDS) else "text"


def _data_in(line: str) -> str | None:
    """The data of a line; None if it has none. Some servers forget the field's name, or write it twice."""
    if line.startswith("{"):
        return line
    if not line.startswith("data:"):
        return None
    while line.startswith("data:"):
        line = line.removeprefix("data:").removeprefix(" ")
    return line


def _read(text: str) -> Any:
    try:
        return cast(Any, json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return _NO_JSON
