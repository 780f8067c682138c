"""What each mechanism of memory has done, in figures for `fractal brain report`.

docs/memory-decisions.md says what each of them is, and what triggers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from runtime.memory.dream.stages import DreamRecord
from runtime.memory.facts.health import SELF, saturation
from runtime.memory.facts.records import Edge, Observation
from runtime.memory.learning.patterns import Pattern
from runtime.memory.store import Shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.hebbian import failed
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import ProblemType

DONE = {
    "mitosis": ("split", "types split"),
    "fusion": ("fused", "types joined"),
    "merge-neurons": ("merged", "trees merged"),
    "delete-weak-trees": ("deleted", "trees deleted"),
    "rehabilitate": ("released", "trees rehabilitated"),
    "prune-synapses": ("synapses", "synapses pruned"),
    "prune-branches": ("synapses", "branches cut"),
    "prune-events": ("decisions", "decisions pruned"),
    "birth-methods": ("born", "methods born"),
    "refine": ("invalidated", "edges invalidated"),
    "compress-patterns": ("merged", "patterns merged"),
    "promote": ("promoted", "patterns promoted"),
}
"""By stage of a dream: the count, and what it means."""
ADVICE = "nothing surprises it about itself any more: challenge what it believes"


def mechanisms(
    shelf: Shelf, decisions: Iterable[Decision], patterns: Iterable[Pattern], now: datetime
) -> dict[str, dict[str, Any]]:
    """By mechanism, its figures that are not zero."""
    trees = list(shelf.scan(NeuronTree))
    methods = list(shelf.scan(Method))
    judged = [each for tree in trees for each in tree.synapses if each.right or each.wrong]
    edges = list(shelf.scan(Edge))
    found: dict[str, Counter[str]] = {
        "recognition": Counter(each.recognition for each in decisions if each.type or not each.replayed),
        "problem types": Counter(each.origin for each in shelf.scan(ProblemType)),
        "solved tasks": Counter(tree.stands.stage for tree in trees),
        "methods": Counter(each.stage for each in methods) + Counter(each.form for each in methods),
        "branches": Counter(
            judged=len(judged), misled=sum(failed(each.right, each.wrong) for each in judged)
        ),
        "edges": Counter(each.relation for each in edges)
        + Counter(invalidated=sum(bool(each.invalidated) for each in edges)),
        "patterns": Counter(
            {"agent": "of an agent", "space": "of a space", "all": "of all"}[each.scope] for each in patterns
        ),
        "dreams": _dreamt(shelf),
    }
    return {name: dict(+each) for name, each in found.items() if +each} | _self(shelf, now)


def _dreamt(shelf: Shelf) -> Counter[str]:
    done: Counter[str] = Counter()
    for dream in shelf.scan(DreamRecord):
        done["dreams"] += 1
        for name, (count, meaning) in DONE.items():
            if name in dream.stages:
                done[meaning] += int(dream.stages[name].counts.get(count, 0))
    return done


def _self(shelf: Shelf, now: datetime) -> dict[str, dict[str, Any]]:
    """The observations about oneself, how much they surprised in the last 14 days, and what to do."""
    observations = list(shelf.scan(Observation, {"said": list(SELF)}))
    if not observations:
        return {}
    state = saturation(observations, now)
    figures: dict[str, Any] = dict(Counter(each.said for each in observations))
    figures |= {"mean surprise": None if state.mean is None else round(state.mean, 4), "trend": state.trend}
    return {"self-image": figures | ({"advice": ADVICE} if state.saturated else {})}
