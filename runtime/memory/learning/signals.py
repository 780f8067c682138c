"""How it is known whether an attempt went well, and how far that is trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel.document import Document, Fold
from runtime.memory.episodic import signal_of
from runtime.memory.procedural.rewards import RELIABILITY

VALUES: Mapping[str, tuple[int, str]] = {
    "user_approved": (1, "person"),
    "user_rejected": (-1, "person"),
    "tests_passed": (1, "tests"),
    "tests_failed": (-1, "tests"),
    "no_errors": (1, "no errors"),
    "timeout": (-1, "timeout"),
    "escalation": (-1, "escalation"),
}
"""Each signal: good or bad, and the source by which `RELIABILITY` trusts it."""
ACCEPTED = ("user_approved", "tests_passed")
"""Successes that somebody or something has looked at: only these can make a pattern."""


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt, and how it is known; "" where nothing tells."""

    signal: str = ""

    @property
    def good(self) -> bool | None:
        """Whether it went well; None where nobody can tell."""
        return VALUES[self.signal][0] > 0 if self.signal in VALUES else None

    @property
    def reward(self) -> float:
        """From -1 to 1: the signal by its reliability."""
        if self.signal not in VALUES:
            return 0.0
        value, source = VALUES[self.signal]
        return value * RELIABILITY[source]

    @property
    def accepted(self) -> bool:
        """Whether its success was looked at: by CHECK's own criteria, or by a person."""
        return self.signal in ACCEPTED


def outcomes(document: Document, said: bool | None = None) -> Sequence[tuple[int, Outcome]]:
    """The outcome of each attempt of a loop that has ended; `said` is a person's word on the last one."""
    folds = [(fold.attempt, Outcome(_of_fold(fold))) for fold in document.section(2).folds]
    last = document.meta.attempt
    return [*((n, outcome) for n, outcome in folds if n != last), (last, Outcome(signal_of(document, said)))]


def _of_fold(fold: Fold) -> str:
    """An earlier attempt went wrong: by CHECK that had it tried again, or by a rung that gave up."""
    return "tests_failed" if fold.decision == "retry" else "escalation"


def advantages(rewards: Sequence[float]) -> list[float]:
    """How far each attempt is above its group: (reward - mean) / deviation; 0 where all are alike.

    Source: group-relative policy optimisation, as training-free GRPO uses it to choose what to compare.
    """
    if not rewards:
        return []
    mean = sum(rewards) / len(rewards)
    deviation = (sum((each - mean) ** 2 for each in rewards) / len(rewards)) ** 0.5
    return [(each - mean) / deviation if deviation > 1e-9 else 0.0 for each in rewards]


def differs(goods: Sequence[bool]) -> bool:
    """Whether a group teaches anything: 0 < mean < 1 of its outcomes."""
    return 0 < sum(goods) < len(goods)
