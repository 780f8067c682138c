"""Finds in a reply that is being written what it says to a person: the answer of `done`, or plain text.

A reply is JSON (`{"done": "…"}`), or text and calls (`read {"path": …}`) as a server with tools sends them.
Each character is looked at once, or a few times: a reply comes in many pieces, on the event loop.
"""

from __future__ import annotations

import json
import re

LONGEST = 200_000
"""Characters of a reply that are looked at."""
_NAME = 200
"""Characters of a word that may be the name of a call."""
_BEFORE = 64
"""Characters that are kept of what was read. A space stands for several, so what begins an answer fits."""
_ANSWER = re.compile(
    r'(?:(?P<key>(?<!\\)"done"\s*:\s*)|(?:(?<!\\)"done"\s*:\s*|\Wdone |\0\s*)\{\s*"answer"\s*:\s*)\Z'
)
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_HALF = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_WHOLE = re.compile(
    rf'(?:[^"\\]+|\\["\\/bfnrt]|(?!{_HIGH})\\u[0-9a-fA-F]{{4}}|{_HIGH}(?!\Z|{_HALF.pattern}))*'
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CALL = re.compile(rf"\b\w{{1,{_NAME}}} \{{")
_MAYBE = re.compile(r"\b\w+ ?\Z")
_WORD = re.compile(r"\w*")


class Streamed:
    """Takes the pieces of one reply in turn. `text` is what was said so far."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._mode = "start"
        self._taken = 0
        self._blank: list[str] = []  # what comes before the first character of the reply
        self._held = ""  # the end of what came that is not whole: a word, or an escape
        self._within = False  # whether the last that was said is part of a word too long for a name
        self._before = "\0"  # the end of the JSON that was read; NUL stands for its beginning
        self._depth = 0
        self._string = self._escaped = False

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._said)

    def __call__(self, piece: str) -> str:
        """What is new to be shown."""
        self._taken += len(piece)
        if self._taken > LONGEST:
            return ""
        said = ""
        if self._mode == "start":
            self._blank.append(piece)
            if begin := piece.lstrip():
                piece = "".join(self._blank)
                self._mode = "json" if begin[0] in "{[`" or _CALL.match(begin) else "plain"
        if self._mode == "plain":
            said, piece = self._plain(self._held + piece)
        if self._mode == "json":
            piece = self._json(piece)
        if self._mode == "answer":
            said += self._answer(self._held + piece)
        return self._say(said)

    def _say(self, said: str) -> str:
        """Half of a pair of surrogates is no text and cannot be sent."""
        said = _SURROGATE.sub("\ufffd", said)
        self._said.append(said)
        return said

    def _plain(self, text: str) -> tuple[str, str]:
        """Text up to a call, and the call; a word at the end may be the name of one, and is held."""
        begin = _WORD.match(text).end() if self._within else 0  # pyright: ignore[reportOptionalMemberAccess]
        if hit := _CALL.search(text, begin):
            self._mode, self._held = "json", ""
            return text[: hit.start()], text[hit.start() :]
        maybe = _MAYBE.search(text, begin)
        at = maybe.start() if maybe else len(text)
        self._within = self._within and begin == len(text)
        if len(text) - at > _NAME + 1:
            at, self._within = len(text), True
        self._held = text[at:]
        return text[:at], ""

    def _json(self, piece: str) -> str:
        """What follows the beginning of an answer, which is not within the arguments of a call."""
        for at, char in enumerate(piece):
            if self._string:
                self._string = self._escaped or char != '"'
                self._escaped = char == "\\" and not self._escaped
            elif char == '"':
                if (hit := _ANSWER.search(self._before)) and self._depth <= (1 if hit["key"] else 2):
                    self._mode = "answer"
                    return piece[at + 1 :]
                self._string = self._depth > 0  # a quote in text between calls may have no other
            else:
                self._depth += (char in "{[") - (char in "}]")
            if not (char.isspace() and self._before[-1].isspace()):
                self._before = (self._before + char)[-_BEFORE:]
        return ""

    def _answer(self, text: str) -> str:
        """The text of a JSON string, as far as it is whole. What is no JSON ends it."""
        hit = _WHOLE.match(text)
        whole = hit[0] if hit else ""
        self._held = text[len(whole) :]
        if self._held and not re.match(rf"(?:{_HIGH})?(?:\Z|{_HALF.pattern})", self._held):
            self._mode, self._held = "over", ""
        return str(json.loads(f'"{whole}"', strict=False))

    def end(self) -> str:
        """What was held back of plain text, at the end of the reply."""
        said, self._held = (self._held, "") if self._mode == "plain" else ("", self._held)
        return self._say(said)
