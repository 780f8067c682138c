"""`fractal brain report`, `explain`, `curve`, `compare` and `release`: what memory decided, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Command

from kernel.errors import Exit
from runtime.cli.brain_figures import plot
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks import snapshots
from runtime.memory.tasks.decisions import Decision, Point, curve, in_order, met
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.rewards import settle
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import ProblemType

STORED = "Tom buys 3 boxes of apples for $8 each. How much does Tom pay in total?"
ASKED = "Tom buys 5 boxes of apples for $9 each. How much does Tom pay in total?"


def memory(folder: Path) -> Path:
    return folder / ".fractal" / "state" / "memory"


def filled(folder: Path) -> Shelf:
    """Twelve decisions: four that the model met, six replays of a good tree, two of one that is wrong."""
    shelf = open_shelf("sqlite", memory(folder), fsync=False)
    steps = ({"tool": "calc", "args": {"expression": "3*8"}, "needs": []},)
    good = NeuronTree(id="aaaaaaaa11", text=STORED, exemplar=Exemplar(task=STORED, steps=steps), run="r00")
    bad = good.model_copy(update={"id": "bbbbbbbb22", "text": "Tom sells \x1b[31m3 boxes"})
    shelf.put(good, bad)
    for n in range(12):
        replayed = n >= 4
        tree = bad if n >= 10 else good
        fields: dict[str, Any] = {"path": "variation", "predicted": 0.75, "calls_before": 3}
        if not replayed:
            why = "no counterpart for 'sells'"
            fields = {"calls": 3, "why": why, "candidates": 2, "near": (("bbbbbbbb22", why),)}
        made = Decision(id=f"{n:02}/1", text=ASKED, run=f"r{n:02}", at=f"2025-03-{n + 1:02}", tree=tree.id)
        shelf.put(made.model_copy(update=fields))
        if n != 5:
            settle(shelf, made.id, tree is good, "criteria")
    return shelf


@pytest.fixture
def shelf(fractal: Command) -> Shelf:
    return filled(fractal.folder)


@pytest.mark.parametrize("name", ["report", "explain", "curve"])
def test_an_empty_memory_gives_a_kind_word(fractal: Command, name: str) -> None:
    ran = fractal("brain", name)
    assert (ran.exit, ran.out) == (0, "")
    assert "here yet" in ran.err
    ran = fractal("brain", name, "--json")
    assert ran.exit == 0
    assert not json.loads(ran.out) or json.loads(ran.out)["decisions"] == 0
    assert not memory(fractal.folder).exists()


def test_a_report_counts_by_path_and_names_what_is_in_quarantine(fractal: Command, shelf: Shelf) -> None:
    ran = fractal("brain", "report", "-n", "3")
    assert ran.exit == 0
    assert "12 decisions: 50.0% answered without a model; 71.4% of what memory answered was" in ran.out
    assert "18 model calls saved, 12 made; outcome known for 11: 9 right, 2 wrong" in ran.out
    rows = [line.split() for line in ran.out.splitlines() if line[:1] in ("v", "n")]
    assert rows == [["variation", "8", "5", "2", "1", "18"], ["novel", "4", "4", "0", "0", "0"]]
    assert "2 solved tasks stored, 1 in quarantine" in ran.out
    assert "bbbbbbbb  0 right, 2 wrong  Tom sells ␛[31m3 boxes" in ran.out
    assert "fractal brain release bbbbbbbb" in ran.out
    assert [line.split()[2] for line in ran.out.splitlines()[-3:]] == ["r11", "r10", "r09"]
    assert all(len(line) <= 80 for line in ran.out.splitlines())


def test_a_report_names_problem_types_by_their_words(fractal: Command, shelf: Shelf) -> None:
    for n, id in enumerate(("type-1f1c", "type-2a2b")):
        shelf.put(ProblemType(id=id, text="buy boxes"))
        shelf.put(Decision(id=f"of {id}/1", text=ASKED, run=f"t{n}", type=id))
    ran = fractal("brain", "report")
    lines = [line.split("  ")[0] for line in ran.out.splitlines() if line.startswith("buy boxes")]
    assert lines == ["buy boxes", "buy boxes (2a2b)"]
    assert "type-" not in ran.out
    assert {"type-1f1c", "type-2a2b"} <= set(json.loads(fractal("brain", "report", "--json").out)["types"])


def test_a_report_as_json_has_every_figure(fractal: Command, shelf: Shelf) -> None:
    report = json.loads(fractal("brain", "report", "--json").out)
    assert (report["decisions"], report["right"], report["wrong"], report["unknown"]) == (12, 9, 2, 1)
    assert (report["answered"], report["right_of_answered"]) == (0.5, 0.7143)
    assert report["paths"]["variation"] == {
        "decisions": 8,
        "right": 5,
        "wrong": 2,
        "unknown": 1,
        "right_share": 0.7143,
        "calls": 0,
        "calls_saved": 18,
    }
    assert report["trees"]["count"] == 2
    assert [each["id"] for each in report["trees"]["quarantined"]] == ["bbbbbbbb22"]
    assert [each["id"] for each in report["last"]] == [f"{n:02}/1" for n in range(11, 1, -1)]


def test_an_explanation_says_what_was_asked_what_was_near_and_why(fractal: Command, shelf: Shelf) -> None:
    (fractal.folder / ".fractal/state/runs").mkdir(parents=True)
    ran = fractal("brain", "explain", "r11")
    text = " ".join(ran.out.split())
    assert f"asked: {ASKED} decided: variation: the same task with other values was solved before" in text
    assert "0 right and 2 wrong so far, in quarantine" in text
    assert "expected: 75% confident of success" in text
    assert "outcome: wrong, by its success criteria; surprise 75%" in text
    assert "model calls: 0; 3 when it was solved the first time" in text
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    text = " ".join(fractal("brain", "explain", "r01").out.split())
    assert "decided: novel: nothing in memory could be used, so the next responder was asked" in text
    assert "compared: 2 stored tasks nearest: “Tom sells ␛[31m3 boxes” (memory bbbbbbbb, run r00;" in text
    assert "why: the stored task has nothing in the place of “sells”" in text
    assert "learned: the solution is kept as memory aaaaaaaa" in text
    assert json.loads(fractal("brain", "explain", "r05", "--json").out)[0]["outcome"] is None
    ran = fractal("brain", "explain", "nosuch")
    assert ran.exit == Exit.USAGE and "Traceback" not in ran.err


def test_a_verdict_that_a_person_changed_is_shown(fractal: Command, shelf: Shelf) -> None:
    settle(shelf, "11/1", True, "person")
    text = " ".join(fractal("brain", "explain", "r11").out.split())
    assert "right, by a person (contradicted by its success criteria); surprise 25%" in text


def test_the_curve_is_plain_characters_within_80_columns(fractal: Command, shelf: Shelf) -> None:
    ran = fractal("brain", "curve", "--window", "4")
    assert ran.exit == 0
    lines = ran.out.splitlines()
    assert all(len(line) <= 80 and line.isascii() for line in lines)
    assert lines[1].startswith("100 % |") and lines[13].startswith("  0 % |*")
    assert "over the last 4 of 12: 50.0% without a model, 50.0% of memory's answers right" in ran.out
    points = json.loads(fractal("brain", "curve", "--window", "4", "--json").out)
    assert points[0] == {"n": 1, "answered": 0.0, "right": None}
    assert points[-1] == {"n": 12, "answered": 0.5, "right": 0.5}


def test_the_curve_counts_the_tasks_that_the_report_counts(fractal: Command, shelf: Shelf) -> None:
    for task in ("what is 2 + 3?", "what is the capital of Peru?", "how tall is the tower?"):
        fractal("run", task)
    report = json.loads(fractal("brain", "report", "--json").out)
    points = json.loads(fractal("brain", "curve", "--window", "99", "--json").out)
    assert len(points) == report["decisions"] + report["other_tasks"]
    last = points[-1]
    assert (last["answered"], last["right"]) == (report["answered"], report["right_of_answered"])
    assert last["answered"] < 10 / 15, "two of 15 tasks have no answer"


@pytest.mark.parametrize("count", [1, 2, 3, 11, 12, 79, 500])
def test_any_number_of_decisions_can_be_plotted(count: int) -> None:
    points = [Point(n + 1, n / count, 1.0 if n % 2 else None) for n in range(count)]
    lines = plot(points)
    assert all(len(line) <= 80 for line in lines)
    assert any("*" in line for line in lines[1:])


def test_a_curve_moves_with_its_window() -> None:
    def decision(n: int) -> Decision:
        return Decision(id=str(n), path="exact" if n > 2 else "novel", outcome=n != 4)

    points = curve([met(decision(n)) for n in range(1, 6)], 2)
    assert [each.answered for each in points] == [0, 0, 0.5, 0.5, 0.5]
    assert [each.right for each in points] == [None, None, 1, 0.5, 0.5]


# ---- compare ---------------------------------------------------------------------------------------------


def compared(fractal: Command, first: str, second: str) -> dict[str, tuple[Any, ...]]:
    ran = fractal("brain", "compare", first, second, "--json")
    assert ran.exit == 0, ran.err
    return {
        each["kind"]: (each["same"], each["changed"], each["only_first"], each["only_second"])
        for each in json.loads(ran.out)["kinds"]
    }


def test_a_store_and_its_exports_are_the_same(fractal: Command, shelf: Shelf) -> None:
    assert fractal("brain", "export", "out.jsonl").exit == 0
    assert fractal("brain", "export", "--files", "out").exit == 0
    store = ".fractal/state/memory/brain.sqlite3"
    for other in ("out.jsonl", "out", "."):
        assert compared(fractal, store, other) == {
            "decision": (12, [], [], []),
            "neuron-tree": (2, [], [], []),
        }


def test_what_differs_is_named_by_kind_with_the_figures_of_both(fractal: Command, shelf: Shelf) -> None:
    assert fractal("brain", "export", "before.jsonl").exit == 0
    settle(shelf, "11/1", True, "person")
    shelf.delete(Decision, "00/1")
    shelf.put(Decision(id="new/1"))
    assert compared(fractal, "before.jsonl", ".") == {
        "decision": (10, ["11/1"], ["00/1"], ["new/1"]),
        "neuron-tree": (1, ["bbbbbbbb22"], [], []),
    }
    ran = fractal("brain", "compare", "before.jsonl", ".")
    assert ran.exit == 0
    assert [line.split() for line in ran.out.splitlines() if line.startswith("right of")] == [
        ["right", "of", "memory's", "answers", "71.4%", "85.7%"]
    ]
    assert "  decision, only A: 00/1" in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())


def test_lines_that_are_no_memory_are_reported_one_by_one(fractal: Command, shelf: Shelf) -> None:
    (fractal.folder / "broken.jsonl").write_text("no JSON\n" * 9)
    ran = fractal("brain", "compare", "broken.jsonl", "broken.jsonl")
    assert ran.exit == Exit.USAGE and "both are empty" not in ran.out
    assert "broken.jsonl:1: " in ran.err and "and 4 more that cannot be read" in ran.err
    assert "broken.jsonl: not a memory" in ran.err
    assert fractal("brain", "compare", "nowhere", ".").exit == Exit.USAGE


# ---- release ---------------------------------------------------------------------------------------------


def test_a_person_takes_a_tree_out_of_quarantine(fractal: Command, shelf: Shelf) -> None:
    ran = fractal("brain", "release", "bbbb")
    assert ran.exit == 0 and "bbbbbbbb is used again" in ran.err
    assert json.loads(fractal("brain", "report", "--json").out)["trees"]["quarantined"] == []
    assert "is not in quarantine" in fractal("brain", "release", "bbbb").err
    ran = fractal("brain", "release", "zz")
    assert ran.exit == Exit.USAGE and "no solved tasks have an id beginning with zz" in ran.err


def test_a_report_shows_the_mechanisms_and_compares_snapshots(fractal: Command, shelf: Shelf) -> None:
    decisions = in_order(shelf)
    snapshots.count(shelf, decisions[:5], 6, "2025-03-05")
    snapshots.count(shelf, decisions[:6], 6, "2025-03-11")
    snapshots.count(shelf, decisions[:1], 6, "2025-03-12")
    out = fractal("brain", "report").out
    rows = [line.split() for line in out.splitlines()]
    head = rows.index(["PROBLEMS", "BY", "MEMORY", "RIGHT", "CALLS", "TREES", "TYPES", "METHODS", "MEMORIES"])
    assert [row[:3] for row in rows[head + 1 : head + 3]] == [
        ["12", "66.7%", "66.7%"],
        ["18", "66.7%", "66.7%"],
    ]
    assert ["recognition", "novel", "4"] in rows
    assert ["solved", "tasks", "hippocampus", "2"] in rows
    report = json.loads(fractal("brain", "report", "--json").out)
    assert [each["n"] for each in report["snapshots"]] == [12, 18]
    assert report["snapshots"][0]["sizes"]["trees"] == 2
    assert report["mechanisms"]["solved tasks"] == {"hippocampus": 2}
