"""What a model says makes the difference: asked with trajectories in names alone, its answer looked at twice.

No text of a task, a file or a result is shown, so that none can speak through the answer; and an answer that
names other tools than the attempts used, or anything to run or to open, is not taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runtime.memory.learning.contrast import SUCCESSES, Sample, pairs
from runtime.memory.learning.patterns import MOST_SOURCES, Pattern, named
from runtime.memory.learning.tried import Kept, Tried

if TYPE_CHECKING:
    from runtime.memory.dream.stage import Ask

PROMPT = "contrast"
"""The file of `system/memory/`."""
CONFIDENCE = {"high": 0.7, "medium": 0.5, "low": 0.3}
"""What a model is believed at most, before its pattern was used."""
LONGEST = 300
"""Characters of guidance, and of what to avoid."""
_TAME = re.compile(r"[A-Za-z0-9 ,.;:'’()`_-]+")
_FOREIGN = re.compile(
    r"\w+[/\\]\w+|https?|www\.|\b\w+\.(?:com|org|net|io|sh|py|exe)\b|\bsudo\b", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`]+)`")


def extracted(found: Sample, type: str, ask: Ask) -> Pattern | None:
    """The pattern that a model finds in three successes and two failures at most; None for none."""
    successes, failures = pairs(found)
    if len(successes) < SUCCESSES or not failures:
        return None
    slots = {"task_type": type, "successes": _told(successes), "failures": _told(failures)}
    try:
        reply: Any = json.loads(ask(PROMPT, slots) or "null")
    except ValueError:
        return None
    if not isinstance(reply, dict):
        return None
    title, do, avoid = (" ".join(str(reply.get(key) or "").split()) for key in ("name", "do", "avoid"))
    allowed = {name for each in (*successes, *failures) for name in _names(each)}
    if not title or not do or not all(_tame(text, allowed) for text in (title, do, avoid or title)):
        return None
    told = f"{len(successes)} attempts that went well were compared with {len(failures)} that did not"
    return Pattern(
        name=named(title),
        title=title[:80],
        guidance=do,
        avoid=avoid,
        why=f"{told}, by a model.",
        types=(type,),
        confidence=CONFIDENCE.get(str(reply.get("confidence")), CONFIDENCE["low"]),
        samples=len(successes) + len(failures),
        success_rate=0.0,
        origin="model",
        created=max(each.at for each in (*successes, *failures)),
        sources=tuple(dict.fromkeys(each.document for each in successes))[:MOST_SOURCES],
    )


def _told(tried: Sequence[Tried]) -> str:
    """Trajectories in names: a line each, with how it is known what came of it."""
    lines: list[str] = []
    for number, each in enumerate(tried, 1):
        acts = "; ".join(map(_act, each.acts))
        criteria = f" | criteria: {', '.join(each.criteria)}" if each.criteria else ""
        lines.append(f"{number}. {acts}{criteria} | {each.signal}")
    return "\n".join(lines)


def _act(act: Kept) -> str:
    inside = ", ".join((*act.arguments, *(f"file {number}" for number in act.paths)))
    return f"{act.tool}({inside}) {act.state}".strip()


def _names(tried: Tried) -> set[str]:
    return {name for act in tried.acts for name in (act.tool, *act.arguments)} | {*tried.criteria, "true"}


def _tame(text: str, allowed: set[str]) -> bool:
    """Whether a text is plain advice: short, with nothing to run or open, and no names but those shown."""
    if len(text) > LONGEST or not _TAME.fullmatch(text) or _FOREIGN.search(text):
        return False
    return all(name in allowed for name in _NAMED.findall(text))
