"""Patterns from habits of accepted attempts, and from comparisons by a model.

A habit is a sequence of tools, a folder, or a form of writing. Each accepted attempt adds insights. Ten new
insights are consolidated: a habit of three runs becomes a pattern, a rare one expires. A model sees only
names, and its reply is rejected if it names other tools, or anything to run or open."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from runtime.memory.dream.stages import Ask
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.contrast import SUCCESSES, pairs
from runtime.memory.learning.patterns import GENERAL, Pattern
from runtime.memory.learning.rules import RuleText, Wording
from runtime.memory.learning.trajectories import Act
from runtime.memory.store import Record, Shelf

PENDING = 10
"""New insights that trigger a consolidation. Source: learning.md."""
OCCURRENCES = 3
"""Runs from which a habit becomes a pattern. Source: learning.md."""
MAJORITY = 0.6
"""The least share of comparable attempts that have the habit."""
AGES = 3
"""Consolidations after which an insight expires."""
LONGEST_SEQUENCE = 5
SHOWN = 0.3
"""The least confidence of a pattern from habits."""
SURE = 0.6
"""The highest confidence of a habit: it was not compared with failures."""


class Insight(Record):
    """One habit of an accepted attempt."""

    KIND: ClassVar[str] = "insight"

    habit: str = ""  # sequence, or a kind of `habits_of`
    names: tuple[str, ...] = ()
    type: str = GENERAL
    run: str = ""
    document: str = ""
    at: str = ""
    age: int = 0


class Distiller:
    """Collects insights and turns frequent ones into patterns."""

    def __init__(self, shelf: Shelf, wording: Wording) -> None:
        self.shelf, self.wording = shelf, wording

    def take(self, attempts: Sequence[StoredAttempt]) -> list[Pattern]:
        """Store the insights of accepted attempts; consolidate if enough are pending."""
        for attempt in attempts:
            self.shelf.put(*insights(attempt))
        if self.shelf.count(Insight) < PENDING:
            return []
        fresh = list(self.shelf.scan(Insight, {"age": 0}))
        return self.consolidate() if len(fresh) >= PENDING else []

    def consolidate(self) -> list[Pattern]:
        """Turn frequent habits into patterns; age the other insights and delete old ones."""
        groups: dict[tuple[str, tuple[str, ...], str], list[Insight]] = {}
        for insight in self.shelf.scan(Insight):
            groups.setdefault((insight.habit, insight.names, insight.type), []).append(insight)
        patterns: list[Pattern] = []
        with self.shelf.transaction():
            for group in groups.values():
                runs = {each.run for each in group}
                rivals = _rivals(groups, group)
                if len(runs) >= OCCURRENCES and len(group) >= MAJORITY * (len(group) + rivals):
                    if (pattern := self._pattern(group, rivals)).confidence >= SHOWN:
                        patterns.append(pattern)
                    self.shelf.delete(Insight, *(each.id for each in group))
                    continue
                old = [each.id for each in group if each.age + 1 >= AGES]
                self.shelf.delete(Insight, *old)
                young = [each for each in group if each.age + 1 < AGES]
                self.shelf.put(*(each.model_copy(update={"age": each.age + 1}) for each in young))
        return patterns

    def _pattern(self, group: Sequence[Insight], others: int) -> Pattern:
        first, count = group[0], len(group)
        share = count / (count + others)
        return self.wording.habit(first.habit, first.names).pattern(
            (each.document for each in reversed(group)),
            why=f"{count} of {count + others} accepted attempts at such tasks did so.",
            types=(first.type,),
            confidence=round(SURE * share * count / (count + 2), 2),
            success_rate=1.0,
            samples=count,
            origin="distilled",
            created=max(each.at for each in group),
        )


def _rivals(groups: dict[tuple[str, tuple[str, ...], str], list[Insight]], group: Sequence[Insight]) -> int:
    """The number of attempts at such tasks with another habit of this kind."""
    first = group[0]
    key = first.names[:1] if first.habit in ("folder", "naming", "indent", "docstring") else ()
    return sum(
        len(other)
        for (habit, names, type), other in groups.items()
        if habit == first.habit and type == first.type and names != first.names and names[: len(key)] == key
    )


def insights(attempt: StoredAttempt) -> Iterator[Insight]:
    """The insights of an accepted attempt."""
    for habit, names in _habits(attempt):
        fields: dict[str, Any] = {"habit": habit, "names": names, "type": attempt.type, "run": attempt.run}
        mark = hashlib.sha256(f"{attempt.id} {habit} {names}".encode()).hexdigest()[:20]
        yield Insight(id=mark, document=attempt.document, at=attempt.at, **fields)


def _habits(attempt: StoredAttempt) -> Iterator[tuple[str, tuple[str, ...]]]:
    done = [act.tool for act in attempt.acts if act.state == "done"]
    sequence = tuple(name for at, name in enumerate(done) if at == 0 or done[at - 1] != name)
    if 2 <= len(sequence) <= LONGEST_SEQUENCE:
        yield "sequence", sequence
    for habit, *names in attempt.habits:
        yield habit, tuple(names)


PROMPT = "contrast"
"""The prompt's name in `system/memory/`."""
CONFIDENCE = {"high": 0.7, "medium": 0.5, "low": 0.3}
"""The initial confidence by the model's own word."""
LONGEST = 300
"""Characters of the title, the guidance, and what to avoid, each."""
_TAME = re.compile(r"[A-Za-z0-9 ,.;:'’()`_-]+")
_FOREIGN = re.compile(
    r"\w+[/\\]\w+|https?|www\.|\b\w+\.(?:com|org|net|io|sh|py|exe)\b|\bsudo\b", re.IGNORECASE
)
_NAMED = re.compile(r"`([^`]+)`")


