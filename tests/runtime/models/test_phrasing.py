"""Phrasings: the tokens of a task, the kinds of slots, the patterns, and what no text may do to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples, within

from runtime.reflexes.matching import earlier, match
from runtime.reflexes.phrasing import Phrasing, PhrasingError, needed
from runtime.reflexes.planning import draft
from runtime.reflexes.procedure import READERS, Reflexes
from runtime.reflexes.slots import Earlier, Scan, choice_of
from runtime.text.chunks import LONGEST_TASK, chunks

SHELF = Reflexes([Path(__file__).parents[3] / "system"]).shelf
BEFORE = Earlier(frozenset({"number", "text"}), "12", "out.txt")


def words(task: str) -> list[str]:
    return [token.text for token in chunks(task) or ()]


def kinds(name: str):
    if name in READERS:
        return READERS[name], False
    if name in SHELF.language.choices:
        return choice_of(SHELF.language.choices[name]), True
    raise PhrasingError(f"{name!r} is no kind of slot")


def read(phrasing: str, task: str, *prior: Earlier):
    """The slots of the surest reading of a task, None when there is none."""
    found = chunks(task)
    if found is None:
        return None
    scan = Scan(found, task, SHELF.language, prior)
    readings = Phrasing(phrasing, needed(phrasing)[0], kinds, SHELF.language).readings(scan, 0, len(found))
    return readings[0].slots if readings else None


# ---- tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("Count the lines of a.md.", ["Count", "the", "lines", "of", "a.md", "."]),
        ("sum 1,000 and 2,5", ["sum", "1,000", "and", "2", ",", "5"]),
        ('write "a, b. then c" to x', ["write", "a, b. then c", "to", "x"]),
        ("write “it’s” to 'my file.txt'", ["write", "it’s", "to", "my file.txt"]),
        ("what's in the boys' file?", ["what's", "in", "the", "boys'", "file", "?"]),
        ("fetch https://x.org/a,b;c?d=1.", ["fetch", "https://x.org/a,b;c?d=1", "."]),
        ("read a.txt;b.txt", ["read", "a.txt", ";", "b.txt"]),
        ("read a\nread b", ["read", "a", "\n", "read", "b"]),
        ("list .", ["list", "."]),
        ("cat `a b`,`c`", ["cat", "a b", ",", "c"]),
        ("find *.{md,txt}", ["find", "*.{md,txt}"]),
    ],
)
def test_a_task_falls_into_words_marks_and_quoted_text(task, expected):
    assert words(task) == expected


@pytest.mark.parametrize("task", ['read "a.txt', "run `ls", "write “x to y", "x" * (LONGEST_TASK + 1)])
def test_an_open_quote_and_a_very_long_task_are_not_read(task):
    assert chunks(task) is None


# ---- patterns --------------------------------------------------------------------------------------------


def test_what_may_be_left_out_and_what_may_stand_instead():
    phrasing = "(show|print) [me] [the [very] first] (line|lines) of {path}"
    assert read(phrasing, "show line of a.md") == {"path": "a.md"}
    assert read(phrasing, "Print me the very FIRST lines of a.md") == {"path": "a.md"}
    assert read(phrasing, "show me the very lines of a.md") is None
    assert read(phrasing, "show line of a.md and more") is None


def test_shared_words_and_slots_stand_in_angle_brackets():
    assert read("list <file-set>", "list every markdown file under docs") == {"glob": "*.md", "path": "docs"}


@pytest.mark.parametrize(
    ("phrasing", "word"),
    [
        ("a [b", "never closed"),
        ("a b]", "never opened"),
        ("a | b", "parentheses"),
        ("<nowhere> a", "<nowhere>"),
        ("a {b:wizard}", "wizard"),
    ],
)
def test_a_phrasing_that_cannot_be_understood_says_why(phrasing, word):
    with pytest.raises(PhrasingError, match=word):
        read(phrasing, "a b")


def test_needed_words_are_those_outside_of_every_bracket():
    assert needed("count [the (x|y)] lines <of> {path}\n{a} is B") == [{"count", "lines"}, {"is", "b"}]


# ---- kinds of slots --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "1,250.5", "1250.5"),
        ("number", "-3", "-3"),
        ("number", "seventeen", "17"),
        ("number", "$40", "40"),
        ("number", "it", "{{ it }}"),
        ("integer", "12", 12),
        ("percent", "15%", "15"),
        ("percent", "7.5 percent", "7.5"),
        ("percent", "ten per cent", "10"),
        ("quantity", "5km", "5 km"),
        ("quantity", "98.6 °F", "98.6 degF"),
        ("quantity", "a mile", "1 mile"),
        ("quantity", "3 square feet", "3 foot^2"),
        ("duration", "three weeks", "3 weeks"),
        ("duration", "a month", "1 month"),
        ("date", "2026-03-01", "2026-03-01"),
        ("date", "March 1st, 2026", "2026-03-01"),
        ("date", "1 march 2026", "2026-03-01"),
        ("date", "1.3.2026", "2026-03-01"),
        ("date", "Tomorrow", "tomorrow"),
        ("range", "10-20", "10-20"),
        ("range", "3 to 7", "3-7"),
        ("path", "docs/a.md", "docs/a.md"),
        ("path", "README", "README"),
        ("path", '"my notes"', "my notes"),
        ("path", "./x", "./x"),
        ("path", ".gitignore", ".gitignore"),
        ("path", "it", "out.txt"),
        ("file", "a.tar.gz", "a.tar.gz"),
        ("folder", "src", "src"),
        ("folder", '"old stuff"', "old stuff"),
        ("paths", "a.md, b.md and c.md", ("a.md", "b.md", "c.md")),
        ("glob", "src/**/*.py", "src/**/*.py"),
        ("kind", "markdown", "*.md"),
        ("kind", ".rst", "*.rst"),
        ("archive", "old/a.tar.gz", "old/a.tar.gz"),
        ("url", "https://x.org/a?b=c#d", "https://x.org/a?b=c#d"),
        ("quoted", '"a b"', "a b"),
        ("word", "TODO", "TODO"),
        ("symbol", "my_name", "my_name"),
        ("text", "`x = 1`", "x = 1"),
        ("text", "the result", "{{ it }}"),
        ("phrase", "hello big world", "hello big world"),
        ("line", "ls -la /tmp", "ls -la /tmp"),
        ("columns", "name, age", ("name", "age")),
        ("json path", "users[0].name", "users[0].name"),
        ("value", "9.50", "9.50"),
        ("expression", "12*(3+4)", "12 * (3 + 4)"),
        ("expression", "two plus three times 4", "2 + 3 * 4"),
        ("expression", "-(2.5 − 1) ÷ 3", "- (2.5 - 1) / 3"),
        ("expression", "80 + 15%", "80 + 15%"),
        ("comparison", "is at least", ">="),
    ],
)
def test_a_kind_reads_what_it_stands_for(kind, text, value):
    assert read(f"say {{x:{kind}}}", f"say {text}", BEFORE) == {"x": value}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("number", "1,2"),
        ("number", "a.md"),
        ("integer", "-3"),
        ("integer", "2.5"),
        ("percent", "15"),
        ("quantity", "5 dollars"),
        ("quantity", "km"),
        ("duration", "some weeks"),
        ("date", "2026-02-30"),
        ("date", "01/02/2026"),
        ("date", "1 March"),
        ("path", "notes"),
        ("path", "3.14"),
        ("path", "24/7"),
        ("path", "*.md"),
        ("path", '"a*b"'),
        ("file", "docs/"),
        ("folder", "the"),
        ("folder", "a.md"),
        ("named paths", "it"),
        ("glob", "a.md"),
        ("archive", "a.txt"),
        ("url", "example.org"),
        ("word", "not"),
        ("symbol", "apples"),
        ("text", "something"),
        ("phrase", "hello unless it rains"),
        ("phrase", "what stands in a.md"),
        ("line", "ls and then rm x"),
        ("column", "10"),
        ("expression", "12"),
        ("expression", "3 +"),
        ("expression", "(3 + 4"),
        ("expression", "3 4"),
        ("expression", "2026-03-01"),
        ("expression", "3 + x"),
    ],
)
def test_a_kind_leaves_what_it_does_not_stand_for(kind, text):
    assert read(f"say {{x:{kind}}}", f"say {text}", BEFORE) is None


def test_it_means_nothing_when_nothing_came_before():
    for kind in ("number", "text", "path"):
        assert read(f"say {{x:{kind}}}", "say it") is None


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("42", {"number"}),
        ("1\n2.5\n", {"numbers", "count"}),
        ("path,lines\na.md,3\nb.md,4", {"table"}),
        ("a.md\nb.md", {"list", "count"}),
        ("3  a.md\n4  b.md\ntotal: 7 lines in 2 files", {"list", "total"}),
        ("Wrote lines.csv (columns: path, lines)", {"file", "table file"}),
        ("made the folder out", {"file"}),
    ],
)
def test_a_result_has_the_shapes_that_it_can_be_used_as(text, shapes):
    assert shapes <= earlier(text, SHELF).shapes


@pytest.mark.parametrize("text", ["", "  \n", "nothing matches *.x", "no line matches TODO"])
def test_nothing_found_is_nothing_to_go_on_with(text):
    assert earlier(text, SHELF).shapes == frozenset()


# ---- several tasks in one --------------------------------------------------------------------------------


def parts(task: str) -> list[str]:
    found = match(task, SHELF)
    return [part.task for part in found.parts] if found else []


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("read a.md and then count the lines of b.md", ["read a.md", "count the lines of b.md"]),
        ("read a.md; list the files in docs.", ["read a.md", "list the files in docs"]),
        ("Read a.md. Afterwards, delete b.md.", ["Read a.md", "delete b.md"]),
        ("read a.md\nls docs\nsort b.txt", ["read a.md", "ls docs", "sort b.txt"]),
        ("- read a.md\n- sort b.txt\n", ["read a.md", "sort b.txt"]),
        ("1. read a.md\n2. sort b.txt", ["read a.md", "sort b.txt"]),
        ("first read a.md, after that please sort b.txt, and finally ls", ["read a.md", "sort b.txt", "ls"]),
        ('write "and then ls" to b.md and read it', ['write "and then ls" to b.md', "read b.md"]),
        ("zip docs into a.zip and compute its sha256", ["zip docs into a.zip", "compute a.zip sha256"]),
    ],
)
def test_joined_tasks_are_divided_at_their_joins(task, expected):
    assert parts(task) == expected


@pytest.mark.parametrize(
    "task", ["copy a.txt and b.txt to c", "read a.md, b.md and c.md", "what is 3 and 4 then"]
)
def test_what_is_one_task_is_not_divided(task):
    assert parts(task) == []


def test_one_part_that_nothing_covers_leaves_the_whole_to_others():
    assert match("read a.md and then feel sad", SHELF) is None
    assert match("feel sad, then read a.md", SHELF) is None


# ---- any text at all -------------------------------------------------------------------------------------

WORDS = """
count the lines of a.md and then , ; " ' ` it 15% ( ) 3 + what is find every markdown files under into x.csv
sort not *.py tell the total save it to {{ steps[1].result }} {{ it }} \\ { | [ sum by .
""".replace("\n", " ").split(" ")
PIECES = st.sampled_from([*WORDS, "\n", "tell the total", "{{ steps[1].result }}"])


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map(" ".join)))
def test_no_text_breaks_the_matcher(text):
    for prior in ((), (BEFORE,)):
        found = match(text, SHELF, prior)
        if found:
            draft(found, 3)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text(max_size=300), st.sampled_from(["sort it", "save it to a.txt", "tell the total", "count them"])
)
def test_no_result_breaks_what_goes_on_with_it(result, task):
    for text in (result, f"a,b\n{result},3", f"Wrote {result}", "copied " * 10_000 + result):
        found = match(task, SHELF, (earlier(text, SHELF),))
        if found:
            draft(found, 0)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=200))
def test_what_is_quoted_arrives_as_it_was(text):
    quoted = text.replace('"', "").strip("\n")
    found = match(f'write "{quoted}" to a.txt', SHELF)
    assert quoted == "" or (found is not None and found.slots["text"] == quoted)


LONG = [
    "a ",
    "and ",
    "'",
    "1-",
    "(",
    "the ",
    ". ",
    "a/",
    "1,",
    "please ",
    "_",
    "read a.txt, ",
    "count ",
    "it then ",
]


@pytest.mark.parametrize("piece", LONG)
def test_long_texts_are_declined_fast(piece):
    for length in (LONGEST_TASK - 20, 10_000_000):
        task = piece * (length // len(piece))
        with within(2.0):
            assert match(task, SHELF) is None


def test_whether_a_reflex_changes_something_follows_its_operation(tmp_path):
    """What is compiled is shared by the runs of a process; what depends on another file is not."""
    operation, own = tmp_path / "operations" / "count.md", tmp_path / "reflexes" / "tally.md"
    own.parent.mkdir()
    steps = "steps:\n- {tool: count, args: {what: lines}}"
    own.write_text(f"---\nname: tally\nphrasings: [tally it]\n{steps}\n---\n")
    shipped = (Path(__file__).parents[3] / "system" / "operations" / "count.md").read_text()
    operation.parent.mkdir()
    seen = []
    for effect in ("read", "read, write"):
        operation.write_text(shipped.replace("effects: [read]", f"effects: [{effect}]"))
        seen.append([each.changes for each in Reflexes([tmp_path]).shelf.procedures])
    assert seen == [[False], [True]]
