"""`python -m bench dream`, its half about solved tasks: what it measures, and when a goal is missed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import dream, dreaming_trees

FAMILIES = Path(__file__).parents[1] / "runtime" / "memory" / "tasks" / "families.jsonl"


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return dreaming_trees.measure(FAMILIES, 4, "lexical", sizes=())


def test_it_tells_what_is_answered_before_and_after_and_without_each_stage(figures: dict[str, Any]) -> None:
    for kind in ("lived", "imported"):
        told = figures[kind]
        assert told["questions"] > 0
        assert {"answered", "right_of_answered", "false_replay", "wrong", "trees"} <= told["before"].keys()
        assert set(told["without"]) == {
            "merge-neurons",
            "prune-synapses",
            "delete-weak-trees",
            "rehabilitate",
            "prune-events",
            "prune-branches",
            "mitosis",
            "cluster-substrates",
            "birth-methods",
            "decay",
        }
        assert told["after"]["neurons"] <= told["before"]["neurons"]
        assert "prune-synapses" not in told["without"]["prune-synapses"]["did"]


def test_the_same_again_is_the_same(figures: dict[str, Any]) -> None:
    def plain(told: dict[str, Any]) -> str:
        rows = [told["lived"]["before"], told["lived"]["after"], *told["lived"]["without"].values()]
        return json.dumps([{key: each[key] for key in each if key != "cpu_s"} for each in rows])

    assert plain(dreaming_trees.measure(FAMILIES, 4, "lexical", sizes=())) == plain(figures)


def test_it_says_when_a_goal_is_missed(figures: dict[str, Any]) -> None:
    assert dream.missed({"trees": figures}) == []
    worse = {**figures["lived"], "after": {**figures["lived"]["after"], "wrong": 99}}
    told = dream.missed({"trees": {**figures, "lived": worse}})
    assert told == [f"lived: 99 wrong after the dream, {figures['lived']['before']['wrong']} before"]
    assert dreaming_trees.slow({"1000": 2.0, "10000": 24.0}) == []
    assert dreaming_trees.slow({"1000": 2.0, "10000": 24.1}) == ["10,000 trees took 24.1 s, 1,000 2.0 s"]
    assert "without mitosis" in dreaming_trees.table({**figures, "seconds": {}})
