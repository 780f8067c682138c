"""What came of a decision: who said so, how far that is trusted, and what it changes.

A decision is one use of what it replayed and counts once, whoever says how often what came of it. A person's
word goes before a machine's, else the most trusted word; where those differ, the refusal. What a decision
counts for follows from everything that was said of it, in whatever order: what no longer holds is taken back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.memory.procedural.blame import shares
from runtime.memory.procedural.decisions import PERSON, Decision
from runtime.memory.procedural.hebbian import credited
from runtime.memory.procedural.merging import tree_by
from runtime.memory.procedural.outcome import calculated
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.surprise import SURPRISING, Moved, surprise
from runtime.memory.procedural.trees import NeuronTree
from runtime.store import Shelf

RELIABILITY: Mapping[str, float] = {
    PERSON: 1.0,
    "tests": 1.0,
    "criteria": 1.0,
    "check": 0.6,
    "no errors": 0.6,
    "timeout": 0.6,
    "escalation": 0.3,
}
"""How far each source is trusted; high, medium and low in learning.md, a model's check being medium."""
VERIFYING = 1.0
"""A success takes a tree out of quarantine where who tells it is trusted as much as this."""


@dataclass(frozen=True)
class Verdict:
    """What a decision's outcome is taken to be."""

    good: bool
    trust: float
    source: str


def verdict(said: Mapping[str, tuple[bool, float]]) -> Verdict | None:
    """The word that counts of all that was said."""
    if not said:
        return None
    source, (good, trust) = max(
        said.items(), key=lambda each: (each[0] == PERSON, each[1][1], not each[1][0], each[0])
    )
    return Verdict(good, trust, source)


def settle(
    shelf: Shelf,
    decision: str,
    good: bool,
    source: str,
    reliability: float | None = None,
    parts: Parts = ALL,
    moved: Moved | None = None,
) -> Decision | None:
    """Take in what somebody says came of a decision; returns it as it is then, None where there is none.

    The same source saying the same again changes nothing, and may change its mind. Without `reliability` it
    is trusted as `RELIABILITY` says. A decision that replayed nothing is no use of the tree it taught, unless
    a person speaks of it; but it tells which of several trees that had fitted was right.
    """
    with shelf.transaction():
        found = shelf.get(Decision, decision)
        if found is None:
            return None
        trust = RELIABILITY.get(source, 1.0) if reliability is None else min(max(reliability, 0.0), 1.0)
        if found.said.get(source) == (good, trust):
            return found
        said = {**found.said, source: (good, trust)}
        before, after = verdict(found.said), verdict(said)
        assert after
        settled = found.model_copy(update={"said": said, "outcome": after.good, "source": after.source})
        if before is None or (before.good, before.trust) != (after.good, after.trust) or not found.replayed:
            settled = _count(shelf, settled, before, after, parts)
        settled = settled.model_copy(update={"surprise": surprise(settled, after.good)})
        shelf.put(settled)
    if moved and parts.surprise and settled.type and (before is None or before.good != after.good):
        told = settled.surprise or 0.0
        tree = tree_by(shelf, settled.tree)
        vectors = settled.vectors or (tree.vectors if tree else {})
        if told > SURPRISING and vectors:
            moved(settled.type, vectors, told)
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
    if after.good and after.trust >= VERIFYING and ledger.quarantined:  # or what solved it again is the same
        ledger, released = ledger.released(), ledger.forgiven
    if now:
        ledger = ledger.after(now.good, now.trust)
        synapses = credited(synapses, divided or {}, now.good, now.trust, hebbian=parts.hebbian)
    standing = tree.standing
    if now and (was is None or was.good != now.good):
        standing = tree.stands.after(ledger, now.good)
    if (ledger, synapses, standing) != (tree.ledger, tree.synapses, tree.standing):
        update = {"ledger": ledger, "synapses": synapses, "standing": standing}
        shelf.put(tree.model_copy(update=update))
    return decision.model_copy(update={"shares": divided, "released": released})


def _counting(decision: Decision, told: Verdict | None) -> Verdict | None:
    """A verdict as far as it is one on the decision's tree."""
    return told if told and (decision.replayed or told.source == PERSON) else None


def _count_rivals(shelf: Shelf, decision: Decision, before: Verdict | None, after: Verdict) -> Decision:
    """What solved the task tells which of those that had fitted would have been right."""
    taught = None if decision.did else shelf.get(NeuronTree, decision.tree)
    did = deed(taught.exemplar.steps) if taught else decision.did
    for name, would in decision.rivals.items() if did else ():
        rival = tree_by(shelf, name)
        if rival is None:
            continue
        ledger = rival.ledger
        if before and before.good:
            ledger = ledger.after(would == did, before.trust, uses=-1)
        if after.good:
            ledger = ledger.after(would == did, after.trust)
        if ledger != rival.ledger:
            shelf.put(rival.model_copy(update={"ledger": ledger}))
    return decision.model_copy(update={"did": did})


def deed(steps: Sequence[Mapping[str, Any]]) -> str:
    """What steps do, in short: what is calculated by its result, else the tools and their arguments."""
    results = calculated(steps)
    if results is not None:
        return f"= {results[-1]}"
    told = [(step.get("tool"), step.get("args")) for step in steps]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:24]


def release(shelf: Shelf, id: str) -> NeuronTree | None:
    """Take a tree out of quarantine, for a person who has looked at it; None where there is none."""
    with shelf.transaction():
        tree = tree_by(shelf, id)
        if tree is not None and tree.ledger.quarantined:
            tree = tree.model_copy(update={"ledger": tree.ledger.released()})
            shelf.put(tree)
    return tree
