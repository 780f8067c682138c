"""Methods in the hands of people, after a crash, and in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from growing import shelf_of, words
from methodical import TALLY, Learner, five, tally

from kernel.document.model import Document, Meta, Note, Section
from kernel.errors import UsageError
from runtime.api.fractal import shipped_system
from runtime.memory.tasks.methods import Method, Methods
from runtime.memory.tasks.rewards import Verdict
from runtime.reflexes.reflex import Reflex


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    with shelf_of() as shelf:
        yield Learner(shelf, tmp_path)


# ---- what a person does ------------------------------------------------------------------------------------


def test_a_persons_correction_stays(learner: Learner) -> None:
    learner.learn(*five())
    path = learner.file()
    corrected = path.read_text("utf-8").replace('"what": "lines"', '"what": "words"')
    path.write_text(corrected, "utf-8")
    learner.learn(
        tally("g.md", "h.txt", "{} has so many lines: let {} hold that figure"), tally("i.md", "j.txt")
    )
    assert path.read_text("utf-8") == corrected
    (listed,) = learner.methods.listed()
    assert listed.edited and listed.status == "draft" and "fractal brain methods on" in listed.note
    assert learner.plans(TALLY.format("x.md", "y.txt")) is None, "nobody has accepted it"
    assert learner.methods.switch(path.stem, True).status == "active"
    assert learner.plans(TALLY.format("x.md", "y.txt"))[0]["args"]["what"] == "words"


def test_off_and_on(learner: Learner) -> None:
    learner.learn(*five())
    before = learner.file().read_text("utf-8")
    name = learner.file().stem
    assert learner.methods.switch(name, False).status == "off"
    assert learner.plans(TALLY.format("x.md", "y.txt")) is None
    learner.learn(tally("g.md", "h.txt"))
    assert learner.methods.switch(name, True).status == "active"
    assert learner.file().read_text("utf-8") == before
    assert learner.plans(TALLY.format("x.md", "y.txt"))


def test_switching_keeps_what_a_person_wrote(learner: Learner) -> None:
    learner.learn(*five())
    path = learner.file()
    text = path.read_text("utf-8").replace("status: active\n", "") + "\nMine.\n"
    path.write_text(text, "utf-8")
    learner.methods.switch(path.stem, False)
    assert path.read_text("utf-8") == text.replace("origin: learned\n", "origin: learned\nstatus: off\n")
    with pytest.raises(UsageError, match="there is no method nobody"):
        learner.methods.switch("nobody", True)
    with pytest.raises(UsageError, match="there is no method"):
        learner.methods.switch("../methods/" + path.stem, False)


def test_one_that_a_person_deleted_does_not_come_back_by_itself(learner: Learner) -> None:
    learner.learn(*five())
    name, text = learner.file().stem, learner.file().read_text("utf-8")
    learner.file().unlink()
    more = [(f"q{n}.md", f"r{n}.txt") for n in range(7)]
    assert not learner.learn(*(tally(*pair) for pair in more))
    assert not list(learner.folder.glob("*.md"))
    assert [each.status for each in learner.methods.listed()] == ["deleted"]
    learner.methods.switch(name, True)
    assert learner.file().read_text("utf-8") == text


def test_a_persons_own_file_is_listed_and_left_alone(learner: Learner) -> None:
    learner.learn(*five())
    text = learner.file().read_text("utf-8").replace("tally", "sum up")
    own = learner.folder / "mine.md"
    own.write_text(text, "utf-8")
    assert [each.edited for each in learner.methods.listed() if each.name == "mine"] == [True]
    assert len(learner.methods.listed()) == 2
    assert learner.methods.verification("mine") == "next rung"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("exact path", "exact pth", "'exact pth' is no kind of slot"),
        ("steps:", "stps:", "stps: a reflex has no such field"),
        ("{path} and", "{path and", "phrasing|bracket|slot|kind"),
        ("---\n", "", "there is no frontmatter"),
    ],
)
def test_an_edit_that_cannot_be_read_is_said(learner: Learner, old: str, new: str, why: str) -> None:
    learner.learn(*five())
    path = learner.file()
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    (listed,) = learner.methods.listed()
    faults = Reflex([learner.folder, shipped_system()]).faults
    if old != "{path} and":
        assert listed.status == "faulty"
        assert why in listed.note
        assert any(why in str(fault) and fault.path == path for fault in faults)
    learner.learn(tally("g.md", "h.txt"))
    assert learner.file() == path


# ---- crashes -----------------------------------------------------------------------------------------------


class Fails(Exception):
    """The process ended here."""


@pytest.mark.parametrize("moment", ["before the file", "after the file"])
def test_what_a_crash_leaves_is_repaired_by_the_next(tmp_path: Path, moment: str) -> None:
    class Crashing(Methods):
        def _finish(self, method: Method) -> Method:
            if moment == "after the file":
                self.folder.mkdir(parents=True)
                self.path(method).write_text(method.writing, "utf-8")
            raise Fails

    with shelf_of("sqlite") as shelf:
        learner = Learner(shelf, tmp_path)
        sound = learner.methods
        learner.methods = Crashing(shelf, sound.embedder, words(), learner.folder, sound.files)
        with pytest.raises(Fails):
            learner.learn(*five())
        learner.methods = sound
        learner.learn(tally("g.md", "h.txt"))
        (listed,) = learner.methods.listed()
        (method,) = shelf.scan(Method)
        assert (listed.status, listed.edited, method.pending) == ("active", False, False)
        assert learner.plans(TALLY.format("x.md", "y.txt"))


def test_an_edit_between_a_crash_and_the_next_stays(tmp_path: Path) -> None:
    with shelf_of() as shelf:
        learner = Learner(shelf, tmp_path)
        (method,) = learner.learn(*five())
        shelf.put(method.model_copy(update={"pending": True, "writing": "other"}))
        learner.file().write_text("mine", "utf-8")
        learner.methods.repair()
        assert learner.file().read_text("utf-8") == "mine"
        (known,) = shelf.scan(Method)
        assert not known.pending


# ---- use ---------------------------------------------------------------------------------------------------


def test_uses_move_its_ledger_and_its_stage(learner: Learner) -> None:
    (method,) = learner.learn(*five())
    for _ in range(10):
        assert learner.methods.verification(method.id) == "next rung"
        learner.methods.settle(method.id, Verdict(True, 1.0, "criteria"))
    assert learner.methods.verification(method.id) == "two paths"
    learner.methods.settle(method.id, Verdict(False, 1.0, "person"))
    (listed,) = learner.methods.listed()
    assert (listed.stage, listed.uses, listed.right) == ("hippocampus", 11, 10)
    assert learner.methods.settle("nobody", Verdict(True, 1.0, "check")) is None


def test_a_use_that_is_judged_anew_counts_once(learner: Learner) -> None:
    (method,) = learner.learn(*five())
    checked, judged = Verdict(True, 0.6, "check"), Verdict(False, 1.0, "person")
    learner.methods.settle(method.id, checked)
    learner.methods.settle(method.id, judged, instead_of=checked)
    (listed,) = learner.methods.listed()
    assert (listed.uses, listed.right) == (1, 0)


async def test_the_reflex_responder_plans_with_it(
    learner: Learner, make_document: Callable[..., Document]
) -> None:
    reflex = Reflex([learner.folder, shipped_system()])
    document = make_document(TALLY.format("x.md", "y.txt"))
    assert reflex.offers(document.task, document) is None
    learner.learn(*five())
    assert reflex.offers(document.task, document) is not None
    assert not reflex.faults
    learner.methods.switch(learner.file().stem, False)
    assert reflex.offers(document.task, document) is None


@pytest.fixture
def make_document() -> Callable[..., Document]:
    def made(task: str) -> Document:
        meta = Meta(id="system-abc123", run="abc123", level="system")
        return Document(meta, {1: Section(notes=(Note("task", task),))})

    return made
