"""The stage `decay`, as far as it is about synapses: credit and blame count less, the longer ago they came.

Nothing is written for a tree before a month has passed: a dream comes every few minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from runtime.memory.dream.procedural import BATCH, _time, _trees
from runtime.memory.dream.record import Dreamt
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.procedural.pruning import faded
from runtime.memory.procedural.trees import NeuronTree

STEP = timedelta(days=30)
"""Between two times that a store fades."""
NAME = "decay"


def fade_synapses(dream: Dream) -> Told:
    """Credit and blame of all trees fade by the time since they last did."""
    last = _last(dream)
    wanted: list[tuple[str, datetime]] = []
    for id, tree in _trees(dream):
        begun = last or _time(str(tree.get("created") or ""))
        judged = any(each.get("right") or each.get("wrong") for each in tree.get("synapses") or ())
        if judged and begun is not None and dream.now - begun >= STEP:
            wanted.append((id, begun))
    since = dict(wanted)
    hebbian = dream.brain.settings.parts.hebbian
    for start in range(0, len(wanted), BATCH):
        for tree in dream.shelf.pick(NeuronTree, [id for id, _ in wanted[start : start + BATCH]]):
            days = (dream.now - since[tree.id]).total_seconds() / 86_400
            dream.shelf.put(faded(tree, days, hebbian=hebbian))
    return Told((), {"faded trees": len(wanted)})


def _last(dream: Dream) -> datetime | None:
    """When synapses faded last."""
    times = (
        each.at
        for each in dream.shelf.scan(Dreamt)
        if each.stages.get(NAME) and _faded(each) and each.id != dream.id
    )
    return max((found for at in times if (found := _time(at))), default=None)


def _faded(dreamt: Dreamt) -> bool:
    return bool(dreamt.stages[NAME].counts.get("faded trees"))
