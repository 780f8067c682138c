"""Texts, times and amounts in the form that people read, on a terminal or on a page."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runtime.secrets.redaction import redact

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_UNSEEN = re.compile(rf"[\t\n]|{_HIDDEN.pattern}")
MARKS: Mapping[str, tuple[str, str]] = {
    "complete": ("✓", "green"),
    "done": ("✓", "green"),
    "unverified": ("✓", "yellow"),
    "unanswered": ("?", "yellow"),
    "failed": ("✗", "red"),
    "escalated": ("▲", "yellow"),
    "exhausted": ("■", "yellow"),
    "cancelled": ("■", "yellow"),
    "interrupted": ("‖", "yellow"),
    "unknown": ("?", "yellow"),
    "broken": ("✗", "red"),
    "waiting": ("?", "magenta"),
    "running": ("●", "cyan"),
    "skipped": ("–", "bright_black"),
    "struck": ("–", "bright_black"),  # written by earlier versions
    "planned": ("○", "bright_black"),
    "stale": ("○", "yellow"),
    "ready": ("○", "bright_black"),
}
"""A sign and a colour for each status of a loop and each state of a step."""
_PHASE_NAMES: Mapping[str, str] = {
    "fused": "Understand and Plan",
    "atomic": "Operation",
    "work": "Do",
    "turn": "Do",
}
"""Names of calls that fill several phases at once."""


def count(number: int, noun: str, many: str = "") -> str:
    """A number with its noun: `1 run`, `2,345 runs`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def shown_name(name: str) -> str:
    """A file name as one line of valid text with invisible characters escaped."""
    name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return _UNSEEN.sub(_seen, name)


def _seen(hit: re.Match[str]) -> str:
    code = ord(hit[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe(text: str) -> str:
    """The text with control and invisible characters made visible; tabs and line ends stay."""

    def visible(hit: re.Match[str]) -> str:
        code = ord(hit[0])  # below 32, the picture of the control character, such as ␛
        return chr(0x2400 + code) if code < 32 else f"\\u{{{code:x}}}"

    return _HIDDEN.sub(visible, text.replace("\r\n", "\n"))


def line(text: str) -> str:
    """The text on one line, safe to print, with single blanks."""
    return safe(" ".join(text.split()))


def width(text: str) -> int:
    """The number of terminal cells that the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # as the live tree measures

    return cell_len(text)


def elide(text: str, cells: int, *, end: bool = False) -> str:
    """The text on one line in at most that many cells, with … where it is cut; `end` keeps its end."""
    text = line(redact(text))  # half of a secret has no form
    if width(text) <= cells:
        return text
    if cells < 1:
        return ""
    if end:
        tail = text[len(text) - cells + 1 :]
        while width(tail) >= cells:
            tail = tail[1:]
        return "…" + tail.lstrip()
    if text.isascii():
        return text[: cells - 1].rstrip() + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, cells - 1).rstrip() + "…"


def pad(text: str, cells: int) -> str:
    """The text padded with blanks to that many cells."""
    return text + " " * max(cells - width(text), 0)


def tokens(count: float) -> str:
    """A count of tokens in at most five characters: 940, 1.2k, 63k, 1.4M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(int(count))


def phase_name(phase: str) -> str:
    """A phase as people read it, such as `Plan`."""
    return _PHASE_NAMES.get(phase, phase.capitalize())


def money(usd: float | None) -> str:
    """US dollars; "?" where no price is known."""
    if usd is None:
        return "?"
    if not usd:
        return "$0"
    return f"${usd:.4f}" if usd < 0.1 else f"${usd:.2f}"


def cost_of(spent: Mapping[str, Any]) -> str:
    """What was spent, in US dollars; "?" stands for calls whose price is unknown."""
    usd = spent.get("usd") or 0
    return money(usd) if not spent.get("unpriced") else f"{money(usd)} + ?" if usd else "?"


def seconds(value: float, *, short: bool = False) -> str:
    """A duration: 0.4 s, 12 s, 3 min 04 s, 2 h 05 min; `short`: 0.4s, 12s, 3:04, 2h05."""
    second, minute, hour = ("s", ":", "h") if short else (" s", " min ", " h ")
    rounded = round(value)
    if value < 9.95:
        return f"{value:.1f}{second}"
    if rounded < 60:
        return f"{rounded}{second}"
    if rounded < 3600:
        return f"{rounded // 60}{minute}{rounded % 60:02d}{'' if short else second}"
    return f"{rounded // 3600}{hour}{rounded % 3600 // 60:02d}{'' if short else ' min'}"


def local(stamp: str, now: datetime | None = None) -> str:
    """A UTC time stamp in local time: 14:03 today, 3 May 14:03 this year, else the date."""
    try:
        when = datetime.fromisoformat(stamp).astimezone()
    except (ValueError, OverflowError):
        return stamp
    now = now or datetime.now().astimezone()
    if when.date() == now.date():
        return f"{when:%H:%M}"
    return f"{when.day} {when:%b %H:%M}" if when.year == now.year else f"{when:%Y-%m-%d}"


def call(tool: str, args: Mapping[str, Any] | None, cells: int) -> str:
    """A call in short: the tool, its texts, and other arguments as `name=value`; secrets are removed."""
    arguments = (args or {}).items()
    values = [value if isinstance(value, str) else f"{name}={value!r}" for name, value in arguments]
    return elide(redact(" ".join([tool or "subtask", *values])), cells)
