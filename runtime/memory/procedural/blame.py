"""Which part of a task misled: an outcome is shared over the branches of a tree that the new task changed.

A recall keeps most of a stored task and changes some of it. Where it goes wrong, what was changed is the
first suspect: a tree that is right with other numbers may be wrong with another noun. Each outcome is shared,
from the root down, by synapse weight, over the branches that hold a changed span (over all of them when
nothing was changed). Two things use it: the confidence of a candidate, which is that of the branches that the
task at hand changes; and a tree is not replayed for a task that changes a branch which misled too often, by
the same rule by which a whole tree is quarantined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from runtime.memory.procedural.ledger import QUARANTINE_USES, rejected
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.trees import NeuronTree, Synapse, short

PRIOR = 2.0
"""Uses that the tree's own ledger counts for beside those of a branch."""
_WORD = re.compile(r"\w+|[^\w\s]")

Spans = Sequence[tuple[int, int]]


def changed(stored: str, task: str) -> list[tuple[int, int]]:
    """The spans of a stored task that a new one has otherwise."""
    old = list(_WORD.finditer(stored))
    matcher = SequenceMatcher(
        None,
        [hit[0].lower() for hit in old],
        [hit[0].lower() for hit in _WORD.finditer(task)],
        autojunk=False,
    )
    spans: list[tuple[int, int]] = []
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind == "equal" or not old:
            continue
        first, last = (start, end - 1) if end > start else (max(start - 1, 0), min(start, len(old) - 1))
        spans.append((old[first].start(), old[last].end()))
    return spans


def shares(tree: NeuronTree, task: str, parts: Parts = ALL) -> dict[str, float]:
    """What each branch has of an outcome, by neuron; without blame, all on the path have the whole."""
    if not tree.synapses or not (parts.blame or parts.hebbian):
        return {}
    path = on_path(tree, changed(tree.exemplar.task, task))
    if not parts.blame:
        return dict.fromkeys(map(short, path), 1.0)
    found: dict[str, float] = {}
    _share(tree.neurons[0].id, 1.0, _children(tree.synapses), path, found)
    return {short(child): round(share, 4) for child, share in found.items()}


def _share(
    parent: str,
    whole: float,
    children: Mapping[str, Sequence[Synapse]],
    path: set[str],
    found: dict[str, float],
) -> None:
    below = [each for each in children.get(parent, ()) if each.child in path and each.child not in found]
    total = sum(each.weight for each in below)
    mine = {each.child: whole * each.weight / total for each in below}
    found.update(mine)
    for child, share in mine.items():
        _share(child, share, children, path, found)


def on_path(tree: NeuronTree, spans: Spans) -> set[str]:
    """The neurons below the root whose text holds one of these spans; all of them where there is none."""
    places = {each.id: (each.start, each.start + len(each.label)) for each in tree.neurons}
    below = {each.child for each in tree.synapses}
    held = {each for each in below if _overlaps(places.get(each, (0, 0)), spans)}
    return held if spans else below


def _overlaps(place: tuple[int, int], spans: Spans) -> bool:
    return any(start < place[1] and end > place[0] for start, end in spans)


def _children(synapses: Iterable[Synapse]) -> dict[str, list[Synapse]]:
    found: dict[str, list[Synapse]] = {}
    for each in synapses:
        found.setdefault(each.parent, []).append(each)
    return found


def _touched(tree: NeuronTree, task: str) -> list[Synapse]:
    """The synapses to the smallest branches that a task changes, of those that were judged before."""
    if not any(each.right or each.wrong for each in tree.synapses):
        return []
    spans = changed(tree.exemplar.task, task)
    path = on_path(tree, spans)
    inner = {each.parent for each in tree.synapses if each.child in path}
    return [each for each in tree.synapses if each.child in path and each.child not in inner]


def confidence(tree: NeuronTree, task: str, parts: Parts = ALL) -> float:
    """How sure it is that this tree is right for this task: by its ledger, and by what the task changes."""
    own = tree.ledger.confidence
    touched = _touched(tree, task) if parts.blame else []
    total = sum(each.weight for each in touched)
    if not total:
        return own
    each_one = (
        each.weight * (each.right + PRIOR * own) / (each.right + each.wrong + PRIOR) for each in touched
    )
    return sum(each_one) / total


def suspect(tree: NeuronTree, task: str, parts: Parts = ALL) -> str:
    """The part of the stored task that this one changes and that misled too often; "" where there is none."""
    if not (parts.blame and parts.quarantine):
        return ""
    labels = {each.id: each.label for each in tree.neurons}
    for each in _touched(tree, task):
        if each.right + each.wrong >= QUARANTINE_USES and rejected(each.right, each.wrong):
            return labels.get(each.child, each.child)
    return ""
