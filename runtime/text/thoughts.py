"""The thinking of a model in its own text, by the marks of its training: the one place that knows these."""

from __future__ import annotations

import re
from itertools import islice

_NAME = r"(?:think|thinking|thought|reasoning)"
OPENS = re.compile(rf"[<◁]{_NAME}\b[^<>◁▷]*[>▷]|\[THINK\]", re.IGNORECASE)
CLOSES = re.compile(rf"(?<!`)(?:[<◁]/{_NAME}\b[^<>◁▷]*[>▷]|\[/THINK\])", re.IGNORECASE)
_BEGINS = re.compile(rf"\s*(?:{OPENS.pattern})", re.IGNORECASE)
_JSON_BEGINS = re.compile(r"\s*(?:```\w*\s*)?[\[{]")
_OBJECT = re.compile(r'^[ \t]*\{\s*"', re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
MOST_CLOSES = 8
"""Closing marks of one text that are looked at."""


def parted(text: str) -> tuple[str, str]:
    """The thinking that a text begins with, and the rest of the text.

    It may have been opened in the prompt; a text that begins with JSON is none, and a mark in a string of an
    object closes none.
    """
    begins = _BEGINS.match(text)
    start = begins.end() if begins else 0
    marks = islice(CLOSES.finditer(text, start), MOST_CLOSES)
    closes = next((each for each in marks if begins or not _in_string(text, each.start())), None)
    if not begins and (not closes or _JSON_BEGINS.match(text) or OPENS.search(text, 0, closes.start())):
        return "", text
    if closes is None:
        return text[start:], ""
    return text[start : closes.start()], text[closes.end() :].lstrip()


def _in_string(text: str, at: int) -> bool:
    """Whether a place is in a string of the first object that begins a line."""
    opens = _OBJECT.search(text, 0, at)
    return bool(opens) and '"' in _STRING.sub("", text[opens.start() : at])
