from __future__ import annotations

from runtime.memory.procedural.decisions import Decision
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.trees import NeuronTree
from runtime.store import Shelf


def settle(
    shelf: Shelf, decision: str, good: bool, source: str, reliability: float = 1.0, parts: Parts = ALL
) -> Decision | None:
    found = shelf.get(Decision, decision)
    if found is None or found.source == source:
        return found
    found = found.model_copy(update={"outcome": good, "source": source})
    with shelf.transaction():
        shelf.put(found)
        tree = shelf.get(NeuronTree, found.tree) if found.tree else None
        if (tree and found.path != "novel") or (tree and source == "person"):
            shelf.put(tree.model_copy(update={"ledger": tree.ledger.after(good)}))
    return found
