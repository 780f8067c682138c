from pathlib import Path

import numpy as np
import pytest

from runtime.api.fractal import shipped_system
from runtime.memory.embed import choose
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.facts.retrieval import Retrieval, Scope
from runtime.memory.facts.retrieval.ranking import open_nodes
from runtime.memory.store import open_shelf

AT = "2026-05-04T09:00:00.000Z"
SAID = {
    "trip": ("Where did you go?", "We walked along the Douro valley.", "My feet hurt for days."),
    "bees": ("How is the hive?", "The queen bee left with the swarm.", "A neighbour caught it."),
}
QUESTIONS = ("Which valley did we walk along?", "Who left with the swarm?", "How were my feet?", "Douro bee")
TURNS = Scope(kinds=("observation",))


def retrieval(through: bool, embedder: str = "lexical") -> Retrieval:
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
    return Retrieval(shelf, choose(embedder), (shipped_system(),))


def within(found: Retrieval, best: str, wide: int) -> set[str]:
    """What is open when this record scores best of all."""
    found.index.refresh()
    scores = np.zeros(found.index.columns.count, np.float32)
    scores[next(row for (_, id), row in found.index.at.items() if id == best)] = 1.0
    all_of_them = np.arange(found.index.columns.count)
    return {found.index.rows[row].id for row in open_nodes(found.index, all_of_them, scores, wide)}


@pytest.mark.parametrize("best", ["bees", "bees 0", "bees 2"])
def test_a_node_is_as_good_as_the_best_of_its_rows_and_is_opened_whole(best: str) -> None:
    assert within(retrieval(True), best, 1) == {"bees", "bees 0", "bees 1", "bees 2"}


def test_without_memories_each_row_is_a_node() -> None:
    assert within(retrieval(False), "bees 1", 1) == {"bees 1"}


def test_where_there_are_few_nothing_is_closed() -> None:
    assert len(within(retrieval(True), "bees", 8)) == 8


def test_a_turn_is_found_through_its_memory() -> None:
    found = retrieval(True).search("Which valley did we walk along?", 3)
    assert "trip 1" in [each.id for each in found]


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_memories_say_does_not_change_which_turn_comes_first(question: str) -> None:
    before = retrieval(False).search(question, 6, scope=TURNS)
    after = retrieval(True).search(question, 6, scope=TURNS)
    assert before and [each.id for each in after] == [each.id for each in before]
    for one, other in zip(before, after, strict=True):
        assert one.parts == pytest.approx(other.parts)


@pytest.mark.parametrize("question", QUESTIONS)
def test_among_memories_turns_keep_their_order(question: str) -> None:
    before = retrieval(False).search(question, 6)
    after = retrieval(True).search(question, 8)
    assert any(each.kind == "memory" for each in after)
    turns = [each.id for each in after if each.kind == "observation"]
    assert turns == [each.id for each in before]


def test_a_share_is_of_the_best_that_may_be_found() -> None:
    found = retrieval(False)
    found.shelf.put(Observation(id="other", text="swarm, swarm!", at=AT, agent="someone"))
    (best, *_) = found.search(
        "Who left with the swarm?", 1, scope=Scope(agent="default", kinds=("observation",))
    )
    found.shelf.delete(Observation, "other")
    (alone, *_) = found.search("Who left with the swarm?", 1, scope=Scope(kinds=("observation",)))
    assert best.id == alone.id == "bees 1"
    assert best.parts["meaning"] == pytest.approx(alone.parts["meaning"])
