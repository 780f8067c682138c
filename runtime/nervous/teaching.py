"""What is learned of decisions: guidance that was given three times becomes a pattern of the task type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.memory.learning.distiller import is_plain
from runtime.memory.learning.patterns import MOST_SOURCES, Pattern, named
from runtime.nervous.decisions import Decision
from runtime.nervous.messages import tier_of
from runtime.text.lines import flat

ALIKE = 3
"""Nudges and rejections that agree and become a pattern. Source: nervous.md, "Proposals"."""
CONFIDENCE = {"oversight": 0.6, "human": 0.8}
"""Of a pattern that oversight alone has said, and of one that a human has said too."""
TITLE_WORDS = 8


def agreed(
    decisions: Sequence[Decision], task_type: str, same: Callable[[Pattern, Pattern], bool]
) -> Pattern | None:
    """The pattern that the newest guidance for a task type makes with two like it, of other runs.

    Words of oversight are words of a model or a client: they have to be plain advice, with nothing to run or
    to open. What a policy says is no advice.
    """
    said = [each for each in decisions if each.task_type == task_type and _usable(each)]
    if not said:
        return None
    newest = _pattern(said[-1])
    alike = [each for each in said if same(_pattern(each), newest)]
    by_run = {each.run: each for each in alike}
    if len(by_run) < ALIKE:
        return None
    of_human = [each for each in alike if each.guidance and tier_of(each.guidance.by) == "human"]
    words = _pattern(of_human[-1] if of_human else said[-1])
    return Pattern(
        words.name,
        words.guidance,
        title=words.title,
        why=f"Said of {len(by_run)} plans, by {', '.join(sorted({_by(each) for each in alike}))}.",
        types=(task_type,),
        confidence=CONFIDENCE["human" if of_human else "oversight"],
        samples=len(by_run),
        origin="guidance",
        created=said[-1].at,
        sources=tuple(f"runs/{each.run}/{each.loop}.md" for each in reversed(by_run.values()))[:MOST_SOURCES],
    )


def _usable(decision: Decision) -> bool:
    said = decision.guidance
    if said is None or said.by.kind == "policy":
        return False
    return tier_of(said.by) == "human" or is_plain(flat(said.text), set())


def _by(decision: Decision) -> str:
    return str(decision.guidance.by) if decision.guidance else ""


def _pattern(decision: Decision) -> Pattern:
    text = flat(decision.guidance.text) if decision.guidance else ""
    title = " ".join(text.rstrip(".").split()[:TITLE_WORDS])[:60]
    return Pattern(named(title), text[:1].upper() + text[1:], title=title[:1].upper() + title[1:])
