"""An index that is kept in a file finds what one made of the records finds, whatever changed since."""

from __future__ import annotations

import sqlite3
from itertools import chain
from pathlib import Path
from random import Random

import pytest
from talk import EMBEDDER, held, said

from runtime.memory.facts.graph import link
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.facts.retrieval import Found, Retrieval
from runtime.memory.facts.retrieval.index_file import LEAST
from runtime.memory.store import Shelf, open_shelf

WORDS = "kettle harbour fence radio shed beans holiday mill door brother library garden boat"
QUESTIONS = (
    "Who repairs the radio in the shed?",
    "What did Ann say about the harbour in May 2023?",
    "When was the holiday of Bob and Zoe?",
    "the kettle at the mill",
)


def sentence(number: int) -> str:
    random = Random(number)
    return f"The {' '.join(random.choices(WORDS.split(), k=6))} of place {number % 997}."


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a kept index, and the same changed since."""
    folder = tmp_path_factory.mktemp("kept")
    shelf = open_shelf("sqlite", folder, fsync=False)
    for start in range(0, LEAST, 500):
        shelf.put(*(record(number) for number in range(start, start + 500)))
    for number in range(0, 200, 4):
        link(shelf, f"m{number}", f"m{number + 4}", weight=0.9)
    assert answers(shelf)
    shelf.close()
    assert list(folder.glob("*.recall"))
    return folder


def record(number: int) -> Memory | Observation:
    if number % 4 == 0:
        return held(f"m{number}", sentence(number), evidence=(f"o{number + 1}",), names=("Zoe",))
    who, thread = ("Ann", "Bob", "Zoe")[number % 3], f"t{number // 20}"
    at = f"2023-{number % 12 + 1:02}-10T12:00:00.000Z"
    memory = f"m{number - 1}" if number % 4 == 1 else ""
    return said(f"o{number}", sentence(number), who, at, thread=thread, turn=number % 20, memory=memory)


def answers(shelf: Shelf) -> list[list[Found]]:
    """By a retrieval of its own, as a new process has."""
    found = Retrieval(shelf, EMBEDDER)
    modes = ("standard", "aggregated")
    return [found.search(each, 12, mode=mode) for each in QUESTIONS for mode in modes]


def same(one: list[list[Found]], other: list[list[Found]]) -> bool:
    assert [[hit.id for hit in hits] for hits in one] == [[hit.id for hit in hits] for hits in other]
    for left, right in zip(chain(*one), chain(*other), strict=True):
        assert left.score == pytest.approx(right.score, abs=1e-4)
        assert left.parts == pytest.approx(right.parts, abs=1e-3)
        assert left.likeness == pytest.approx(right.likeness, abs=1e-3) and left.why == right.why
    return True


@pytest.mark.night
def test_a_kept_index_finds_the_same_and_so_it_does_after_changes(filled: Path) -> None:
    (file,) = filled.glob("*.recall")
    shelf, whole = open_shelf("sqlite", filled, fsync=False), file.read_bytes()
    kept = answers(shelf)
    assert file.read_bytes() == whole, "it was used, not made anew"
    changed = held("m8", "Mona repairs the radio in the shed.", names=("Mona",))
    used = shelf.get(Memory, "m40")
    assert used is not None
    shelf.put(changed, used.model_copy(update={"accessed": 3, "last_access": "2023-05-08T12:00:00.000Z"}))
    shelf.put(said("new", "The harbour was closed in May 2023.", "Ann", thread="t3", turn=9))
    shelf.delete(Observation, "o41", "o42", "o1001")
    after = answers(shelf)
    assert file.read_bytes() == whole
    assert {"m8", "new"} <= {hit.id for hits in after for hit in hits}
    file.unlink()
    assert same(after, answers(shelf))
    shelf.close()
    assert kept != after


@pytest.mark.night
def test_a_file_that_is_cut_off_or_damaged_is_not_used(filled: Path) -> None:
    shelf = open_shelf("sqlite", filled, fsync=False)
    right = answers(shelf)
    (file,) = filled.glob("*.recall")
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:8] + b"[" + whole[9:]):
        file.write_bytes(damaged)
        assert same(right, answers(shelf))
        assert len(file.read_bytes()) == len(whole), "it is made anew"
    shelf.close()


@pytest.mark.night
def test_another_process_that_wrote_and_a_rebuild_are_met(filled: Path) -> None:
    shelf, other = (open_shelf("sqlite", filled, fsync=False) for _ in range(2))
    answers(shelf)
    other.put(said("z", "A zebra ran past."))
    assert Retrieval(shelf, EMBEDDER).search("zebra")[0].id == "z"
    other.rebuild()
    other.delete(Observation, "z")
    assert "z" not in [hit.id for hit in Retrieval(shelf, EMBEDDER).search("zebra")]
    shelf.close()
    other.close()


@pytest.mark.night
def test_a_store_of_an_earlier_fractal_notes_changes_from_now_on(filled: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "brain.sqlite3") as base:
        sqlite3.connect(filled / "brain.sqlite3").backup(base)
        for name in ("noted_put", "noted_again", "noted_gone"):
            base.execute(f"DROP TRIGGER {name}")
        base.execute("DROP TABLE touched")
        base.execute("DELETE FROM counters WHERE name = 'logged'")
    base.close()
    shelf = open_shelf("sqlite", tmp_path, fsync=False)
    answers(shelf)
    mark = shelf.keeper.mark()
    shelf.put(said("z", "A zebra ran past."))
    assert shelf.keeper.since(mark) == [("observation", "z")]
    assert Retrieval(shelf, EMBEDDER).search("zebra")[0].id == "z"
    shelf.close()
