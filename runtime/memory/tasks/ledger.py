"""How often a procedure was used and went well, and how far it is trusted for that.

Stages: Hippocampus (new), Neocortex (proven), Cerebellum (sure). Source: seed 000_39bad3da279292ba,
"Reward System" and "Method Neurons".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Stage = Literal["hippocampus", "neocortex", "cerebellum"]
Verification = Literal["next rung", "two paths", "none"]
STAGES: tuple[Stage, ...] = ("hippocampus", "neocortex", "cerebellum")
NEEDED: Mapping[Stage, tuple[int, float]] = {"neocortex": (10, 0.7), "cerebellum": (50, 0.9)}
"""Uses, and the share of them that went well, for each stage. Source: the seed."""
SAMPLED = 20
"""In Cerebellum, one use in so many is checked."""
QUARANTINE_USES = 2
QUARANTINE_REJECTED = 0.6
"""After so many uses, a procedure that failed more often than this is not used. Source: the seed."""


class Ledger(BaseModel):
    """The uses of a procedure; each counts as much as its judge is trusted."""

    model_config = ConfigDict(frozen=True)

    uses: int = 0
    correct: int | float = 0
    incorrect: int | float = 0
    forgiven: tuple[int, int | float, int | float] = (0, 0, 0)  # uses, correct, incorrect before a release

    @property
    def confidence(self) -> float:
        """The probability that the next use goes well: the mean of a Beta(1, 1) prior and the counts."""
        return (self.correct + 1) / (self.correct + self.incorrect + 2)

    @property
    def quarantined(self) -> bool:
        """Whether it failed too often since its last release."""
        uses, correct, incorrect = self.forgiven
        right, wrong = max(self.correct - correct, 0), max(self.incorrect - incorrect, 0)
        return self.uses - uses >= QUARANTINE_USES and rejected(right, wrong)

    def after(self, good: bool, trust: float = 1.0, uses: int = 1) -> Ledger:
        """The ledger with one more use; `uses=-1` takes one back."""
        return self.model_copy(
            update={
                "uses": max(self.uses + uses, 0),
                "correct": more(self.correct, uses * trust * good),
                "incorrect": more(self.incorrect, uses * trust * (not good)),
            }
        )

    def released(self) -> Ledger:
        """The ledger out of quarantine."""
        return self.model_copy(update={"forgiven": (self.uses, self.correct, self.incorrect)})


def rejected(right: float, wrong: float) -> bool:
    """Whether too large a share went wrong."""
    return right + wrong > 0 and wrong / (right + wrong) > QUARANTINE_REJECTED


def more(count: float, by: float) -> int | float:
    """A count changed by an amount: at least 0, an int where it is whole, rounded so that changes cancel."""
    made = round(float(max(count + by, 0)), 6)
    return int(made) if made.is_integer() else made


def stage_of(ledger: Ledger) -> Stage:
    """The highest stage that the counts of a ledger allow."""
    reached: Stage = "hippocampus"
    judged = ledger.correct + ledger.incorrect
    for stage, (uses, share) in NEEDED.items():
        if ledger.uses >= uses and judged and ledger.correct / judged >= share:
            reached = stage
    return reached


class Standing(BaseModel):
    """The stage of a procedure. A failure demotes it; it rises again after `waits` good uses."""

    model_config = ConfigDict(frozen=True)

    stage: Stage = "hippocampus"
    waits: int = 0

    def after(self, ledger: Ledger, good: bool) -> Standing:
        """The standing after one more use, which `ledger` already counts."""
        at = STAGES.index(self.stage)
        if not good:
            return Standing(stage=STAGES[max(at - 1, 0)], waits=NEEDED["neocortex"][0] if at else 0)
        waits = max(self.waits - 1, 0)
        rises = waits == 0 and STAGES.index(stage_of(ledger)) > at
        return Standing(stage=STAGES[at + rises], waits=waits)


def lower(one: Standing, other: Standing) -> Standing:
    """The standing of two procedures that become one: the lower stage and the longer wait."""
    stage = STAGES[min(STAGES.index(one.stage), STAGES.index(other.stage))]
    return Standing(stage=stage, waits=max(one.waits, other.waits))


def verification(stage: Stage, name: str, use: int) -> Verification:
    """Who checks a use: the next rung, a second way to find the steps, or nobody.

    The sample in Cerebellum is drawn by the procedure's name and the number of the use.
    """
    if stage == "hippocampus":
        return "next rung"
    if stage == "neocortex":
        return "two paths"
    digest = hashlib.sha256(f"{name}#{use}".encode()).digest()
    return "next rung" if int.from_bytes(digest[:8], "big") % SAMPLED == 0 else "none"


def plain(steps: Sequence[Mapping[str, Any]]) -> str:
    """Tools and arguments of steps as text, so that steps can be compared."""
    calls = json.dumps([[step.get("tool"), step.get("args") or {}] for step in steps], sort_keys=True)
    return re.sub(r"\{\{\s*(.*?)\s*\}\}", r"{{ \1 }}", calls)
