"""`python -m bench ablation`: its streams are the same each time, its figures are those of real recalls."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from bench import ablation, streams
from bench.harness import data_folder
from bench.streams import Stream
from kernel.errors import UsageError
from runtime.memory.embed.lexical import Lexical
from runtime.memory.tasks import ALL, NAMES


def family(id: int, question: str) -> dict[str, Any]:
    """A family as the data has them: eight variations with other numbers, and a trap."""
    pairs = [(n + 2, n + 11) for n in range(8)]
    return {
        "id": id,
        "question": question.format(3, 7),
        "program": ["3*7"],
        "answer": "21",
        "variations": [
            {"question": question.format(a, b), "answer": str(a * b), "kind": "numbers"} for a, b in pairs
        ],
        "traps": [{"question": question.format(4, 5) + " Then five are lost.", "kind": "clause added"}],
    }


FAMILIES = [
    family(0, "Ann packs {} nuts into each of {} bags. How many nuts does Ann pack?"),
    family(1, "A train runs {} hours at {} miles an hour. How far does it get?"),
    family(2, "How many seats are there in {} rows of {} seats?"),
]


def test_a_true_stream_is_answered_and_its_traps_are_not() -> None:
    told = streams.played(FAMILIES, ALL, Lexical(), Stream())
    assert (told["answered"], told["right_of_answered"], told["wrong"], told["false_replay"]) == (1, 1, 0, 0)
    assert told["p50_ms"] > 0 and told["bytes"] > 1000


def test_a_stream_is_the_same_each_time() -> None:
    def counts(seed: int) -> dict[str, float]:
        told = streams.played(FAMILIES, ALL, Lexical(), Stream(false=0.3, poison=0.9), seed)
        return {name: value for name, value in told.items() if name != "p50_ms"}

    assert counts(5) == counts(5)


def test_quarantine_stops_a_poisoned_program_and_the_teacher_mends_it() -> None:
    def told(name: str = "") -> dict[str, float]:
        parts = ALL.without(name) if name else ALL
        return streams.played(
            FAMILIES, parts, Lexical(), Stream(poison=2.0), 3
        )  # all, the right one never beside

    with_it, without = told(), told("quarantine")
    assert with_it["wrong"] == 2 * len(FAMILIES)  # out after two refusals
    assert with_it["taught"] == len(FAMILIES)
    assert with_it["answered"] - without["answered"] < 0
    assert without["wrong"] == 8 * len(FAMILIES)


def test_where_several_are_taught_methods_are_born_and_answer() -> None:
    told = streams.played(FAMILIES, ALL, Lexical(), Stream(taught=5))
    assert (told["answered"], told["right_of_answered"], told["wrong"]) == (1, 1, 0)
    assert told["by_method"] > 0
    without = streams.played(FAMILIES, ALL.without("methods"), Lexical(), Stream(taught=5))
    assert without["by_method"] == 0


def test_a_poisoned_program_differs_in_one_operation() -> None:
    rng = random.Random(1)
    assert streams.poisoned(["8*2", "{{ steps[1].result }}/4"], rng) in (
        ["8+2", "{{ steps[1].result }}/4"],
        ["8*2", "{{ steps[1].result }}*4"],
    )
    assert streams.poisoned(["5"], rng) == ["5"]


def test_steps_are_worked_out_as_the_calculator_does() -> None:
    steps = streams.solved("q", ["1/3", "{{ steps[1].result }}*6"]).steps
    assert streams.same(streams.worked_out(steps), "2")
    assert not streams.same(Fraction(3), "2")
    assert streams.worked_out(streams.solved("q", ["1/0"]).steps) is None
    assert streams.worked_out([]) is None


def test_every_part_has_its_row_and_a_part_that_brings_nothing_is_said_to() -> None:
    every = {name: streams.played(FAMILIES, ALL, Lexical(), Stream()) for name in streams.STREAMS}
    worse = {name: {**told, "answered": told["answered"] - 0.1, "wrong": 2} for name, told in every.items()}
    figures = {
        "embedder": "lexical-1",
        "families": 3,
        "seed": 1,
        "with": every,
        "without": {**dict.fromkeys(NAMES, every), "quarantine": worse},
    }
    rows = ablation.table(figures).splitlines()
    assert [row.split("|")[1].strip() for row in rows[3 : 3 + len(NAMES)]] == list(NAMES)
    assert "nothing on these streams" in rows[3]
    assert "true: +10.0 points answered, -2 wrong" in next(row for row in rows if "| quarantine" in row)


def test_without_the_data_it_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRACTAL_DATA", "/nowhere")
    with pytest.raises(UsageError, match="FRACTAL_DATA"):
        streams.families(3, 1)


@pytest.mark.skipif(
    not (data_folder() / streams.FILE).is_file(),
    reason="the families of variations are not beside the repository; FRACTAL_DATA names their folder",
)
def test_on_the_families_everything_is_measured() -> None:
    figures = ablation.measure(3, embedder="lexical", names=["blame"])
    assert list(figures["without"]) == ["blame"]
    assert list(figures["with"]) == list(streams.STREAMS)
    assert figures["with"]["true"]["right_of_answered"] > 0.9
    assert figures["families"] == 3
