"""Methods are born of five solved tasks, and tried out before they are written."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from growing import shelf_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples
from methodical import PAIRS, TALLY, WORDED, Learner, Step, bought, five, front, solved, tally

from runtime.api.fractal import shipped_system
from runtime.memory.tasks import ALL
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.ledger import plain
from runtime.reflexes.matching import match
from runtime.reflexes.planning import draft
from runtime.reflexes.procedure import Reflexes


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    with shelf_of() as shelf:
        yield Learner(shelf, tmp_path)


def test_five_tasks_with_files_make_a_method_that_reads_a_sixth(learner: Learner) -> None:
    (method,) = learner.learn(*five())
    assert method.form == "steps"
    assert method.stage == "hippocampus"
    assert len(method.trees) == 5
    fields = front(learner.file())
    assert fields["phrasings"].splitlines() == ["tally the lines of {path} and note the figure in {to}"]
    assert fields["slots"] == {"path": "exact path", "to": "exact path"}
    assert fields["steps"][0] == {
        "tool": "count",
        "args": {"what": "lines", "path": "{{ path }}", "format": "total"},
    }
    assert fields["success"] == [{"file": "{{ to }}", "has": r"\d"}]
    assert fields["output"] == "Noted in {{ to }}"
    assert (fields["status"], fields["origin"]) == ("active", "learned")
    new = tally("x/y.md", "z.txt")
    assert plain(learner.plans(new.task)) == plain(new.steps)
    assert plain(learner.plans("please " + new.task)) == plain(new.steps)


def test_its_file_shows_its_exemplars(learner: Learner) -> None:
    learner.learn(*five())
    text = learner.file().read_text("utf-8")
    assert "| tally the lines of a.md and note the figure in n.txt | path = a.md, to = n.txt |" in text


def test_five_word_problems_make_a_method(learner: Learner) -> None:
    (method,) = learner.learn(*(bought(*each) for each in WORDED))
    fields = front(learner.file())
    assert fields["steps"] == [{"tool": "calc", "args": {"expression": "{{ boxes }} * {{ amount }}"}}]
    assert fields["slots"] == {
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


@pytest.mark.parametrize(
    "task",
    [
        "tally the words of x.md and note the figure in z.txt",
        "tally lines of x.md and note figure in z.txt",
        "note the figure in z.txt and tally the lines of x.md",
        "tally the lines of x.md and write the figure to z.txt",
    ],
)
def test_it_is_read_word_by_word_and_never_by_meaning(learner: Learner, task: str) -> None:
    learner.learn(*five())
    assert learner.plans(TALLY.format("x.md", "z.txt"))
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
    assert "other steps" in listed.note
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
    (guidance,) = learner.methods.guidance("pen a rhyme into z.md")
    assert "write {'path': 'z.md', 'content': '…'}" in guidance
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


names = st.from_regex(r"[a-z][a-z0-9]{0,6}(/[a-z]{1,4})?\.(md|txt|csv)", fullmatch=True)
amounts = st.integers(1, 10**6)
columns = st.tuples(names, names, amounts)
UNITS = [
    ("a/kg.md", "box.md", 2),
    ("a.md", "a/h.csv", 1),
    *((f"{x}.md", f"{x}.csv", n) for n, x in enumerate("bcde", 3)),
    ("m/h.md", "km/s.csv", 7),
]
"""Files with the names of units."""


@example(UNITS)
@settings(max_examples=examples(24), deadline=None)
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


def test_a_text_in_quotes_is_a_slot(learner: Learner) -> None:
    def jot(text: str, path: str) -> Exemplar:
        return solved(f'etch "{text}" along the rim of {path}', ("edit", {"path": path, "append": text}))

    texts = ["one", "two words", "three", "four", "five"]
    (method,) = learner.learn(*(jot(text, path) for text, (path, _) in zip(texts, PAIRS, strict=True)))
    assert method.form == "steps"
    assert plain(learner.plans(jot("it's {{ x }}, ok", "z.md").task)) == plain(
        jot("it's {{ x }}, ok", "z.md").steps
    )


def test_a_word_that_varies_is_a_slot_where_a_step_uses_it(learner: Learner) -> None:
    def scan(word: str, path: str) -> Exemplar:
        return solved(f"trace the {word} in {path}", ("grep", {"pattern": word, "path": path}))

    found = ["error", "warning", "banana", "ticket", "router"]
    (method,) = learner.learn(*(scan(word, path) for word, (path, _) in zip(found, PAIRS, strict=True)))
    assert method.form == "steps"
    assert plain(learner.plans(scan("kettle", "z.md").task)) == plain(scan("kettle", "z.md").steps)


def test_any_unit_is_a_slot_of_its_own(learner: Learner) -> None:
    def change(cents: int, pears: int) -> Exemplar:
        task = f"Zed sells {pears} pears at {cents} cents apiece. How many cents does Zed make?"
        return solved(task, ("calc", {"expression": f"{cents} * {pears}"}))

    learner.learn(*(change(10 + n, 3 * n + 1) for n in range(5)))
    assert front(learner.file())["slots"]["cents"] == "exact cents"
    assert plain(learner.plans(change(75, 4).task)) == plain(change(75, 4).steps)
    assert learner.plans("Zed sells 4 pears at €75 apiece. How many cents does Zed make?") is None
