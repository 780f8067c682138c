"""The figures of recall over families: their keys, the parts of the families, and many trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import harness, recalling, variations
from bench.__main__ import bench
from kernel.errors import UsageError

LATER = Path(__file__).with_name("later_families.jsonl")
FAMILIES = Path(__file__).parents[1] / "runtime" / "memory" / "tasks" / "families.jsonl"


def test_the_command_tells_the_figures_by_embedder_and_kind() -> None:
    ran = CliRunner().invoke(
        bench,
        [
            "variations",
            "--json",
            "--data",
            str(FAMILIES),
            "--families",
            "even",
            "--embedder",
            "lexical",
        ],
    )
    told = json.loads(ran.stdout)
    assert told["families"] == len(variations.families(FAMILIES, "even")) == 10
    lexical = told["embedder"]["lexical"]
    assert {"answered", "right_of_answered", "false_replay", "calls_saved", "p50_ms"} <= lexical.keys()
    assert {"answered", "right_of_answered"} <= lexical["by_kind"]["numbers"].keys()
    assert set(lexical["traps"].values()) == {0.0}
    assert lexical["two"]["right_of_answered"] == 1.0
    assert f"{lexical['answered']:.1%}" in variations.table(told)


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
    ids=["no JSON", "a list", "a text", "half of it", "deep", "no text", "empty"],
)
def test_what_holds_no_families_is_said_with_the_line(tmp_path: Path, text: bytes, where: str) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=where):
        variations.families(path)


def test_a_part_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    ran = CliRunner().invoke(bench, ["variations", "--without", "nonsense"])
    assert ran.exit_code == 2 and "fingerprints" in ran.stderr


def test_even_and_odd_families_are_all_of_them() -> None:
    parts = [variations.families(FAMILIES, part) for part in ("even", "odd", "all")]
    assert len(parts[0]) + len(parts[1]) == len(parts[2]) == 20


def test_families_that_were_written_later_are_answered_rightly_or_not_at_all() -> None:
    told = variations.measure(LATER, embedders=["lexical"])["embedder"]["lexical"]
    assert (told["questions"], told["asked_as_traps"]) == (386, 260)
    assert told["answered"] >= 0.89 and told["right_of_answered"] == 1.0 and told["false_replay"] == 0.0


def test_goals_that_are_not_reached_are_named() -> None:
    kinds = {"numbers": {"answered": 0.97}, "words": {"answered": 0.9}}
    told = {"answered": 0.9, "right_of_answered": 1.0, "false_replay": 0.0, "by_kind": kinds}
    assert variations.missed({"embedder": {"lexical": told}}) == ["lexical: numbers"]
    assert variations.missed({"embedder": {"lexical": told | {"false_replay": 0.01}}})[0] == "lexical"
    assert recalling.slow({"10000": {"p50_ms": 9.0}, "500": {"p50_ms": 9.0}}) == ["10000"]


def test_among_many_trees_of_the_same_shapes_the_right_one_is_found(tmp_path: Path) -> None:
    recalling.fill(tmp_path, 200, FAMILIES)
    told = recalling.recalling(tmp_path, FAMILIES)
    assert told["trees"] == 200
    assert told["found"] >= 0.9
    assert told["answered"] >= 0.8
    assert {"open", "first_recall"} == told["cold_ms"].keys()
    assert "200" in recalling.table({"200": told})


def test_data_that_is_not_there_is_told_with_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(harness.VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match=harness.VARIABLE):
        variations.families()
