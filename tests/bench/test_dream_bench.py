"""`python -m bench dream`, the half about solved tasks: its figures and its goals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT

from bench import dream, dreaming_trees

FAMILIES = Path(__file__).parents[1] / "runtime" / "memory" / "tasks" / "families.jsonl"


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return dreaming_trees.measure(FAMILIES, 4 if NIGHT else 2, "lexical")


@pytest.mark.night
def test_answers_are_measured_before_and_after_the_dream_and_without_each_stage(
    figures: dict[str, Any],
) -> None:
    for kind in ("lived", "imported"):
        store = figures[kind]
        assert store["questions"] > 0
        assert {"answered", "right_of_answered", "false_replay", "wrong", "trees"} <= store["before"].keys()
        assert set(store["without"]) == {
            "merge-neurons",
            "prune-synapses",
            "delete-weak-trees",
            "rehabilitate",
            "prune-events",
            "prune-branches",
            "mitosis",
            "fusion",
            "cluster-substrates",
            "birth-methods",
            "decay",
        }
        assert store["after"]["neurons"] <= store["before"]["neurons"]
        assert "prune-synapses" not in store["without"]["prune-synapses"]["did"]


@pytest.mark.night
def test_the_figures_are_the_same_each_time(figures: dict[str, Any]) -> None:
    def without_times(figures: dict[str, Any]) -> str:
        lived = figures["lived"]
        rows = [lived["before"], lived["after"], *lived["without"].values()]
        return json.dumps([{key: each[key] for key in each if key != "cpu_s"} for each in rows])

    again = dreaming_trees.measure(FAMILIES, 4, "lexical")
    assert without_times(again) == without_times(figures)


def test_missed_goals_are_reported(figures: dict[str, Any]) -> None:
    assert dream.missed({"trees": figures}) == []
    worse = {**figures["lived"], "after": {**figures["lived"]["after"], "wrong": 99}}
    missed = dream.missed({"trees": {**figures, "lived": worse}})
    assert missed == [f"lived: 99 wrong after the dream, {figures['lived']['before']['wrong']} before"]
    assert dreaming_trees.slow({"1000": 2.0, "10000": 24.0}) == []
    assert dreaming_trees.slow({"1000": 2.0, "10000": 24.1}) == ["10,000 trees took 24.1 s, 1,000 2.0 s"]
    assert "without mitosis" in dreaming_trees.table({**figures, "seconds": {}})
