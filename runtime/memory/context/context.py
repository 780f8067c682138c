"""What a loop is shown of memory: four parts, each with its share of the available tokens.

What a part does not use flows to the next one. Every line names its source. This module selects and counts;
`sources.py` finds what there is to select from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.text.lines import flat

FILES, PATTERNS, TASKS, OTHERS = "facts and files", "patterns", "similar tasks", "others"
SHARES: Mapping[str, float] = {FILES: 0.40, PATTERNS: 0.25, TASKS: 0.20, OTHERS: 0.15}
"""Shares of facts and files that the task needs, guidance, solved tasks like it, and what others do now.
Source: memory.md, "Context"; the seed's §3.5."""
GUIDANCE = 500
"""Tokens of patterns in one prompt. Source: learning.md, "Budget"."""
EXAMPLES = 3
"""Solved tasks that are shown, successes only. Source: learning.md."""
HALF = 0.5
"""The part of the work context that memory may take; the task and its results need the rest."""
FRAME = 20
"""Tokens of the heading and the fence of a part."""
NAMES: Mapping[str, str] = {
    FILES: "facts and files that the task needs",
    PATTERNS: "what earlier runs taught",
    TASKS: "tasks like this one that were solved",
    OTHERS: "what others do now",
}

Count = Callable[[str], int]


@dataclass(frozen=True)
class Line:
    """One thing that memory has for a task; `body` is left out where room is short."""

    text: str
    source: str  # `run 7f3kq2`, `state/memory/patterns/x.md`, `person`, …
    why: str = ""  # why it was selected, for people; prompts do not show it
    body: str = ""

    def shown(self, *, with_body: bool = True) -> str:
        """The line in a prompt; the text stays on one line, so that it cannot imitate another one."""
        line = f"- {flat(self.text)} ({flat(self.source)})"
        inside = (f"\n  | {each}" for each in self.body.splitlines()) if with_body else ()
        return line + "".join(inside)


@dataclass(frozen=True)
class Part:
    """What one part shows, inside its room."""

    name: str
    share: float
    room: int
    tokens: int = 0
    shown: Sequence[tuple[Line, str]] = ()
    left: Sequence[Line] = ()  # what there was no room for

    @property
    def text(self) -> str:
        """The part in a prompt."""
        return "\n".join(text for _, text in self.shown)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        lines = [{"text": text, "source": line.source, "why": line.why} for line, text in self.shown]
        report = {"share": self.share, "room": self.room, "tokens": self.tokens, "lines": lines}
        return {**report, "left_out": [{"text": each.text, "source": each.source} for each in self.left]}


@dataclass(frozen=True)
class Context:
    """All that is shown of memory for one task."""

    room: int
    parts: Sequence[Part] = field(default=())

    @property
    def tokens(self) -> int:
        """Tokens of all parts."""
        return sum(part.tokens for part in self.parts)

    def notes(self) -> list[tuple[str, str]]:
        """The parts that have something to show: name and text."""
        return [(part.name, part.text) for part in self.parts if part.shown]

    def as_dict(self) -> dict[str, Any]:
        """As `--json` shows it."""
        parts = {part.name: part.as_dict() for part in self.parts}
        return {"room": self.room, "tokens": self.tokens, "parts": parts}


def room_for(context: int, used: int) -> int:
    """Tokens that memory may take of a work context, of which `used` are taken."""
    return max(min(int(context * HALF), context - used), 0)


def synthesized(offers: Mapping[str, Sequence[Line]], room: int, count: Count) -> Context:
    """The lines that fit into the room; each part takes its first ones."""
    parts: list[Part] = []
    spare = 0
    for name, share in SHARES.items():
        own = int(room * share) + spare
        most = EXAMPLES if name == TASKS else len(offers.get(name, ()))
        part = _filled(name, share, own, offers.get(name, ())[:most], count)
        spare = own - part.tokens
        parts.append(part)
    return Context(room, tuple(parts))


def _filled(name: str, share: float, room: int, lines: Sequence[Line], count: Count) -> Part:
    limit = min(room, GUIDANCE) if name == PATTERNS else room
    shown: list[tuple[Line, str]] = []
    left: list[Line] = []
    text = ""
    for line in lines:
        for with_body in (True, False) if line.body else (True,):
            entry = line.shown(with_body=with_body)
            more = f"{text}\n{entry}" if text else entry
            if count(more) + FRAME <= limit:
                shown.append((line, entry))
                text = more
                break
        else:
            left.append(line)
    tokens = count(text) + FRAME if shown else 0
    return Part(name, share, room, tokens, tuple(shown), tuple(left))
