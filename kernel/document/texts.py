"""Prepares text for display: cuts long texts, and shows one that comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable

from kernel.document.redaction import redact, secrets

HELD = 2_000
"""Characters that are held back from which it is looked less often whether they can be shown."""
PIECE = 12
"""Characters of a reply that are shown at once while it is written."""
_CUT = re.compile(r"\n\[… (\d{1,12}) characters cut(?:; whole in [^\n]{1,300})? …\]\n")
_MARK = re.compile(r"\[(?:exit \d+|stopped after [^\]]*)\]")
"""The last line of a failed command's result."""


def cut(text: str, limit: int, where: str, *, head: float = 1 / 3) -> str:
    """At most `limit` characters of a text: its head and tail with a mark between them.

    The mark names `where` the whole text is. The tail gets more room, because most results end with what
    matters.
    """
    if len(text) <= limit:
        return text
    named = f"; whole in {where}" if where else ""
    earlier = list(_CUT.finditer(text))  # a text that was cut before says how much it has lost
    lost = sum(int(each[1]) for each in earlier)
    room = limit - len(f"\n[… {len(text) + lost} characters cut{named} …]\n")
    if room < limit // 2:  # the long mark would leave too little room
        mark = "\n[…]\n"[:limit]
        room = limit - len(mark)
        first = int(room * head)
        first, last = _around(text, first, len(text) - room + first)
        return text[:first] + mark + text[last:]
    first = int(room * head)
    first, last = _around(text, first, len(text) - room + first)
    gone = 0
    for each in earlier:
        if each.start() < last and each.end() > first:
            first, last = min(first, each.start()), max(last, each.end())
            gone += int(each[1]) - len(each[0])
    return f"{text[:first]}\n[… {last - first + gone} characters cut{named} …]\n{text[last:]}"


def _around(text: str, first: int, last: int) -> tuple[int, int]:
    """The ends of what is cut out, moved to those of a secret that they are in: half of one has no form."""
    across = secrets().across
    return first - across(text, first)[0], last + across(text, last)[1]


def reason(result: str) -> str:
    """The most informative line of a failed step's result: a command's last output, else the first line."""
    lines = [line.strip() for line in result.splitlines() if line.strip()]
    marks = [line for line in lines[1:] if _MARK.fullmatch(line)]
    words = [line for line in lines if line not in marks]
    if not words:
        return " ".join(lines)
    return " ".join([words[-1], *marks]) if marks else words[0]


class Pieces:
    """Redacts a text that comes in pieces: one is shown once no secret can go on in the next."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show, self._held, self._next = show, "", 0

    def __call__(self, text: str) -> None:
        """Take the next piece."""
        self._held += text
        if len(self._held) < self._next:  # looking at each piece of what cannot be shown yet is quadratic
            return
        at = max(self._held.rfind("\n"), self._held.rfind(" ")) + 1
        first, rest = self._held[:at], self._held[at:]
        if at >= PIECE and secrets().divides(first, rest):
            self._show(redact(first))
            self._held, self._next = rest, 0
        elif len(self._held) > HELD:
            self._next = len(self._held) * 5 // 4

    def end(self) -> None:
        """Show the rest: the text has ended."""
        if self._held:
            self._show(redact(self._held))
        self._held = ""
