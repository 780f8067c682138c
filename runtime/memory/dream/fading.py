"""The stage `decay`: edges grow weaker, and the credit and blame of synapses count less, with time.

Nothing is written for a tree before a month has passed: a dream comes every few minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from runtime.memory.dream import decay as edges
from runtime.memory.dream.procedural import BATCH, JUDGED, time_of, trees_of
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.procedural.pruning import faded
from runtime.memory.procedural.trees import NeuronTree

STEP = timedelta(days=30)
"""Between two times that synapses fade."""
SYNAPSES = "synapses"


def decay(dream: Dream) -> Told:
    """Both."""
    told, count = edges.decay(dream), fade_synapses(dream)
    return Told(told.did, {**told.counts, "faded": count}, told.form)


def fade_synapses(dream: Dream) -> int:
    """Credit and blame of all trees fade by the time since they last did; how many did."""
    known = dream.shelf.get(edges.Decayed, SYNAPSES)
    last = time_of(known.at) if known else None
    if last is not None and dream.now - last < STEP:
        return 0
    wanted: list[tuple[str, datetime]] = []
    for id, tree in trees_of(dream, JUDGED):
        begun = last or time_of(str(tree.get("created") or ""))
        judged = any(each.get("right") or each.get("wrong") for each in tree.get("synapses") or ())
        if judged and begun is not None and dream.now - begun >= STEP:
            wanted.append((id, begun))
    since = dict(wanted)
    hebbian = dream.brain.settings.parts.hebbian
    for start in range(0, len(wanted), BATCH):
        for tree in dream.shelf.pick(NeuronTree, [id for id, _ in wanted[start : start + BATCH]]):
            days = (dream.now - since[tree.id]).total_seconds() / 86_400
            dream.shelf.put(faded(tree, days, hebbian=hebbian))
    if wanted:
        dream.shelf.put(edges.Decayed(id=SYNAPSES, at=dream.now.isoformat(timespec="seconds")))
    return len(wanted)
