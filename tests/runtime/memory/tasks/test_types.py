"""Problem types: learned tasks are recognised, new tasks stay new, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf, open_shelf, pack
from runtime.memory.tasks import ALL
from runtime.memory.tasks import types as module
from runtime.memory.tasks.types import (
    MEMBERSHIP_THRESHOLD,
    NOVEL_DISTANCE,
    WIDTH,
    Lesson,
    Member,
    ProblemType,
    Recognition,
    Types,
    WorkingMemory,
    name_of,
    recognition,
)

LINES = [
    "how many lines are in notes.md",
    "how many lines are in README.md",
    "how many lines are in the file a.txt",
    "how many lines has the file b.txt",
]
MILES = [
    "convert 3 km to miles",
    "convert 12 miles to km",
    "convert 7.5 km to miles please",
    "convert 100 miles to km",
]
OTHER = "who wrote the letters that my grandmother kept"


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    opened = open_shelf("memory", Path())
    yield opened
    opened.close()


def taught(shelf: Shelf) -> Types:
    types = Types(shelf, Lexical())
    types.learn_all([Lesson(each, type="lines") for each in LINES], "2025-01-01")
    types.learn_all([Lesson(each, type="miles") for each in MILES], "2025-01-02")
    return types


def vector(task: str) -> bytes:
    return pack(Lexical().embed([task])[0])


# ---- recognising -----------------------------------------------------------------------------------------


def test_with_nothing_taught_everything_is_novel(shelf: Shelf) -> None:
    assert Types(shelf, Lexical()).recognise(OTHER) == Recognition("novel")


def test_what_was_taught_is_recognised_as_its_type(shelf: Shelf) -> None:
    types = taught(shelf)
    for task, type in [("how many lines are in log.txt", "lines"), ("convert 9 miles to km", "miles")]:
        found = types.recognise(task)
        assert (found.kind, found.type) == ("recognized", type)
        assert found.width == WIDTH["recognized"] < types.recognise(OTHER).width


def test_what_is_of_no_type_is_novel_and_stays_so_until_it_is_learned(shelf: Shelf) -> None:
    types = taught(shelf)
    assert [types.recognise(OTHER).kind for _ in range(3)] == ["novel"] * 3
    id = types.learn(OTHER, at="2025-02-01")
    emergent = types.get(id)
    assert emergent and (emergent.origin, emergent.members) == ("emergent", 1)
    assert (types.recognise(OTHER).kind, types.recognise(OTHER).type) == ("recognized", id)


def test_a_solved_task_joins_the_type_that_it_is_known_as(shelf: Shelf) -> None:
    types = taught(shelf)
    assert types.learn("how many lines are in log.txt") == "lines"
    assert (known := types.get("lines")) and known.members == len(LINES) + 1
    assert types.learn("how many lines are in log.txt") == "lines"  # the same one again
    assert (known := types.get("lines")) and known.members == len(LINES) + 1


def test_an_emergent_type_is_called_by_the_words_of_its_members(shelf: Shelf) -> None:
    types = Types(shelf, Lexical())
    id = types.learn(MILES[0])
    assert {types.learn(each) for each in MILES[1:]} == {id}
    assert (known := types.get(id)) and {"convert", "km", "miles"} <= set(known.label.split())


def test_a_name_reads_like_one_of_the_tasks_and_one_task_names_its_type_itself(shelf: Shelf) -> None:
    types = Types(shelf, Lexical())
    id = types.learn(OTHER)
    assert (known := types.get(id)) and known.label == OTHER
    task = "Please count the lines in a.md and b.md"
    assert name_of(["lines", "count"], task) == "count the lines"
    assert name_of(["md", "lines", "quickly"], task) == "lines"
    assert name_of(["quickly"], task) == ""


def test_switched_off_it_knows_and_learns_nothing(shelf: Shelf) -> None:
    types = Types(shelf, Lexical(), ALL.without("types"))
    assert types.learn(OTHER) == ""
    assert types.recognise(OTHER) == Recognition("novel")
    assert not shelf.kinds()


# ---- what comes of use -----------------------------------------------------------------------------------


def distance(types: Types, id: str, task: str) -> float:
    known = types.get(id)
    assert known
    return float(np.linalg.norm(known.vector("lexical-1") - Lexical().embed([task])[0]))


def test_a_familiar_task_moves_the_centroid_and_a_recognised_one_does_not(shelf: Shelf) -> None:
    types = taught(shelf)
    task = "how many lines are in the letters of my grandmother"
    before = distance(types, "lines", task)
    types.used(Recognition("recognized", "lines", 0.9, 0.3), task, at="2025-03-01")
    assert distance(types, "lines", task) == pytest.approx(before, abs=1e-6)
    types.used(Recognition("familiar", "lines", 0.4, 0.7), task, at="2025-03-02")
    assert distance(types, "lines", task) < before
    known = types.get("lines")
    assert known and (known.uses, known.used) == (2, "2025-03-02")
    assert known.temperature == pytest.approx(0.95**2)


def test_a_surprise_moves_the_centroid_the_harder_the_greater_it_is(shelf: Shelf) -> None:
    ways: list[float] = []
    for surprise in (0.2, 0.5, 0.9):
        types = taught(open_shelf("memory", Path()))
        before = distance(types, "lines", OTHER)
        types.moved("lines", {"lexical-1": vector(OTHER)}, surprise)
        ways.append(before - distance(types, "lines", OTHER))
    assert ways[0] == pytest.approx(0, abs=1e-6)
    assert 0 < ways[1] < ways[2]


def test_without_surprise_as_a_part_nothing_moves(shelf: Shelf) -> None:
    taught(shelf)
    types = Types(shelf, Lexical(), ALL.without("surprise"))
    before = distance(types, "lines", OTHER)
    types.moved("lines", {"lexical-1": vector(OTHER)}, 1.0)
    assert distance(types, "lines", OTHER) == before


def test_a_vector_of_another_embedder_or_a_type_that_is_gone_moves_nothing(shelf: Shelf) -> None:
    types = taught(shelf)
    before = types.get("lines")
    types.moved("lines", {"other": vector(OTHER)}, 1.0)
    types.moved("never", {"lexical-1": vector(OTHER)}, 1.0)
    types.used(Recognition("familiar", "never"), OTHER)
    assert types.get("lines") == before


def test_what_nobody_uses_is_archived_and_comes_back_when_it_is_taught_again(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TYPES", 1)
    types = taught(shelf)
    monkeypatch.undo()
    assert types.recognise(LINES[0]).type != "lines"
    assert (known := types.get("lines")) and known.origin == "archived" and known.members == len(LINES)
    types.learn_all([Lesson(LINES[0], type="lines")], "2025-05-05")
    assert (known := types.get("lines")) and known.origin == "explicit" and known.members == len(LINES)
    assert types.recognise("how many lines are in log.txt").type == "lines"


def test_memory_is_bounded(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TYPES", 3)
    monkeypatch.setattr(module, "MEMBERS", 8)
    types = Types(shelf, Lexical())
    for number in range(5):
        lessons = [Lesson(f"{'abcde'[number] * 5} thing {n}", type=f"t{number}") for n in range(20)]
        types.learn_all(lessons, f"2025-01-0{number + 1}")
    used = [each.id for each in shelf.scan(ProblemType) if each.origin != "archived"]
    assert used == ["t2", "t3", "t4"]
    assert shelf.count(Member) == 5 * 8
    assert (known := types.get("t4")) and known.members == 20
    assert types.recognise("eeeee thing 5").type == "t4"


def test_the_archive_is_bounded(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TYPES", 1)
    monkeypatch.setattr(module, "ARCHIVED", 2)
    types = Types(shelf, Lexical())
    for number in range(5):
        types.learn_all([Lesson(f"{'abcde'[number] * 5} thing", type=f"t{number}")], f"2025-01-0{number + 1}")
    assert {each.id: each.origin for each in shelf.scan(ProblemType)} == {
        "t2": "archived",
        "t3": "archived",
        "t4": "explicit",
    }
    assert {each.type for each in shelf.scan(Member)} == {"t2", "t3", "t4"}
    assert types.get("t0") is None and types.learn("aaaaa thing", at="2025-02-01")


# ---- kept ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["files", "sqlite"])
def test_it_is_all_there_after_opening_the_store_again(store: str, tmp_path: Path) -> None:
    shelf = open_shelf(store, tmp_path, fsync=False)
    types = taught(shelf)
    types.moved("lines", {"lexical-1": vector(OTHER)}, 0.9)
    asked = [*LINES, *MILES, OTHER, "how many miles has a file"]
    before = [types.recognise(each) for each in asked]
    shelf.close()
    shelf = open_shelf(store, tmp_path, fsync=False)
    again = [Types(shelf, Lexical()).recognise(each) for each in asked]
    assert [(each.kind, each.type) for each in again] == [(each.kind, each.type) for each in before]
    assert [each.distance for each in again] == pytest.approx([each.distance for each in before], abs=0.02)
    shelf.close()


class Renamed(Lexical):
    name = "lexical-9"


def test_another_embedder_finds_the_same_types_by_vectors_of_its_own(shelf: Shelf) -> None:
    taught(shelf)
    found = Types(shelf, Renamed()).recognise("how many lines are in log.txt")
    assert (found.kind, found.type) == ("recognized", "lines")
    assert all("lexical-9" in each.vectors for each in shelf.scan(Member))


def test_an_error_in_the_middle_leaves_things_as_they_were(shelf: Shelf) -> None:
    types = taught(shelf)
    with pytest.raises(ValueError, match=r"dimension|shape|broadcast"):
        types.learn_all([Lesson(OTHER, type="letters"), Lesson("x", np.zeros(3), "short")])
    assert types.get("letters") is None
    assert types.recognise(OTHER).kind == "novel"
    assert types.recognise(LINES[0]).type == "lines"


def test_a_change_inside_a_transaction_that_fails_is_forgotten(shelf: Shelf) -> None:
    types = taught(shelf)
    with pytest.raises(RuntimeError, match="power"), shelf.transaction():
        types.learn(OTHER)
        raise RuntimeError("power")
    assert types.recognise(OTHER).kind == "novel"
    Types(shelf, Lexical()).learn_all([Lesson(OTHER, type="letters")])  # as another process would
    assert types.recognise(OTHER).type == "letters"


TEACH = """
import sys
from pathlib import Path
from runtime.memory.embed.lexical import Lexical
from runtime.memory.tasks.types import Lesson, Types
from runtime.memory.store import open_shelf
types = Types(open_shelf("sqlite", Path(sys.argv[1]), fsync=False), Lexical())
for n in range(int(sys.argv[3])):
    types.learn_all([Lesson(f"{sys.argv[2]} number {n} of all", type=sys.argv[2])])
