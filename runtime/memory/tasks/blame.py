"""Blame: which part of a task misled. An outcome is shared among the branches of a tree that a task changed.

When a recall goes wrong, the changed part is the first suspect: a tree may be right with other numbers and
wrong with another noun. Shares go down from the root by synapse weight, over the branches that contain a
changed span (over all of them if nothing changed). They give the confidence of a recall, and prevent a replay
for a task that changes a branch which misled too often. Source: seed 000_39bad3da279292ba, "BranchBlame".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.hebbian import failed
from runtime.memory.tasks.trees import NeuronTree, Synapse, short

PRIOR = 2.0
"""A branch starts with the tree's own confidence, which counts as much as this many uses."""
_WORD = re.compile(r"\w+|[^\w\s]")

Spans = Sequence[tuple[int, int]]


def changed(stored: str, task: str) -> list[tuple[int, int]]:
    """The character spans of a stored task that differ in a new one."""
    old = list(_WORD.finditer(stored))
    lows = [hit[0].lower() for hit in old], [hit[0].lower() for hit in _WORD.finditer(task)]
    spans: list[tuple[int, int]] = []
    for kind, start, end, _, _ in SequenceMatcher(None, *lows, autojunk=False).get_opcodes():
        if kind == "equal" or not old:
            continue
        first, last = (start, end - 1) if end > start else (max(start - 1, 0), min(start, len(old) - 1))
        spans.append((old[first].start(), old[last].end()))
    return spans


def shares(tree: NeuronTree, task: str, parts: Parts = ALL) -> dict[str, float]:
    """The share of an outcome of each branch, by short neuron id; 1 for all on the path without blame."""
    if not tree.synapses or not (parts.blame or parts.hebbian):
        return {}
    path = on_path(tree, changed(tree.exemplar.task, task))
    if not parts.blame:
        return dict.fromkeys(map(short, path), 1.0)
    found: dict[str, float] = {}
    waiting = [(tree.neurons[0].id, 1.0)]
    while waiting:
        parent, whole = waiting.pop()
        below = [s for s in tree.synapses if s.parent == parent and s.child in path and s.child not in found]
        total = sum(each.weight for each in below)
        mine = {each.child: whole * each.weight / total for each in below}
        found.update(mine)
        waiting += mine.items()
    return {short(child): round(share, 4) for child, share in found.items()}


def on_path(tree: NeuronTree, spans: Spans) -> set[str]:
    """The neurons below the root whose text overlaps one of these spans; all of them without spans."""
    below = {each.child for each in tree.synapses}
    if not spans:
        return below
    places = {each.id: (each.start, each.start + len(each.label)) for each in tree.neurons}
    return {
        each
        for each in below & places.keys()
        if any(start < places[each][1] and end > places[each][0] for start, end in spans)
    }


def _touched(tree: NeuronTree, task: str) -> list[Synapse]:
    """The synapses to the smallest branches that a task changes, if any branch was judged before."""
    if not any(each.right or each.wrong for each in tree.synapses):
        return []
    path = on_path(tree, changed(tree.exemplar.task, task))
    inner = {each.parent for each in tree.synapses if each.child in path}
    return [each for each in tree.synapses if each.child in path and each.child not in inner]


def confidence(tree: NeuronTree, task: str, parts: Parts = ALL) -> float:
    """The probability that the tree is right for a task: that of the branches which the task changes."""
    own = tree.ledger.confidence
    touched = _touched(tree, task) if parts.blame else []
    total = sum(each.weight for each in touched)
    if not total:
        return own
    rates = ((each, (each.right + PRIOR * own) / (each.right + each.wrong + PRIOR)) for each in touched)
    return sum(each.weight * rate for each, rate in rates) / total


def suspect(tree: NeuronTree, task: str, parts: Parts = ALL) -> str:
    """The part of the stored task that this one changes and that misled too often; "" for none."""
    if not (parts.blame and parts.quarantine):
        return ""
    labels = {each.id: each.label for each in tree.neurons}
    bad = (each.child for each in _touched(tree, task) if failed(each.right, each.wrong))
    return next((labels.get(each, each) for each in bad), "")
