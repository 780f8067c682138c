"""Which of two patterns stays where they contradict each other: the more specific one, then the surer one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runtime.memory.learning.patterns import Pattern

ALIKE = 0.75
"""Of the words that two texts have together, those that both have: from here on they speak of the same."""
_SPECIFIC = {"agent": 2, "space": 1, "all": 0}
_WORD = re.compile(r"[a-z0-9']+")


def opposite(rule: str) -> str:
    """The rule that asks for the contrary."""
    return rule.removeprefix("not ") if rule.startswith("not ") else f"not {rule}"


@dataclass(frozen=True)
class Advice:
    """How words of advice are read: `system/memory/advice.md` of the folders of instructions."""

    negations: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()

    def words(self, text: str) -> tuple[frozenset[str], bool]:
        """The words that carry a text, and whether it says not to."""
        words = frozenset(_WORD.findall(text.lower().replace("\u2019", "'")))
        return words - self.negations - self.empty, bool(self.negations & words)


@cache
def advice_of(systems: tuple[Path, ...]) -> Advice:
    """Read once; without the file nothing but rules can contradict each other."""
    found: dict[str, set[str]] = {"not to": set(), "carrying nothing": set()}
    for folder in systems:
        try:
            text = (folder / "memory" / "advice.md").read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for section in re.split(r"(?m)^## +", text)[1:]:
            heading, _, words = section.partition("\n")
            found.get(heading.strip().lower(), set()).update(words.lower().split())
    return Advice(frozenset(found["not to"]), frozenset(found["carrying nothing"]))


def contradict(one: Pattern, other: Pattern, advice: Advice) -> bool:
    """Whether they cannot both be followed: opposite rules, or what one says the other says not to do."""
    if one.rule and other.rule:
        return one.rule == opposite(other.rule)
    if _against(one.guidance, other.avoid, advice) or _against(other.guidance, one.avoid, advice):
        return True
    (first, refused), (second, refuses) = advice.words(one.guidance), advice.words(other.guidance)
    return refused != refuses and _share(first, second) >= ALIKE


def _against(guidance: str, avoid: str, advice: Advice) -> bool:
    """Whether a text asks for what another one says to avoid."""
    (said, refused), (avoided, _) = advice.words(guidance), advice.words(avoid)
    return bool(avoided) and not refused and _share(said, avoided) >= ALIKE


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def settled(patterns: Iterable[Pattern], advice: Advice) -> list[Pattern]:
    """Without those that a more specific, or of equals a surer one contradicts."""
    kept: list[Pattern] = []
    for each in sorted(patterns, key=worth):
        if not any(contradict(each, other, advice) for other in kept):
            kept.append(each)
    return kept


def conflicts(patterns: Sequence[Pattern], advice: Advice) -> list[tuple[Pattern, Pattern]]:
    """The pairs that contradict each other, the one that stays first."""
    ordered = sorted(patterns, key=worth)
    pairs = ((one, other) for at, one in enumerate(ordered) for other in ordered[at + 1 :])
    return [(one, other) for one, other in pairs if contradict(one, other, advice)]


def worth(pattern: Pattern) -> tuple[float, float, float, str]:
    """Sorts the more specific, then the surer one first."""
    return (-_SPECIFIC[pattern.scope], -pattern.confidence, -pattern.success_rate, pattern.name)
