"""How wide a recall looks follows from how well the nearest shape is known."""

from __future__ import annotations

import pytest
from growing import OTHER, STORED, shelf_of, solved, words

from runtime.memory.embed.lexical import Lexical
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.types import SHAPE_FAMILIAR, SHAPE_RECOGNIZED, WIDTH, by_shape


@pytest.mark.parametrize(
    ("likeness", "kind"),
    [
        (1.0, "recognized"),
        (SHAPE_RECOGNIZED, "recognized"),
        (SHAPE_RECOGNIZED - 0.01, "familiar"),
        (SHAPE_FAMILIAR, "familiar"),
        (SHAPE_FAMILIAR - 0.01, "novel"),
        (0.0, "novel"),
    ],
)
def test_the_nearest_shape_tells_what_a_task_is_taken_for(likeness: float, kind: str) -> None:
    assert by_shape(likeness).kind == kind


def test_what_is_known_well_is_compared_with_few_and_what_is_not_with_many() -> None:
    with shelf_of() as shelf:
        memory = ProceduralMemory(shelf, Lexical(), words())
        names = [f"{one}{two}" for one in "BCDFGH" for two in ("abo", "eku", "iva", "ora", "una", "ylo")]
        for name in names:
            memory.learn(solved(STORED.replace("Tom", name), "3*8"))
        assert len(memory.candidates(OTHER)) == WIDTH["recognized"] < WIDTH["familiar"]
        asked = "How much does Tom pay in total for apples, at $9 a box, where Tom buys 5 of the boxes?"
        found = memory.recall(asked)
        assert found.kind == "novel" and found.candidates > WIDTH["recognized"]
        assert memory.recall(OTHER).kind == "variation"
