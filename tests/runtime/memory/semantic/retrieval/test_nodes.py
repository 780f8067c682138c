from pathlib import Path

import numpy as np

from runtime.embedding import choose
from runtime.fractal import shipped_system
from runtime.memory.semantic.records import Memory, Observation
from runtime.memory.semantic.retrieval import ALL, Retrieval
from runtime.memory.semantic.retrieval.nodes import opened
from runtime.memory.semantic.retrieval.scoring import features, question_of
from runtime.store import open_shelf

AT = "2026-05-04T09:00:00.000Z"
SAID = {
    "trip": ("Where did you go?", "We walked along the Douro valley.", "My feet hurt for days."),
    "bees": ("How is the hive?", "The queen bee left with the swarm.", "A neighbour caught it."),
}


def retrieval(through: bool) -> Retrieval:
    shelf = open_shelf("memory", Path())
    for name, lines in SAID.items():
        ids = tuple(f"{name} {turn}" for turn in range(len(lines)))
        memory = name if through else ""
        shelf.put(
            *(
                Observation(id=id, text=text, thread=name, turn=turn, memory=memory, at=AT)
                for turn, (id, text) in enumerate(zip(ids, lines, strict=True))
            )
        )
        if through:
            shelf.put(Memory(id=name, text="\n".join(lines), evidence=ids, since=AT))
    return Retrieval(shelf, choose("lexical"), (shipped_system(),))


def led(found: Retrieval, question: str, wide: int) -> dict[str, float] | None:
    found.index.refresh()
    asked = question_of(found.index, question, ALL)
    scores = opened(found.index, features(found.index, asked, ALL), wide)
    if scores is None:
        return None
    return {id: float(scores[row]) for (_, id), row in found.index.at.items()}


def test_only_what_the_best_nodes_lead_to_is_open() -> None:
    scores = led(retrieval(True), "Who left with the swarm?", 1)
    assert scores is not None
    assert {id for id, score in scores.items() if np.isfinite(score)} == {
        "bees",
        "bees 0",
        "bees 1",
        "bees 2",
    }


def test_without_memories_nothing_is_closed() -> None:
    assert led(retrieval(False), "Who left with the swarm?", 1) is None


def test_a_turn_is_found_through_its_memory() -> None:
    found = retrieval(True).search("Which valley did we walk along?", 3)
    assert "trip 1" in [each.id for each in found]
