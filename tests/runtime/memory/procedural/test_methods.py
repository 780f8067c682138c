"""Methods: born of five solved tasks, tried out before they are written, and a person's to correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from growing import shelf_of, words
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.document import Document, Meta, Note, Section
from kernel.errors import UsageError
from runtime.embedding.lexical import Lexical
from runtime.fractal import shipped_system
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.methods import Method, Methods
from runtime.memory.procedural.parts import ALL
from runtime.memory.procedural.recall import ProceduralMemory
from runtime.memory.procedural.stages import plain
from runtime.responders.reflex import Reflex
from runtime.responders.reflexes.matching import match
from runtime.responders.reflexes.planning import draft
from runtime.responders.reflexes.procedure import Reflexes
from runtime.responders.reflexes.trial import Trial
from runtime.store import Shelf

Step = tuple[str, dict[str, Any]]
PAIRS = [("a.md", "n.txt"), ("b.md", "m.txt"), ("docs/c.md", "m.txt"), ("d.md", "o.txt"), ("e.md", "p.txt")]
TALLY = "tally the lines of {} and note the figure in {}"
BUYS = "{} buys {} boxes of {} for ${} each. How much does {} pay in total for the {}?"
WORDED = [("Tom", 3, "apples", 4), ("Anna", 5, "pears", 7), ("Ben", 5, "apples", 6), ("Tom", 3, "plums", 9)]
WORDED += [("Joe", 9, "figs", 4)]


def solved(task: str, *steps: Step, **more: Any) -> Exemplar:
    made = tuple({"tool": tool, "args": args, "needs": []} for tool, args in steps)
    return Exemplar(task=task, steps=made, **more)


def tally(source: str, to: str, wording: str = TALLY, what: str = "lines") -> Exemplar:
    count: Step = ("count", {"what": what, "path": source, "format": "total"})
    write: Step = ("write", {"path": to, "content": "{{steps[1].result}}\n"})
    success = ({"file": to, "has": r"\d"}, {"judge": "the number is right"})
    return solved(wording.format(source, to), count, write, success=success, output=f"Noted in {to}")


def bought(name: str, boxes: int, thing: str, price: int, expression: str = "{} * {}") -> Exemplar:
    task = BUYS.format(name, boxes, thing, price, name, thing)
    calc: Step = ("calc", {"expression": expression.format(boxes, price)})
    return solved(task, calc, output="{{ steps[1].result | trim }}")


TRIAL = Trial([shipped_system()])


class Learner:
    """What learns solved tasks, and considers a method after each."""

    def __init__(self, shelf: Shelf, folder: Path) -> None:
        self.folder = folder / "methods"
        self.memory = ProceduralMemory(shelf, Lexical(), words())
        self.methods = Methods(shelf, self.memory.embedder, words(), self.folder, TRIAL)

    def learn(self, *exemplars: Exemplar) -> list[Method]:
        found = [self.methods.consider(self.memory.learn(each)) for each in exemplars]
        return [each for each in found if each]

    def file(self) -> Path:
        (path,) = self.folder.glob("*.md")
        return path

    def plans(self, task: str) -> Any:
        found = match(task, Reflexes([self.folder, shipped_system()]).shelf)
        return found and draft(found, 0).steps


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    with shelf_of() as shelf:
        yield Learner(shelf, tmp_path)


def five() -> list[Exemplar]:
    return [tally(*pair) for pair in PAIRS]


def front(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text("utf-8").split("---\n")[1])


# ---- birth ---------------------------------------------------------------------------------------------------


def test_five_tasks_with_files_make_a_method_that_reads_a_sixth(learner: Learner) -> None:
    (method,) = learner.learn(*five())
    assert method.form == "steps"
    assert method.stage == "hippocampus"
    assert len(method.trees) == 5
    told = front(learner.file())
    assert told["phrasings"].splitlines() == ["tally the lines of {path} and note the figure in {to}"]
    assert told["slots"] == {"path": "exact path", "to": "exact path"}
    assert told["steps"][0] == {
        "tool": "count",
        "args": {"what": "lines", "path": "{{ path }}", "format": "total"},
    }
    assert told["success"] == [{"file": "{{ to }}", "has": r"\d"}]
    assert told["output"] == "Noted in {{ to }}"
    assert (told["status"], told["origin"]) == ("active", "learned")
    new = tally("x/y.md", "z.txt")
    assert plain(learner.plans(new.task)) == plain(new.steps)
    assert plain(learner.plans("please " + new.task)) == plain(new.steps)


def test_its_file_shows_its_exemplars(learner: Learner) -> None:
    learner.learn(*five())
    text = learner.file().read_text("utf-8")
    assert "| tally the lines of a.md and note the figure in n.txt | path = a.md, to = n.txt |" in text


def test_five_word_problems_make_a_method(learner: Learner) -> None:
    (method,) = learner.learn(*(bought(*each) for each in WORDED))
    told = front(learner.file())
    assert told["steps"] == [{"tool": "calc", "args": {"expression": "{{ boxes }} * {{ amount }}"}}]
    assert told["slots"] == {
        "name": "proper name",
        "boxes": "exact number",
        "thing": "noun",
        "amount": "exact amount",
    }
    new = bought("Zoe", 1200, "kiwis", 8)
    assert plain(learner.plans(new.task)) == plain(new.steps)
    assert method.text in learner.file().read_text("utf-8")


@pytest.mark.parametrize(
    "task",
    [
        "Tom buys 3 boxes of apples for $4 each. How much does Ann pay in total for the apples?",
        "Tom buys 3 boxes of apples for $4 each. How much does Tom pay in total for the pears?",
        "Tom buys 3 boxes of boxes for $4 each. How much does Tom pay in total for the boxes?",
        "Tom buys 3 boxes of apples for 4 each. How much does Tom pay in total for the apples?",
        "Tom buys $3 boxes of apples for $4 each. How much does Tom pay in total for the apples?",
        "Tom buys 3 boxes of apples for €4 each. How much does Tom pay in total for the apples?",
        "Tom sells 3 boxes of apples for $4 each. How much does Tom pay in total for the apples?",
        "Tom buys 3 boxes of apples for $4 each and eats 2. How much does Tom pay in total for the apples?",
        "Tom buys 3 boxes of hours for $4 each. How much does Tom pay in total for the hours?",
    ],
)
def test_it_claims_no_task_that_is_another(learner: Learner, task: str) -> None:
    learner.learn(*(bought(*each) for each in WORDED))
    assert learner.plans(task) is None


def test_four_make_none(learner: Learner) -> None:
    assert not learner.learn(*five()[:4])
    assert not learner.folder.exists()


def test_five_that_were_solved_in_different_ways_make_none(learner: Learner) -> None:
    ways = ["{} * {}", "{} + {}", "{} - {}", "{} / {}", "{} ^ {}"]
    exemplars = [bought(*each, expression=way) for each, way in zip(WORDED, ways, strict=True)]
    assert not learner.learn(*exemplars)


def test_five_with_other_tools_make_none(learner: Learner) -> None:
    tools = ["count", "read", "stat", "checksum", "sort"]
    assert not learner.learn(
        *(
            solved(f"tally the lines of {path}", (tool, {"path": path}))
            for tool, (path, _) in zip(tools, PAIRS, strict=True)
        )
    )


def test_one_that_was_solved_in_another_way_prevents_it(learner: Learner) -> None:
    trap = solved(TALLY.format("q.md", "r.txt"), ("read", {"path": "q.md"}))
    assert not learner.learn(trap, *five())
    assert learner.plans(TALLY.format("x.md", "y.txt")) is None


def test_one_that_comes_later_switches_it_off(learner: Learner) -> None:
    learner.learn(*five())
    learner.learn(solved(TALLY.format("q.md", "r.txt"), ("read", {"path": "q.md"})))
    (listed,) = learner.methods.listed()
    assert listed.status == "off"
    assert "in another way" in listed.note
    assert learner.plans(TALLY.format("x.md", "y.txt")) is None


def test_what_a_shipped_reflex_reads_needs_no_method(learner: Learner) -> None:
    def lines(path: str) -> Exemplar:
        args = {"what": "lines", "path": path, "format": "total"}
        return solved(f"count the lines of {path}", ("count", args))

    assert not learner.learn(*(lines(path) for path, _ in PAIRS))


def test_a_text_is_not_put_into_a_command_where_it_could_be_another(learner: Learner) -> None:
    def find(text: str, quotes: str) -> Exemplar:
        command = f"grep -c {quotes}{text}{quotes} log.txt"
        return solved(f'sift the log for "{text}"', ("bash", {"command": command}))

    texts = ["one", "two words", "three", "four", "five"]
    learner.learn(*(find(text, '"') for text in texts))
    assert learner.plans('sift the log for "$(rm x)"') is None


def test_other_words_for_the_same_are_taken_in(learner: Learner) -> None:
    learner.learn(*five())
    other = "{} has so many lines: let {} hold that figure"
    (grown,) = learner.learn(tally("g.md", "h.txt", other))
    assert grown.id == learner.file().stem
    assert len(front(learner.file())["phrasings"].splitlines()) == 2
    new = tally("k.md", "l.txt", other)
    assert plain(learner.plans(new.task)) == plain(new.steps)


def test_a_value_that_was_the_same_so_far_becomes_a_slot_when_it_varies(learner: Learner) -> None:
    learner.learn(*(tally(path, "n.txt") for path, _ in PAIRS))
    assert set(front(learner.file())["slots"]) == {"path"}
    assert learner.plans(TALLY.format("x.md", "other.txt")) is None
    learner.learn(tally("f.md", "m.txt"))
    assert set(front(learner.file())["slots"]) == {"path", "to"}


def test_numbers_keep_their_type_and_percentages_their_scale(learner: Learner) -> None:
    def first(n: int, path: str) -> Exemplar:
        return solved(f"peek at {n} rows of {path}", ("read", {"path": path, "lines": n}))

    def tip(part: int, bill: int) -> Exemplar:
        task = f"Zed tips {part}% on a bill of ${bill}. How much is the tip of Zed?"
        return solved(task, ("calc", {"expression": f"{part / 100} * {bill}"}))

    learner.learn(*(first(n, path) for n, (path, _) in enumerate(PAIRS, 3)))
    new = first(40, "z.md")
    assert plain(learner.plans(new.task)) == plain(new.steps)
    learner.learn(*(tip(part, bill) for part, bill in ((15, 80), (20, 60), (25, 35), (30, 70), (5, 90))))
    assert plain(learner.plans(tip(35, 44).task)) == plain(tip(35, 44).steps)


def test_where_an_argument_is_made_each_time_there_is_a_template_for_the_model(learner: Learner) -> None:
    def poem(path: str, text: str) -> Exemplar:
        return solved(f"pen a rhyme into {path}", ("write", {"path": path, "content": text}))

    texts = ["roses are red", "a cat in a hat", "the sky is so high", "go slow in snow", "a frog on a log"]
    (method,) = learner.learn(*(poem(path, text) for (path, _), text in zip(PAIRS, texts, strict=True)))
    assert method.form == "template"
    assert learner.plans("pen a rhyme into z.md") is None
    (told,) = learner.methods.guidance("pen a rhyme into z.md")
    assert "write {'path': 'z.md', 'content': '…'}" in told
    assert not learner.methods.guidance("count the lines of z.md")


def test_where_all_is_made_each_time_the_best_is_an_example(learner: Learner) -> None:
    def asked(path: str, command: str) -> Exemplar:
        return solved(f"look after {path}", ("bash", {"command": command}))

    commands = ["ls -l", "df", "uptime", "who", "date"]
    (method,) = learner.learn(*(asked(p, c) for (p, _), c in zip(PAIRS, commands, strict=True)))
    assert method.form == "exemplar"
    assert learner.plans("look after z.md") is None
    assert learner.methods.guidance("look after z.md")


def test_without_this_part_there_are_none(learner: Learner) -> None:
    learner.methods.parts = ALL.without("methods")
    assert not learner.learn(*five())


# ---- what a person does ------------------------------------------------------------------------------------


def test_a_persons_correction_stays(learner: Learner) -> None:
    learner.learn(*five())
    path = learner.file()
    corrected = path.read_text("utf-8").replace("what: lines", "what: words")
    path.write_text(corrected, "utf-8")
    learner.learn(
        tally("g.md", "h.txt", "{} has so many lines: let {} hold that figure"), tally("i.md", "j.txt")
    )
    assert path.read_text("utf-8") == corrected
    assert learner.plans(TALLY.format("x.md", "y.txt"))[0]["args"]["what"] == "words"
    (listed,) = learner.methods.listed()
    assert listed.edited


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
def test_what_a_crash_leaves_is_mended_by_the_next(tmp_path: Path, moment: str) -> None:
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
        learner.methods.mend()
        assert learner.file().read_text("utf-8") == "mine"
        (known,) = shelf.scan(Method)
        assert not known.pending


# ---- use ---------------------------------------------------------------------------------------------------


def test_uses_move_its_ledger_and_its_stage(learner: Learner) -> None:
    (method,) = learner.learn(*five())
    for _ in range(10):
        assert learner.methods.verification(method.id) == "next rung"
        learner.methods.settle(method.id, True, "criteria")
    assert learner.methods.verification(method.id) == "two paths"
    learner.methods.settle(method.id, False, "person")
    (listed,) = learner.methods.listed()
    assert (listed.stage, listed.uses, listed.right) == ("hippocampus", 11, 10)
    assert learner.methods.settle("nobody", True, "check") is None


def test_a_use_that_is_judged_anew_counts_once(learner: Learner) -> None:
    (method,) = learner.learn(*five())
    learner.methods.settle(method.id, True, "check")
    learner.methods.settle(method.id, False, "person", instead_of=True)
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


# ---- any leaves --------------------------------------------------------------------------------------------

names = st.from_regex(r"[a-z][a-z0-9]{0,6}(/[a-z]{1,4})?\.(md|txt|csv)", fullmatch=True)
amounts = st.integers(1, 10**6)
columns = st.tuples(names, names, amounts)


@settings(max_examples=12, deadline=None)
@given(st.lists(columns, min_size=6, max_size=7, unique_by=tuple(map(itemgetter, range(3)))))
def test_whatever_the_leaves_it_plans_what_the_exemplars_did(leaves: list[tuple[str, str, int]]) -> None:
    def made(source: str, to: str, n: int) -> Exemplar:
        task = f"stash {n} rows of {source} away in out/{to}"
        read: Step = ("read", {"path": source, "lines": n})
        return solved(
            task, read, ("write", {"path": f"out/{to}", "content": f"{n}: {{{{ steps[1].result }}}}"})
        )

    with shelf_of() as shelf, TemporaryDirectory() as folder:
        learner = Learner(shelf, Path(folder))
        exemplars = [made(*each) for each in leaves]
        learner.learn(*exemplars[:5])
        reflexes = Reflexes([learner.folder, shipped_system()])
        for each in exemplars:
            found = match(each.task, reflexes.shelf)
            assert found
            assert plain(draft(found, 0).steps) == plain(each.steps)
