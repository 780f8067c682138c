"""Growth: how work changes from month to month, from the runs, the messages and the journal of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from math import ceil

from kernel.document.model import ACCEPTED
from runtime.evolution.journal import Entry
from runtime.memory.tasks.decisions import share
from runtime.nervous.messages import ASKING, Message
from runtime.workspace.runs import RunSummary

ADDED = ("found", "added", "admitted", "adopted")
"""Kinds of journal entries by which a tool comes to a workspace."""
TOOLS = ("tools/", "operations/")
"""Beginnings of the names of what is a tool, in the journal."""
LINES: Mapping[str, tuple[str, str]] = {
    "autonomy": ("autonomy", "#2a7f4f"),
    "first_try": ("designs that passed at first try", "#2f6db5"),
    "escalation_rate": ("escalations per task, 100% if more", "#b5472f"),
}
"""What the picture shows, with its words and colour."""
WIDTH, HEIGHT, LEFT, TOP = 640, 240, 48, 24
LABELS = 9
"""Months that are named below the picture, at most."""
DOTS = 40
"""Points of a line up to which each is a dot."""


@dataclass(frozen=True)
class Month:
    """One month. A share is None where there was nothing to count."""

    month: str  # 2026-11
    tasks: int = 0
    tools: int = 0  # that were added
    discovered: int = 0  # tools that an agent was granted
    escalations: int = 0
    escalation_rate: float | None = None  # escalations per task
    first_try: float | None = None  # of the designs of tools that were tested: passed in their first round
    autonomy: float | None = None  # of all tasks: accepted without a higher tier


def growth(
    tasks: Iterable[RunSummary],
    messages: Iterable[Message],
    entries: Iterable[Entry],
    now: datetime,
    months: int = 12,
) -> list[Month]:
    """The last `months` months up to `now`, oldest first, from the first one in which something happened."""
    names = _months(now, months)
    by_month: dict[str, list[RunSummary]] = {name: [] for name in names}
    for task in tasks:
        by_month.get(task.created[:7], []).append(task)
    said = [*messages]
    asked = {each.run for each in said if each.tier != "worker" or each.type in ASKING}
    tools: dict[str, set[str]] = {name: set() for name in names}
    for entry in entries:
        if entry.kind in ADDED and entry.unit.startswith(TOOLS):
            tools.get(entry.time[:7], set()).add(entry.unit)
    found = [_month(name, by_month[name], said, asked, len(tools[name])) for name in names]
    first = next((n for n, each in enumerate(found) if each != Month(each.month)), len(found) - 1)
    return found[first:]


def _month(
    name: str, tasks: Sequence[RunSummary], messages: Sequence[Message], asked: set[str], tools: int
) -> Month:
    here = [each for each in messages if each.at.startswith(name)]
    escalations = sum(each.type == "escalation" for each in here)
    granted = sum(each.type == "grant" for each in here)
    tried = [each for each in here if each.type == "test_report" and each.data.get("round") == 1]
    done = [each for each in tasks if each.status in ACCEPTED]
    return Month(
        name,
        len(tasks),
        tools,
        granted,
        escalations,
        share(escalations, len(tasks)),
        share(sum(bool(each.data.get("passed")) for each in tried), len(tried)),
        share(sum(each.run not in asked for each in done), len(tasks)),
    )


def _months(now: datetime, count: int) -> list[str]:
    last = now.year * 12 + now.month - 1
    return [f"{n // 12:04d}-{n % 12 + 1:02d}" for n in range(last - count + 1, last + 1)]


def svg(months: Sequence[Month]) -> str:
    """The shares over the months as a picture."""
    lines = {
        words: (colour, [getattr(each, name) for each in months]) for name, (words, colour) in LINES.items()
    }
    return picture([each.month for each in months], lines)


def picture(labels: Sequence[str], lines: Mapping[str, tuple[str, Sequence[float | None]]]) -> str:
    """Shares as a picture in SVG: a line for each name, of a colour, with a scale from 0 to 100 %."""
    step = (WIDTH - 2 * LEFT) / max(len(labels), 1)
    bottom = TOP + HEIGHT

    def text(x: float, y: float, words: str, more: str) -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'

    def place(n: int) -> float:
        return LEFT + (n + 0.5) * step

    parts = ['<rect width="100%" height="100%" fill="#fff"/>']  # a viewer may have a dark background
    for level in (0.0, 0.5, 1.0):
        y = TOP + (1 - level) * HEIGHT
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - LEFT}" stroke="#ccc"/>')
        parts.append(text(LEFT - 6, y + 4, f"{level:.0%}", 'text-anchor="end"'))
    for n in range(len(labels) - 1, -1, -(ceil(len(labels) / LABELS) or 1)):
        parts.append(text(place(n), bottom + 18, labels[n], 'text-anchor="middle"'))
    for row, (words, (colour, shares)) in enumerate(lines.items()):
        points = [(place(n), TOP + (1 - min(y, 1.0)) * HEIGHT) for n, y in enumerate(shares) if y is not None]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(points) <= DOTS:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(text(LEFT + row * 165, bottom + 40, f"● {words}", f'fill="{colour}"'))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 56}"'
    return "\n".join([f'{head} font-family="sans-serif" font-size="11">', *parts, "</svg>\n"])
