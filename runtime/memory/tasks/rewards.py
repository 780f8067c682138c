"""Rewards: what came of a decision, who says so, and what that changes.

A decision counts as one use, however many sources speak of it. A person's word counts first, then the most
trusted source, then a refusal. Counts are computed from everything that was said, so the order does not
matter and a changed mind takes back what it counted before.

Surprise is the difference between the confidence before and the outcome after; a surprising outcome moves the
centroid of the task's type further. Source: seed 000_39bad3da279292ba, "Prediction System".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runtime.memory.store import Shelf
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.binding import deed
from runtime.memory.tasks.blame import shares
from runtime.memory.tasks.decisions import PERSON, Decision
from runtime.memory.tasks.hebbian import credited
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.trees import NeuronTree

OWN = "own criteria"
"""The criteria that a replay brings along from memory: that they hold shows nothing."""
RELIABILITY: Mapping[str, float] = {
    PERSON: 1.0,
    OWN: 0.0,
    "tests": 1.0,
    "criteria": 1.0,
    "check": 0.6,
    "no errors": 0.6,
    "timeout": 0.6,
    "escalation": 0.3,
}
"""How far each source is trusted, between 0 and 1; with 0 a use counts and has no outcome."""
VERIFYING = 1.0
"""A success reported with this trust releases a tree from quarantine."""
SURPRISING = 0.3
"""A larger surprise moves the type's centroid. Source: the seed."""


Moved = Callable[[str, Mapping[str, bytes], float], object]
"""Moves the centroid of a type; called with the type, the task's vectors by embedder and the surprise."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a decision."""

    good: bool
    trust: float
    source: str

    @property
    def outcome(self) -> bool | None:
        """Whether it went well; None if the source shows nothing."""
        return self.good if self.trust else None


def verdict(said: Mapping[str, tuple[bool, float]]) -> Verdict | None:
    """The outcome by all that was said, as (good, trust) by source."""
    if not said:
        return None
    source, (good, trust) = max(
        said.items(), key=lambda each: (each[0] == PERSON, each[1][1], not each[1][0], each[0])
    )
    return Verdict(good, trust, source)


def surprise(decision: Decision, outcome: bool | None) -> float | None:
    """|confidence before - outcome after|; None where nothing was predicted or the outcome is unknown."""
    return round(abs(decision.predicted - outcome), 4) if decision.predicts and outcome is not None else None


def settle(
    shelf: Shelf,
    decision: str,
    good: bool,
    source: str,
    parts: Parts = ALL,
    moved: Moved | None = None,
) -> Decision | None:
    """Record what a source says came of a decision; returns the decision, None if there is none.

    A source may repeat itself or change its mind. A decision that replayed nothing is no use of the tree that
    it taught, unless a person judges it; but it shows which of several rival trees was right.
    """
    with shelf.transaction():
        found = shelf.get(Decision, decision)
        if found is None:
            return None
        trust = RELIABILITY.get(source, 1.0)
        if found.said.get(source) == (good, trust):
            return found
        said = {**found.said, source: (good, trust)}
        before, after = verdict(found.said), verdict(said)
        assert after
        update = {"said": said, "outcome": after.outcome, "source": after.source}
        settled = found.model_copy(update={**update, "surprise": surprise(found, after.outcome)})
        if before is None or (before.good, before.trust) != (after.good, after.trust) or not found.replayed:
            settled = _count(shelf, settled, before, after, parts)
        shelf.put(settled)
    surprised = settled.surprise or 0.0
    new = before is None or before.outcome != after.outcome
    if moved and parts.surprise and settled.type and new and surprised > SURPRISING:
        tree = tree_by(shelf, settled.tree)
        if vectors := settled.vectors or (tree.vectors if tree else {}):
            moved(settled.type, vectors, surprised)
    return settled


def _count(
    shelf: Shelf, decision: Decision, before: Verdict | None, after: Verdict, parts: Parts
) -> Decision:
    """Take back what the earlier verdict counted for, and count the new one."""
    if decision.rivals:
        decision = _count_rivals(shelf, decision, before, after)
    tree = tree_by(shelf, decision.tree)
    if tree is None:
        return decision
    was, now = _counting(decision, before), _counting(decision, after)
    divided = decision.shares
    if divided is None and now:
        divided = shares(tree, decision.text, parts)
    ledger, synapses, released = tree.ledger, tree.synapses, decision.released
    if was:
        ledger = ledger.after(was.good, was.trust, uses=-1)
        synapses = credited(synapses, divided or {}, was.good, -was.trust, hebbian=parts.hebbian)
    if released is not None:
        ledger, released = ledger.model_copy(update={"forgiven": released}), None
    if after.good and after.trust >= VERIFYING and ledger.quarantined:
        ledger, released = ledger.released(), ledger.forgiven
    if now:
        ledger = ledger.after(now.good, now.trust)
        synapses = credited(synapses, divided or {}, now.good, now.trust, hebbian=parts.hebbian)
    standing = tree.standing
    if now and now.trust and (was is None or was.outcome != now.outcome):
        standing = tree.stands.after(ledger, now.good)
    if (ledger, synapses, standing) != (tree.ledger, tree.synapses, tree.standing):
        update = {"ledger": ledger, "synapses": synapses, "standing": standing}
        shelf.put(tree.model_copy(update=update))
    return decision.model_copy(update={"shares": divided, "released": released})


def _counting(decision: Decision, verdict: Verdict | None) -> Verdict | None:
    return verdict if verdict and (decision.replayed or verdict.source == PERSON) else None


def _count_rivals(shelf: Shelf, decision: Decision, before: Verdict | None, after: Verdict) -> Decision:
    """Count for each rival tree whether it would have done what solved the task."""
    taught = None if decision.did else shelf.get(NeuronTree, decision.tree)
    did = deed(taught.exemplar.steps) if taught else decision.did
    for name, would in decision.rivals.items() if did else ():
        if (rival := tree_by(shelf, name)) is None:
            continue
        ledger = rival.ledger
        if before and before.good:
            ledger = ledger.after(would == did, before.trust, uses=-1)
        if after.good:
            ledger = ledger.after(would == did, after.trust)
        if ledger != rival.ledger:
            shelf.put(rival.model_copy(update={"ledger": ledger}))
    return decision.model_copy(update={"did": did})


def release(shelf: Shelf, id: str) -> NeuronTree | None:
    """Release a tree from quarantine, for a person; None if there is none."""
    with shelf.transaction():
        tree = tree_by(shelf, id)
        if tree is not None and tree.ledger.quarantined:
            tree = tree.model_copy(update={"ledger": tree.ledger.released()})
            shelf.put(tree)
    return tree
