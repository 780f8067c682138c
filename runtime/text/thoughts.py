"""The thinking of a model in its own text, by the marks of its training: the one place that knows these."""

from __future__ import annotations

import re

_NAME = r"(?:think|thinking|thought|reasoning)"
OPENS = re.compile(rf"[<◁]{_NAME}\b[^<>◁▷]*[>▷]|\[THINK\]", re.IGNORECASE)
CLOSES = re.compile(rf"(?<!`)(?:[<◁]/{_NAME}\b[^<>◁▷]*[>▷]|\[/THINK\])", re.IGNORECASE)
_BEGINS = re.compile(rf"\s*(?:{OPENS.pattern})", re.IGNORECASE)
_JSON_BEGINS = re.compile(r"\s*(?:```\w*\s*)?[\[{]")


def parted(text: str) -> tuple[str, str]:
    """The thinking that a text begins with, and the rest of the text.

    It may have been opened in the prompt; a text that begins with JSON is none.
    """
    begins = _BEGINS.match(text)
    start = begins.end() if begins else 0
    closes = CLOSES.search(text, start)
    if not begins and (not closes or _JSON_BEGINS.match(text) or OPENS.search(text, 0, closes.start())):
        return "", text
    return text[start : closes.start() if closes else len(text)], text[
        closes.end() :
    ].lstrip() if closes else ""
