"""`python -m bench ablation`: its streams are reproducible, and its figures are those of real recalls."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from bench import ablation, streams
from bench.families import FILE, Family, Question, exemplar_of, is_right, result_of, sample_families
from bench.harness import data_folder
from bench.streams import Stream
from kernel.errors import UsageError
from runtime.memory.embed.lexical import Lexical
from runtime.memory.tasks import ALL, NAMES


def family(id: int, question: str) -> Family:
    """Eight variations with other numbers, and a trap."""
    pairs = [(n + 2, n + 11) for n in range(8)]
    variations = tuple(Question(question.format(a, b), "numbers", Fraction(a * b)) for a, b in pairs)
    trap = Question(question.format(4, 5) + " Then five are lost.", "clause added", None)
    return Family(id, question.format(3, 7), ("3*7",), variations, (trap,))


FAMILIES = [
    family(0, "Ann packs {} nuts into each of {} bags. How many nuts does Ann pack?"),
    family(1, "A train runs {} hours at {} miles an hour. How far does it get?"),
    family(2, "How many seats are there in {} rows of {} seats?"),
]


def play(stream: Stream, without: str = "", seed: int = 1) -> dict[str, float]:
    return streams.play(FAMILIES, ALL.without(without) if without else ALL, Lexical(), stream, seed)


def test_a_true_stream_is_answered_and_its_traps_are_not() -> None:
    figures = play(Stream())
    counts = [figures[key] for key in ("answered", "right_of_answered", "wrong", "false_replay")]
    assert counts == [1, 1, 0, 0]
    assert figures["p50_ms"] > 0 and figures["bytes"] > 1000


@pytest.mark.night
def test_a_stream_is_the_same_each_time() -> None:
    first, second = (play(Stream(false=0.3, poison=0.9), seed=5) for _ in range(2))
    assert first | {"p50_ms": 0} == second | {"p50_ms": 0}


@pytest.mark.night
def test_quarantine_stops_a_wrong_program_and_the_teacher_replaces_it() -> None:
    all_wrong = Stream(poison=2.0)  # and none is followed by the right program
    with_it, without = play(all_wrong, seed=3), play(all_wrong, "quarantine", seed=3)
    assert with_it["wrong"] == 2 * len(FAMILIES)  # in quarantine after two refusals
    assert with_it["taught"] == len(FAMILIES)
    assert with_it["answered"] - without["answered"] < 0
    assert without["wrong"] == 8 * len(FAMILIES)


@pytest.mark.night
def test_several_taught_tasks_make_methods_that_answer() -> None:
    figures = play(Stream(taught=5))
    assert (figures["answered"], figures["right_of_answered"], figures["wrong"]) == (1, 1, 0)
    assert figures["by_method"] > 0
    assert play(Stream(taught=5), "methods")["by_method"] == 0


def test_a_poisoned_program_differs_in_one_operation() -> None:
    rng = random.Random(1)
    assert streams.poisoned(["8*2", "{{ steps[1].result }}/4"], rng) in (
        ["8+2", "{{ steps[1].result }}/4"],
        ["8*2", "{{ steps[1].result }}*4"],
    )
    assert streams.poisoned(["5"], rng) == ["5"]


def test_steps_are_calculated_as_the_calculator_does() -> None:
    two = Question("q", "numbers", Fraction(2))
    assert is_right(exemplar_of("q", ["1/3", "{{ steps[1].result }}*6"]).steps, two)
    assert not is_right(exemplar_of("q", ["3"]).steps, two)
    assert result_of(exemplar_of("q", ["1/0"]).steps) is None
    assert result_of([]) is None


@pytest.mark.night
def test_every_part_has_its_row_with_its_contribution() -> None:
    every = {name: play(Stream()) for name in streams.STREAMS}
    worse = {name: {**each, "answered": each["answered"] - 0.1, "wrong": 2} for name, each in every.items()}
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


def test_missing_data_are_reported_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRACTAL_DATA", "/nowhere")
    with pytest.raises(UsageError, match="FRACTAL_DATA"):
        sample_families(3, 1)


@pytest.mark.night
@pytest.mark.skipif(
    not (data_folder() / FILE).is_file(),
    reason="the families of variations are missing; FRACTAL_DATA names their folder",
)
def test_a_part_is_measured_on_the_data() -> None:
    figures = ablation.measure(3, embedder="lexical", names=["blame"])
    assert list(figures["without"]) == ["blame"]
    assert list(figures["with"]) == list(streams.STREAMS)
    assert figures["with"]["true"]["right_of_answered"] > 0.9
    assert figures["families"] == 3
