"""Finds in a reply that is being written what it says to a person: the answer of `done`, or plain text.

A reply is JSON (`{"done": "…"}`), or text and calls (`read {"path": …}`) as a server with tools sends them.
"""

from __future__ import annotations

import json
import re

LONGEST = 200_000
"""Characters of a reply that are looked at."""
_ANSWER = re.compile(
    r'(?<!\\)(?:"done"\s*:\s*(?:\{\s*"answer"\s*:\s*)?|(?:^|\W)done \{\s*"answer"\s*:\s*'
    r'|^\s*\{\s*"answer"\s*:\s*)"'
)
_WHOLE = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_CALL = re.compile(r"(?:^|(?<=\W))\w+ \{")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAYBE = re.compile(r"\w+ ?$")


class Streamed:
    """Takes the pieces of one reply in turn. `text` is what was said so far."""

    def __init__(self) -> None:
        self.text = ""
        self._held = ""
        self._mode = "start"
        self._taken = 0

    def __call__(self, piece: str) -> str:
        """What is new to be shown."""
        self._taken += len(piece)
        if self._taken > LONGEST:
            return ""
        self._held += piece
        if self._mode == "start" and (begin := self._held.lstrip()):
            self._mode = "json" if begin[0] in "{[`" or _CALL.match(begin) else "plain"
        said = self._plain() if self._mode == "plain" else ""
        hits = _ANSWER.finditer(self._held) if self._mode == "json" else ()
        if hit := next((hit for hit in hits if _outermost(self._held[: hit.start()])), None):
            self._mode, self._held = "answer", self._held[hit.end() :]
        if self._mode == "answer":
            said += self._answer()
        self.text += said
        return said

    def _plain(self) -> str:
        """Text up to a call; a word at the end may be the name of one."""
        hit = _CALL.search(self._held)
        maybe = _MAYBE.search(self._held)
        at = hit.start() if hit else maybe.start() if maybe else len(self._held)
        said, self._held = self._held[:at], self._held[at:]
        self._mode = "json" if hit else "plain"
        return said

    def _answer(self) -> str:
        """The text of a JSON string, as far as it is whole."""
        hit = _WHOLE.match(self._held)
        whole = hit[0] if hit else ""
        if half := _HALF.search(whole):
            whole = whole[: half.start()]
        self._held = self._held[len(whole) :]
        if self._held.startswith('"'):
            self._mode = "over"
        return str(json.loads(f'"{whole}"', strict=False))

    def end(self) -> str:
        """What was held back of plain text, at the end of the reply."""
        said, self._held = (self._held, "") if self._mode == "plain" else ("", self._held)
        self.text += said
        return said


def _outermost(before: str) -> bool:
    """Whether what follows is a member of the reply itself, or a call: not within the arguments of one."""
    plain = _STRING.sub("", before)
    return sum(map(plain.count, "{[")) - sum(map(plain.count, "}]")) <= 1
