"""How far a procedure is trusted, and who looks at a use of it."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.memory.tasks.ledger import SAMPLED, Ledger, Stage, Standing, plain, stage_of, verification


def used(*outcomes: bool) -> tuple[Ledger, Standing]:
    ledger, standing = Ledger(), Standing()
    for good in outcomes:
        ledger = ledger.after(good)
        standing = standing.after(ledger, good)
    return ledger, standing


@pytest.mark.parametrize(
    ("right", "wrong", "stage"),
    [
        (0, 0, "hippocampus"),
        (9, 0, "hippocampus"),
        (10, 0, "neocortex"),
        (7, 3, "neocortex"),
        (6, 4, "hippocampus"),
        (49, 0, "neocortex"),
        (50, 0, "cerebellum"),
        (45, 5, "cerebellum"),
        (44, 6, "neocortex"),
    ],
)
def test_uses_and_their_outcomes_give_the_stage(right: int, wrong: int, stage: Stage) -> None:
    assert stage_of(Ledger(uses=right + wrong, correct=right, incorrect=wrong)) == stage


def test_a_procedure_rises_with_its_uses() -> None:
    assert used(*[True] * 9)[1].stage == "hippocampus"
    assert used(*[True] * 10)[1].stage == "neocortex"
    assert used(*[True] * 50)[1].stage == "cerebellum"


def test_a_failure_demotes_and_the_next_success_does_not_bring_it_back() -> None:
    assert used(*[True] * 60, False)[1].stage == "neocortex"
    assert used(*[True] * 60, False, True)[1].stage == "neocortex"
    assert used(*[True] * 60, False, *[True] * 9)[1].stage == "neocortex"
    assert used(*[True] * 60, False, *[True] * 10)[1].stage == "cerebellum"
    assert used(*[True] * 60, False, False)[1].stage == "hippocampus"


def test_failures_of_a_new_one_keep_it_new() -> None:
    assert used(*[True] * 6, *[False] * 4, *[True] * 3)[1].stage == "hippocampus"
    assert used(*[True] * 6, *[False] * 4, *[True] * 4)[1].stage == "neocortex"


def test_who_looks_follows_from_the_stage() -> None:
    assert verification("hippocampus", "x", 1) == "next rung"
    assert verification("neocortex", "x", 1) == "two paths"


def test_of_the_surest_one_use_in_twenty_is_looked_at_and_the_same_ones_each_time() -> None:
    drawn = [verification("cerebellum", "copy", use) for use in range(2_000)]
    assert drawn == [verification("cerebellum", "copy", use) for use in range(2_000)]
    assert set(drawn) == {"none", "next rung"}
    assert 0.5 < drawn.count("next rung") * SAMPLED / len(drawn) < 1.5
    assert drawn != [verification("cerebellum", "move", use) for use in range(2_000)]


def test_steps_are_compared_without_regard_to_order_and_spaces() -> None:
    def steps(**args: Any) -> str:
        return plain([{"tool": "write", "args": args, "needs": []}])

    one = steps(path="a", content="{{steps[1].result}}")
    assert one == steps(content="{{ steps[1].result }}", path="a")
    assert one != steps(path="b", content="{{ steps[1].result }}")