"""


def test_two_processes_teach_at_once_and_a_third_sees_all_of_it(tmp_path: Path) -> None:
    shelf = open_shelf("sqlite", tmp_path, fsync=False)
    types = Types(shelf, Lexical())
    assert types.recognise("weigh number 1 of all").kind == "novel"
    words = [sys.executable, "-c", TEACH, str(tmp_path)]
    running = [subprocess.Popen([*words, name, "15"]) for name in ("weigh", "paint", "weigh")]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    assert types.recognise("weigh number 1 of all").type == "weigh"
    members = {each.id: each.members for each in shelf.scan(ProblemType)}
    assert members == {"weigh": 15, "paint": 15}
    shelf.close()


# ---- laws and speed --------------------------------------------------------------------------------------


@given(st.floats(0, 5), st.floats(0, 5), st.floats(0, 1))
def test_the_farther_the_less_a_member_and_beyond_the_novel_distance_none(
    one: float, other: float, temperature: float
) -> None:
    of = ProblemType(id="x", temperature=temperature)
    near, far = sorted((one, other))
    assert of.membership(near) >= of.membership(far)
    assert (recognition(of, one).kind == "novel") == (
        one > NOVEL_DISTANCE or of.membership(one) < MEMBERSHIP_THRESHOLD
    )
    cold = of.model_copy(update={"temperature": 0.0})
    assert cold.membership(one) <= of.membership(one)
    assert cold.membership(NOVEL_DISTANCE) == pytest.approx(MEMBERSHIP_THRESHOLD)


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(-1, 1)), max_size=60))
def test_working_memory_keeps_the_best_and_no_more_than_the_width(found: list[tuple[str, float]]) -> None:
    memory = WorkingMemory("task", Recognition("recognized", "x", 1.0, 0.0))
    for each in found:
        memory.take([each])
    assert len(memory.candidates) <= memory.recognition.width
    best = max((score for _, score in found), default=None)
    assert max(memory.candidates.values(), default=None) == best


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=80))
def test_any_text_can_be_asked_and_learned(text: str) -> None:
    types = taught(open_shelf("memory", Path()))
    types.recognise(text)
    assert types.get(types.learn(text))


@pytest.mark.night
def test_recognising_among_a_thousand_types_takes_a_millisecond(shelf: Shelf) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((3000, 384))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    types = Types(shelf, Lexical())
    types.learn_all([Lesson(f"task {n} of it", row, f"type{n % 1000}") for n, row in enumerate(rows)])
    types.recognise("task", rows[0])
    times: list[float] = []
    for n in range(100):
        began = time.perf_counter()
        types.recognise(f"task {n} of it", rows[n])
        times.append(time.perf_counter() - began)
    assert sorted(times)[20] < 0.001  # the quiet ones: other processes share this machine
