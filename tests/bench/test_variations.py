"""`python -m bench variations`: its figures, the parts of the families, and recall among many trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import harness, recalling, traps, variations
from bench.__main__ import bench
from bench.families import read_families
from kernel.errors import UsageError
from runtime.api.fractal import shipped_system
from runtime.memory.embed import choose
from runtime.memory.tasks.words import words_of

LATER = Path(__file__).with_name("later_families.jsonl")
FAMILIES = Path(__file__).parents[1] / "runtime" / "memory" / "tasks" / "families.jsonl"


def test_the_command_prints_the_figures_by_embedder_and_kind() -> None:
    ran = CliRunner().invoke(
        bench,
        ["variations", "--json", "--data", str(FAMILIES), "--families", "even", "--embedder", "lexical"],
    )
    figures = json.loads(ran.stdout)
    assert figures["families"] == len(read_families(FAMILIES, "even")) == 10
    lexical = figures["embedder"]["lexical"]
    assert {"answered", "right_of_answered", "false_replay", "calls_saved", "p50_ms"} <= lexical.keys()
    assert {"answered", "right_of_answered"} <= lexical["by_kind"]["numbers"].keys()
    assert set(lexical["traps"].values()) == {0.0}
    assert lexical["two"]["right_of_answered"] == 1.0
    assert f"{lexical['answered']:.1%}" in variations.table(figures)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"# Notes\n\nhello\n", "notes.md:1: "),
        (b'{"question": "one", "program": [], "variations": [], "traps": []}\n\n[1]\n', "notes.md:3: "),
        (b'{"question": "one", "program": "1+1", "variations": [], "traps": []}\n', "notes.md:1: "),
        (b'{"question": "one", "program": ["1"], "variations": [{"kind": "x"}], "traps": []}', ":1: "),
        (b"[" * 100_000, "notes.md:1: "),
        (b"\xff\xfe\n", "notes.md: "),
        (b"\n \n", "notes.md: "),
    ],
    ids=["no JSON", "a list", "a text", "incomplete", "nested", "not UTF-8", "empty"],
)
def test_an_invalid_family_is_reported_with_its_line(tmp_path: Path, text: bytes, where: str) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=where):
        read_families(path)


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    ran = CliRunner().invoke(bench, ["variations", "--without", "nonsense"])
    assert ran.exit_code == 2 and "fingerprints" in ran.stderr


def test_even_and_odd_families_together_are_all() -> None:
    parts = [read_families(FAMILIES, part) for part in ("even", "odd", "all")]
    assert len(parts[0]) + len(parts[1]) == len(parts[2]) == 20


@pytest.mark.night
def test_families_written_later_are_answered_correctly_or_not_at_all() -> None:
    figures = variations.measure(LATER, embedders=["lexical"])["embedder"]["lexical"]
    assert (figures["questions"], figures["asked_as_traps"]) == (386, 260)
    assert (
        figures["answered"] >= 0.89 and figures["right_of_answered"] == 1.0 and figures["false_replay"] == 0.0
    )


def test_no_adversarial_task_is_replayed_falsely() -> None:
    made = traps.generated([*read_families(LATER), *read_families(FAMILIES)])
    assert len(made) >= 600 and {each.kind for each in made} >= {"shape", "group", "per", "percent", "order"}
    figures = traps.play(made, words_of((shipped_system(),)), choose("lexical"))
    assert figures["misled"] == []


def test_most_reordered_tasks_are_answered_and_none_falsely() -> None:
    tasks = traps.read_reordered(traps.REORDERED)
    figures = traps.play(tasks, words_of((shipped_system(),)), choose("lexical"))
    assert figures["misled"] == []
    assert figures["answered"] >= traps.ANSWERED


def test_files_of_traps_and_of_reordered_tasks_are_played(tmp_path: Path) -> None:
    task = {"family": "shape", "question": "Ed has 6 pens and 5 cups. How many pens?", "program": ["6"]}
    trap = {**task, "answer": "6", "trap": "Ed has 6 cups and 5 pens. How many pens?", "trap_answer": "5"}
    ordered = {**task, "answer": 6, "reordered": "How many pens if Ed has 5 cups and 6 pens?"}
    place = tmp_path / "traps.jsonl"
    place.write_text(json.dumps(trap) + "\n")
    other = tmp_path / "reordered.jsonl"
    other.write_text(json.dumps({**ordered, "reordered_answer": 6}) + "\n")
    chosen = ["--traps", str(place), "--reordered", str(other), "--data", str(FAMILIES), "--json"]
    ran = CliRunner().invoke(bench, ["variations", *chosen, "--families", "even", "--embedder", "lexical"])
    figures = json.loads(ran.stdout)
    assert (figures["adversarial"]["asked"], figures["adversarial"]["false"]) == (1, 0)
    assert figures["reordered"]["asked"] == 1
    assert "reordered" in variations.table(figures)
    place.write_text(json.dumps({**trap, "trap_answer": traps.UNANSWERABLE}))
    assert traps.read_traps(place)[0].answer is None
    place.write_text(json.dumps(task))
    with pytest.raises(UsageError, match=r"traps.jsonl:1: "):
        traps.read_traps(place)


def test_missed_goals_are_named() -> None:
    kinds = {"numbers": {"answered": 0.97}, "words": {"answered": 0.9}}
    figures = {"answered": 0.9, "right_of_answered": 1.0, "false_replay": 0.0, "by_kind": kinds}
    assert variations.missed({"embedder": {"lexical": figures}}) == ["lexical: numbers"]
    assert variations.missed({"embedder": {"lexical": figures | {"false_replay": 0.01}}})[0] == "lexical"
    assert recalling.slow({"10000": {"p50_ms": 9.0}, "500": {"p50_ms": 9.0}}) == ["10000"]


@pytest.mark.night
def test_the_right_tree_is_found_among_many_of_the_same_shape(tmp_path: Path) -> None:
    recalling.fill(tmp_path, 200, FAMILIES)
    figures = recalling.measure_store(str(tmp_path), str(FAMILIES))
    assert figures["trees"] == 200
    assert figures["found"] >= 0.9
    assert figures["answered"] >= 0.8
    assert {"open", "first_recall"} == figures["cold_ms"].keys()
    assert "200" in recalling.table({"200": figures})


def test_missing_data_are_reported_with_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(harness.VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match=harness.VARIABLE):
        read_families()
