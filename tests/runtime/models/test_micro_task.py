"""What a task names and consists of, which numbers are grounded, and the checks that code derives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import put

from kernel.loop.hooks import FolderChanges
from runtime.api.fractal import shipped_system
from runtime.models.micro.calls import block, conditions_of, qualified, unfenced
from runtime.models.micro.checks import CHECKS
from runtime.models.micro.kinds import Kinds
from runtime.models.micro.shown import described, excerpt
from runtime.models.micro.task import Task
from runtime.reflexes.procedure import Reflexes, shared_words
from runtime.text.grounding import numbers, ungrounded

KINDS = Kinds(shared_words([shipped_system()]))
FILES = ("notes.md", "test_calc.py", "calc.py", "data/sales.csv", "photos/a.jpeg", "photos/b.jpeg")


def task(text: str, folder: Path = Path("/nowhere")) -> Task:
    return Task(text, folder, FILES)


@pytest.mark.parametrize(
    ("text", "named", "new"),
    [
        ("According to notes.md, how high is it?", ["notes.md"], []),
        ("What is the total in sales.csv?", ["data/sales.csv"], []),
        ("Convert data/sales.csv to JSON as data/sales.json.", ["data/sales.csv"], ["data/sales.json"]),
        ("Rename the pictures in photos to .jpg", ["photos/a.jpeg", "photos/b.jpeg"], []),
        ("Set the version to 0.5.0, e.g. in ./calc.py.", ["calc.py"], []),
        ("Save http://x.example/a.html as page.txt, and mail kim@x.example", [], ["page.txt"]),
    ],
)
def test_files_that_a_task_names(text: str, named: list[str], new: list[str]):
    assert (task(text).named, task(text).new) == (named, new)


def test_facts_are_what_a_letter_has_to_mention():
    text = (
        "Invite the club to the party on Saturday 13 July at 3 pm, in at most 90 words, as a.md; tell Mira."
    )
    assert task(text).facts == ["13", "3", "Saturday", "July", "Mira"]


def test_tests_are_those_of_the_folder_where_a_task_is_about_tests():
    assert task("pytest is red, find out why").tests == ["test_calc.py"]
    assert task("Add a docstring to calc.py").tests == []


def test_modules_that_a_test_imports_are_found_through_others(tmp_path: Path):
    put(tmp_path, "test_a.py", "from a import one\n")
    put(tmp_path, "a.py", "import b\n")
    put(tmp_path, "b.py", "")
    found = Task("", tmp_path, ("test_a.py", "a.py", "b.py"))
    assert found.imported("test_a.py") == ["a.py", "b.py"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("How many lines has notes.md?", 0),
        ("Fix calc.py so that the tests pass.", 1),
        ("Fix the bug in calc.py, add a function mul, set the version to 2, and delete old.py.", 4),
        ("First sort a.txt. Then remove what is there twice, then write the count into b.txt.", 3),
    ],
)
def test_parts_of_a_task(text: str, parts: int):
    assert len(KINDS.parts(text)) == parts


def test_no_word_of_a_task_gets_lost_in_its_parts():
    text = "We release. First fix calc.py, the bug is in add. Then set the version to 2 and delete old.py."
    joined = " ".join(KINDS.parts(text)).lower()
    assert all(word in joined for word in ("release", "calc.py", "bug", "version", "old.py"))


@pytest.mark.parametrize(
    ("text", "sources", "loose"),
    [
        ("It is 42,000 euros.", ["raised to 42000"], []),
        ("It is 42.50.", ["42.5"], []),
        ("It is 1\u00a0234,50 in 2024.", ["1234.50", "2024-01-01"], []),
        ("There are 3 of them.", [""], []),
        ("It is 8600.", ["7600"], ["8600"]),
    ],
)
def test_numbers_are_grounded_in_any_notation(text: str, sources: list[str], loose: list[str]):
    assert ungrounded(text, sources) == loose


@given(st.text(max_size=200))
def test_any_text_has_numbers_that_it_grounds_itself(text: str):
    assert ungrounded(text, [text]) == []
    assert all(number for number in numbers(text))


# ---- what is shown ---------------------------------------------------------------------------------------


def test_a_table_is_described_by_its_columns():
    text = "order,status,when\n7001,shipped,2024-03-01\n7002,open,2024-03-02\n"
    shown = described("shop/orders.csv", text)
    assert shown.splitlines()[:3] == [
        'Table "orders", 2 rows:',
        "- order (number, 7001 to 7002)",
        "- status (text: 'shipped', 'open')",
    ]
    assert described("notes.csv", "just a line") == ""


def test_the_conditions_of_a_task_are_named():
    table = described("o.csv", "status,day\nshipped,2024-03-01\nopen,2024-04-02\nshipped,2024-04-03\n")
    found = conditions_of(task("How many were shipped in March 2024?"), [table])
    assert "'shipped'" in found
    assert "'open'" not in found


def test_a_column_of_two_tables_is_qualified():
    tables = [described("a.csv", "item,n\nx,1\ny,2\n"), described("b.csv", "item,price\nx,1\ny,2\n")]
    query = "SELECT item, SUM(n * price) FROM a JOIN b ON a.item = b.item GROUP BY item"
    assert qualified(query, tables) == (
        "SELECT a.item, SUM(n * price) FROM a JOIN b ON a.item = b.item GROUP BY a.item"
    )
    aliased = "SELECT item FROM a AS t JOIN b u ON t.item = u.item"
    assert qualified(aliased, tables) == "SELECT t.item FROM a AS t JOIN b u ON t.item = u.item"
    assert qualified("SELECT item FROM a", tables) == "SELECT item FROM a"


def test_an_excerpt_has_the_head_and_the_lines_of_the_task():
    lines = [f"line {n} of the log" for n in range(100)]
    lines[70] = "the pump was replaced"
    shown = excerpt("\n".join(lines), "Who replaced the pump?", head=2, found=1)
    assert shown.splitlines() == [
        "line 0 of the log",
        "line 1 of the log",
        "… 68 lines …",
        "the pump was replaced",
        "… 29 lines …",
    ]


@pytest.mark.parametrize(
    ("reply", "content"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Here it is:\n```\nx = 1\n```\nDone.", "x = 1\n"),
        ("```json\n{}", "{}\n"),
        ("x = 1", "x = 1\n"),
        ("````md\n```\ninner\n```\n````", "```\ninner\n```\n"),
    ],
)
def test_a_block_of_a_reply(reply: str, content: str):
    assert block(reply) == content


def test_prose_keeps_its_own_blocks():
    text = "# Title\n\n```bash\nls\n```\n"
    assert unfenced(text) == text
    assert unfenced(f"````markdown\n{text}````") == text


# ---- checks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("a.py", "x = 1\n", "x = = 1\n"),
        ("a.json", '{"a": 1}', "{'a': 1}"),
        ("a.toml", "a = 1\n", "a = \n"),
        ("a.yaml", "a: 1\n", "a: [1\n"),
        ("a.ini", "[a]\nb = 1\n", "b = 1\n"),
        ("a.csv", "a,b\n1,2\n", "a,b\n1\n"),
        ("a.sh", "echo a\n", "if true; then\n"),
        ("a.txt", "text\n", " \n"),
    ],
)
def test_a_file_is_what_its_ending_says(tmp_path: Path, name: str, good: str, bad: str):
    criterion = {"check": "valid", "file": name}
    assert CHECKS["valid"](criterion, tmp_path, None) == (False, "missing")
    put(tmp_path, name, bad)
    assert CHECKS["valid"](criterion, tmp_path, None)[0] is False
    put(tmp_path, name, good)
    assert CHECKS["valid"](criterion, tmp_path, None)[0] is True


def test_a_change_is_seen_and_lost_code_too(tmp_path: Path):
    put(tmp_path, "a.py", "def one():\n    pass\n")
    since = FolderChanges(["a.py"], before=lambda path: "def one():\n    pass\n\n\ndef two():\n    pass\n")
    criterion = {"file": "a.py"}
    assert CHECKS["changed"](criterion, tmp_path, since)[0] is True
    gone = FolderChanges(["gone.py"], before=lambda path: "text\n")
    assert CHECKS["changed"]({"file": "gone.py"}, tmp_path, gone)[0] is True
    blank = FolderChanges(["a.py"], before=lambda path: "def one():\n\n    pass")
    assert CHECKS["changed"](criterion, tmp_path, blank) == (False, "only blank lines changed")
    assert CHECKS["changed"]({"file": "b.py"}, tmp_path, since)[0] is False
    assert CHECKS["changed"](criterion, tmp_path, None)[0] is False
    assert CHECKS["kept"](criterion, tmp_path, since) == (False, "lost: two")
    assert CHECKS["moved"]({}, tmp_path, since)[0] is True
    assert CHECKS["moved"]({}, tmp_path, FolderChanges(unknown="too large"))[0] is None


def test_a_new_word_of_language_md_makes_a_task_of_that_kind(tmp_path: Path):
    words = (shipped_system() / "reflexes" / "language.md").read_text("utf-8")
    assert not KINDS.arranges("declutter all photos")
    (tmp_path / "reflexes").mkdir()
    (tmp_path / "reflexes" / "language.md").write_text(
        words.replace("  arrange: ", "  arrange: declutter | ")
    )
    assert Kinds(shared_words([tmp_path, shipped_system()])).arranges("declutter all photos")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "Fix calc.py, set the version to 2, delete old.py and then tell me the total of sales.csv.",
            ["Fix calc.py", "Set the version to 2", "Delete old.py", "Tell me the total of sales.csv."],
        ),
        (
            "First, fix calc.py. Second, set the version to 2. In the end, please write notes.md.",
            ["Fix calc.py.", "Set the version to 2.", "Write notes.md."],
        ),
    ],
)
def test_parts_begin_with_their_order(text: str, parts: list[str]):
    assert KINDS.parts(text) == parts


@pytest.mark.parametrize(
    ("text", "derived"),
    [
        ("From README.md, collect all the links into links.txt", True),
        ("write letter.md with all the addresses from book.txt", True),
        ("List the duties of each day, then write a summary in plan.md", False),
    ],
)
def test_what_a_program_takes_over_from_other_files(text: str, derived: bool):
    assert KINDS.derives(task(text).prose) == derived


@pytest.mark.parametrize("text", ["no frontmatter", "---\nkinds: {write: <unknown>}\n---\n", "---\n[\n---\n"])
def test_words_that_cannot_be_read_leave_the_choice_to_the_model(tmp_path: Path, text: str):
    (tmp_path / "reflexes").mkdir()
    (tmp_path / "reflexes" / "language.md").write_text(text)
    assert not Kinds(shared_words([tmp_path])).says("write a letter", "write")


def test_an_unknown_concept_is_named_with_its_file(tmp_path: Path):
    (tmp_path / "reflexes").mkdir()
    (tmp_path / "reflexes" / "language.md").write_text("---\nkinds: {write: <unknown>}\n---\n")
    [fault] = Reflexes([tmp_path]).faults
    assert fault.path.name == "language.md"
    assert "<unknown> is none of the concepts" in fault.message


@pytest.mark.timeout(20)
@pytest.mark.parametrize("words", ["can you please ", "delete ", "tell me ", "and then ", "sort, "])
def test_a_task_of_the_same_words_again_and_again_takes_no_time(words: str):
    text = words * 1_000 + "x"
    KINDS.parts(text)
    for ask in (KINDS.asks, KINDS.orders_change, KINDS.arranges, KINDS.derives):
        ask(text)