def extracted(attempts: Sequence[StoredAttempt], type: str, ask: Ask) -> Pattern | None:
    """The pattern that a model finds in `pairs`; None if there is none or the reply is rejected."""
    successes, failures = pairs(attempts)
    if len(successes) < SUCCESSES or not failures:
        return None
    slots = {
        "task_type": type,
        "successes": _as_text(successes),
        "failures": _as_text(failures),
    }
    try:
        reply: Any = json.loads(ask(PROMPT, slots) or "null")
    except ValueError:
        return None
    if not isinstance(reply, dict):
        return None
    title, do, avoid = (" ".join(str(reply.get(key) or "").split()) for key in ("name", "do", "avoid"))
    allowed = {name for each in (*successes, *failures) for name in _names(each)}
    if not title or not do or not all(is_plain(text, allowed) for text in (title, do, avoid or title)):
        return None
    comparison = f"{len(successes)} attempts that went well were compared with {len(failures)} that did not"
    return RuleText(title[:80], do, avoid).pattern(
        (each.document for each in successes),
        why=f"{comparison}, by a model.",
        types=(type,),
        confidence=CONFIDENCE.get(str(reply.get("confidence")), CONFIDENCE["low"]),
        samples=len(successes) + len(failures),
        origin="model",
        created=max(each.at for each in (*successes, *failures)),
    )


def _as_text(attempts: Sequence[StoredAttempt]) -> str:
    """Trajectories in names, one line each, with the signal of the outcome."""
    lines: list[str] = []
    for number, attempt in enumerate(attempts, 1):
        acts = "; ".join(map(_act, attempt.acts))
        criteria = f" | criteria: {', '.join(attempt.criteria)}" if attempt.criteria else ""
        lines.append(f"{number}. {acts}{criteria} | {attempt.signal}")
    return "\n".join(lines)


def _act(act: Act) -> str:
    inside = ", ".join((*act.arguments, *(f"file {number}" for number in act.paths)))
    return f"{act.tool}({inside}) {act.state}".strip()


def _names(attempt: StoredAttempt) -> set[str]:
    return {name for act in attempt.acts for name in (act.tool, *act.arguments)} | {*attempt.criteria, "true"}


def is_plain(text: str, allowed: set[str]) -> bool:
    """Whether a text is plain advice: short, nothing to run or open, and only names that were shown."""
    if len(text) > LONGEST or not _TAME.fullmatch(text) or _FOREIGN.search(text):
        return False
    return all(name in allowed for name in _NAMED.findall(text))
