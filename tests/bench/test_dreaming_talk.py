"""`python -m bench dream`, the half about conversations: its figures and its goals."""

from __future__ import annotations

import json
from pathlib import Path

from bench.dreaming_talk import lower_bound, measure, missed, seconds, table
from runtime.memory.embed import choose

TOWNS = ("Porto", "Bergen", "Lima", "Turin", "Osaka", "Quito")
THINGS = ("lantern", "violin", "compass", "kettle", "sextant", "anvil")


def conversation() -> dict[str, object]:
    """Sessions in which one speaker asks where a thing was bought, and the other answers."""
    talk: dict[str, object] = {"speaker_a": "Ann", "speaker_b": "Bob"}
    asked: list[dict[str, object]] = []
    for number, (town, thing) in enumerate(zip(TOWNS, THINGS, strict=True), 1):
        talk[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        lines = [
            ("Bob", f"Hi! Where did you get that {thing}?"),
            ("Ann", f"I bought the {thing} in {town} for {number * 7} euros."),
            ("Bob", "Wow, that is great!"),
            ("Ann", "Thanks! See you soon."),
        ]
        talk[f"session_{number}"] = [
            {"speaker": who, "dia_id": f"D{number}:{turn}", "text": text}
            for turn, (who, text) in enumerate(lines, 1)
        ]
        question = f"In which town did Ann buy the {thing}?"
        asked.append({"question": question, "evidence": [f"D{number}:2"], "category": 4, "answer": town})
    return {"sample_id": "made-up", "conversation": talk, "qa": asked}


def test_after_a_dream_fewer_nodes_find_as_much(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([conversation()]))
    figures = measure(path, choose("lexical"), without=False)
    assert figures["before"]["nodes"] == 24 and figures["nodes_left"] < 0.7
    assert figures["before"]["recall@10"] == figures["after"]["recall@10"] == 1.0
    assert figures["before"]["with_memories"] == 1.0 and figures["after"]["with_memories"] > 0.8
    assert figures["lower_bound"] == 0.0 >= figures["lower_bound_with_memories"]
    assert missed(figures) == [] and "| after |" in table(figures)


def test_the_lower_bound_is_of_paired_differences() -> None:
    assert lower_bound([1.0] * 50, [1.0] * 50) == 0.0
    assert lower_bound([0.0, 1.0] * 50, [1.0, 0.0] * 50) < -0.1
    assert lower_bound([0.0] * 50, [1.0] * 50) == 1.0


def test_missed_goals_are_reported() -> None:
    figures = {"nodes_left": 0.9, "lower_bound": -0.01, "seconds": {"1000": 1.0, "10000": 13.0}}
    assert len(missed(figures)) == 3


def test_seconds_are_measured_by_stage() -> None:
    times = seconds(40)
    assert {"probe", "cluster", "create", "verify", "report", "all"} <= times.keys()
