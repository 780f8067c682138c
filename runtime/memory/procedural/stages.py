"""How far a procedure is trusted: what its ledger allows, and who has to look at a use of it.

Hippocampus (new) → Neocortex (proven) → Cerebellum (sure). Pure policy: nothing is read or written here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from runtime.memory.procedural.ledger import Ledger

Stage = Literal["hippocampus", "neocortex", "cerebellum"]
Verification = Literal["next rung", "two paths", "none"]
Paths = Literal["agree", "disagree", "alone"]
STAGES: tuple[Stage, ...] = ("hippocampus", "neocortex", "cerebellum")
NEEDED: Mapping[Stage, tuple[int, float]] = {"neocortex": (10, 0.7), "cerebellum": (50, 0.9)}
"""Uses, and the share of them that went well, for each stage. Source: memory.md."""
SAMPLED = 20
"""In Cerebellum one use in so many is looked at. Source: memory.md."""


def stage_of(ledger: Ledger) -> Stage:
    """The highest stage that the counts of a ledger allow."""
    reached: Stage = "hippocampus"
    judged = ledger.correct + ledger.incorrect
    for stage, (uses, share) in NEEDED.items():
        if ledger.uses >= uses and judged and ledger.correct / judged >= share:
            reached = stage
    return reached


class Standing(BaseModel):
    """Where a procedure stands. A failure demotes it, and it has to wait before it rises again."""

    model_config = ConfigDict(frozen=True)

    stage: Stage = "hippocampus"
    waits: int = 0  # uses that have to go well before it may rise

    def after(self, ledger: Ledger, good: bool) -> Standing:
        """The standing after one more use, which `ledger` counts already."""
        at = STAGES.index(self.stage)
        if not good:
            waits = NEEDED["neocortex"][0] if at else 0
            return Standing(stage=STAGES[max(at - 1, 0)], waits=waits)
        waits = max(self.waits - 1, 0)
        rises = waits == 0 and STAGES.index(stage_of(ledger)) > at
        return Standing(stage=STAGES[at + rises], waits=waits)


def lower(one: Standing, other: Standing) -> Standing:
    """Of what becomes one: where the less trusted stands, and as long a wait as either has."""
    stage = STAGES[min(STAGES.index(one.stage), STAGES.index(other.stage))]
    return Standing(stage=stage, waits=max(one.waits, other.waits))


def seed(name: str, use: int) -> str:
    """What the sample of a use is drawn by: the same for the same procedure and number of use."""
    return f"{name}#{use}"


def verification(stage: Stage, seed: str) -> Verification:
    """Who looks at a use: the next rung, a second way to bind the steps, or nobody."""
    if stage == "hippocampus":
        return "next rung"
    if stage == "neocortex":
        return "two paths"
    drawn = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % SAMPLED == 0
    return "next rung" if drawn else "none"


def compared(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]] | None) -> Paths:
    """Whether two ways to bind a task do the same; `alone` when the other one knows nothing of it.

    Who disagrees declines, and the ladder climbs; who is alone is checked by the next rung.
    """
    if other is None:
        return "alone"
    return "agree" if plain(one) == plain(other) else "disagree"


def plain(steps: Sequence[Mapping[str, Any]]) -> str:
    """What steps do, as text that can be compared: tools and arguments, whatever the order is written by."""
    told = [[step.get("tool"), _spaced(step.get("args") or {})] for step in steps]
    return json.dumps(told, sort_keys=True, ensure_ascii=False)


def _spaced(value: Any) -> Any:
    """References in one way of writing."""
    import re

    if isinstance(value, str):
        return re.sub(r"\{\{\s*(.*?)\s*\}\}", r"{{ \1 }}", value)
    if isinstance(value, Mapping):
        return {str(key): _spaced(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spaced(each) for each in value]
    return value
