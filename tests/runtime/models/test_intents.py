"""Tasks read by what they are about: what matches, what the approach says, what does not match."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from everyday_folder import around

from runtime.reflexes.matching import Match, match
from runtime.reflexes.procedure import Reflexes
from runtime.reflexes.reflex import _approach
from runtime.reflexes.surroundings import Contents, Surroundings

SYSTEM = Path(__file__).parents[3] / "system"
SHELF = Reflexes([SYSTEM]).shelf
NEAR_MISSES = (Path(__file__).parent / "reflex_near_misses.txt").read_text("utf-8").splitlines()


def read(task: str) -> Match | None:
    """A task as it is read in the folder of the everyday tasks."""
    return match(task, SHELF, (), around())


MEANT = [
    ("get rid of docs/old.md", "remove", {"paths": ("docs/old.md",)}),
    ("throw away old.txt", "remove", {"paths": ("old.txt",)}),
    ("make a copy of sales.csv into backup", "copy-into-folder", {"paths": ("sales.csv",), "to": "backup"}),
    ("to b.txt copy a.txt", "copy-file", {"from": "a.txt", "to": "b.txt"}),
    ("clone a.txt to b.txt", "copy-file", {"from": "a.txt", "to": "b.txt"}),
    ('could you jot down "call Tom" in a.txt', "append-text", {"text": "call Tom", "path": "a.txt"}),
    ("in notes.md, how many lines are there?", "count-in-file", {"what": "lines", "path": "notes.md"}),
    ("notes.md: how many words?", "count-in-file", {"what": "words", "path": "notes.md"}),
    ("how often does the word TODO show up in a.md", "count-matches", {"text": "TODO", "path": "a.md"}),
    ("look for files ending in .log", "find-files", {"glob": "*.log", "path": "."}),
    ("tally the lines in notes.md", "count-in-file", {"what": "lines", "path": "notes.md"}),
    ("print out people.csv", "read-file", {"paths": ("people.csv",)}),
    ("where's faq.md", "find-files", {"glob": "faq.md", "path": "."}),
    ("have a look at people.csv", "read-file", {"paths": ("people.csv",)}),
    ("get rid of the last line of notes.md", "delete-line", {"which": "last", "n": "", "path": "notes.md"}),
    (
        "change the port in config.json to 9000",
        "json-set",
        {"query": "port", "value": "9000", "path": "config.json"},
    ),
    (
        "average price in sales.csv for the North",
        "csv-number",
        {"function": "average", "column": "price", "where": "where region = North", "path": "sales.csv"},
    ),
    (
        "how many units did we sell in the North according to sales.csv",
        "csv-number",
        {"function": "sum", "column": "units", "where": "where region = North", "path": "sales.csv"},
    ),
    ("everyone over 30 in people.csv", "csv-where", {"where": "where age > 30", "path": "people.csv"}),
    (
        "which file in docs is the oldest?",
        "ranked-file",
        {"order": "oldest", "glob": "*", "path": "docs", "limit": 1},
    ),
    ("any links in my notes?", "extract", {"what": "urls", "path": "notes.md"}),
    ("the log has how many lines", "count-in-file", {"what": "lines", "path": "logs/app.log"}),
    ("15:00 in Berlin is what time in Tokyo", "time-elsewhere", {"when": "15:00 in Berlin", "to": "Tokyo"}),
    ("who in people.csv lives in Rome", "csv-where", {"where": "where city = Rome", "path": "people.csv"}),
]


def words_in(folder: Path, verbs: str) -> None:
    (folder / "memory").mkdir()
    (folder / "memory" / "words.md").write_text(f"# Words\n\n## Verbs\n\n{verbs}\n", "utf-8")


@pytest.mark.parametrize(("task", "name", "slots"), MEANT, ids=[each[0] for each in MEANT])
def test_a_task_in_other_words_is_read_by_what_it_is_about(task, name, slots):
    found = read(task)
    assert found is not None
    assert found.reading.by_intent
    assert (found.procedure.name, found.slots) == (name, slots)


def test_how_many_lines_has_a_file_finds_to_count_its_lines():
    assert match("how many lines has notes.md", SHELF).procedure.name == "count-in-file"


def test_the_approach_tells_by_which_intent_it_is_read() -> None:
    approach = _approach(match("get rid of a.txt", SHELF))
    assert 'remove.md: paths = ["a.txt"]; by intent: delete-file {paths:named-paths}' in approach
    assert "by intent" not in _approach(match("delete a.txt", SHELF))


LEFT_OUT = [
    ("rename a.txt to x.txt and b.txt to y.txt", ("move-file", {"from": "b.txt", "to": "y.txt"})),
    (
        "how many lines contain ERROR in logs/app.log, and how many with WARNING",
        ("count-lines-with", {"text": "WARNING", "path": "logs/app.log"}),
    ),
    (
        "what is the average price in sales.csv and of units",
        ("csv-number", {"where": "", "function": "average", "column": "units", "path": "sales.csv"}),
    ),
    ("count the words in a.txt and the lines", ("count-in-file", {"what": "lines", "path": "a.txt"})),
    ("show the first 2 lines of a.txt and the last 3", ("read-last-lines", {"n": 3, "path": "a.txt"})),
    (
        'copy a.txt to b.txt, then append the line "black"',
        ("append-text", {"text": "black", "path": "b.txt"}),
    ),
]
"""Tasks, and how their second part is read, which leaves something out."""


@pytest.mark.parametrize(("task", "second"), LEFT_OUT, ids=[each[0] for each in LEFT_OUT])
def test_a_part_takes_what_it_leaves_out_from_the_part_before(task, second):
    part = read(task).parts[1]
    assert (part.procedure.name, part.slots) == second


def test_a_part_takes_what_it_leaves_out_from_the_part_after():
    highest, lowest = read("what is the highest and lowest price in sales.csv").parts
    assert highest.slots == {**lowest.slots, "function": "max"}


@pytest.mark.parametrize(
    "task",
    [
        "copy a.txt to b.txt and c.txt",  # from or to?
        "back up todo.txt to backup/todo.txt, then remove the line buy milk from the original",  # which file?
        "draft.txt should be called story.txt from now on, rename it",
        "how much is 10% off 20 and 30",
    ],
)
def test_a_part_that_leaves_out_too_much_is_not_read(task):
    assert read(task) is None


def test_parts_are_read_by_intents():
    found = match("copy a.txt to c.txt and then get rid of b.txt", SHELF)
    assert [part.procedure.name for part in found.parts] == ["copy-file", "remove"]
    assert [part.reading.by_intent for part in found.parts] == [False, True]


def test_where_something_changes_the_words_of_other_texts_do_not_count(tmp_path):
    words_in(tmp_path, "delete | polish")
    assert match("polish a.txt", Reflexes([tmp_path, SYSTEM]).shelf) is None


def test_roles_are_told_apart_by_their_prepositions():
    assert match("from 102 subtract 45", SHELF) is None
    found = match("substitute violet for green in a.txt", SHELF)
    assert found.slots == {"old": "green", "new": "violet", "path": "a.txt"}
    assert match("substitute green by violet in a.txt", SHELF).slots == found.slots


@pytest.mark.parametrize("task", NEAR_MISSES)
def test_a_near_miss_is_left_alone(task):
    assert match(task, SHELF) is None
    assert read(task) is None


def test_there_are_many_near_misses():
    assert len(NEAR_MISSES) >= 100


def test_a_phrasing_that_fits_needs_no_word_list():
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from runtime.reflexes.matching import match\n"
        "from runtime.reflexes.procedure import Reflexes\n"
        f"assert match('count the lines of a.md', Reflexes([Path({str(SYSTEM)!r})]).shelf)\n"
        "heavy = {'numpy', 'runtime.memory.tasks.words', 'runtime.operations.cells'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


def test_an_invalid_phrasing_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "reflexes").mkdir()
    fields = "phrasings: tally <nothing> lines in {path}\nsteps: [{tool: stat}]\nsuccess: [{step: 1, has: x}]"
    (tmp_path / "reflexes" / "broken.md").write_text(f"---\n{fields}\n---\n", "utf-8")
    shelf = Reflexes([tmp_path, SYSTEM]).shelf
    assert "broken" in {each.path.stem for each in shelf.procedures}
    found = match("tally the lines in notes.md", shelf)
    assert found is not None and found.procedure is not None
    assert found.procedure.name == "count-in-file"


def test_a_file_called_by_its_name_alone_must_be_the_only_one():
    assert read("show my people list") is None
    assert read("show my todo list").slots == {"paths": ("todo.txt",)}


def test_a_column_must_be_one_of_the_table():
    assert read("sum of weights in sales.csv by intents") is None
    assert read("highest mountain in sales.csv") is None
    assert read("highest price in sales.csv") is not None


def test_an_intent_that_names_no_concept_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "reflexes").mkdir()
    fields = "intents: |\n  frobnicate {path}\nsteps: [{tool: stat}]\nsuccess: [{step: 1, has: x}]"
    (tmp_path / "reflexes" / "odd.md").write_text(f"---\n{fields}\n---\n", "utf-8")
    faults = Reflexes([tmp_path, SYSTEM]).faults
    assert [(each.path.name, each.line) for each in faults] == [("odd.md", 3)]
    assert "frobnicate is none of the concepts" in faults[0].message


def test_links_and_hidden_folders_show_nothing(tmp_path: Path) -> None:
    (tmp_path / "outside.csv").write_text("secret\n1\n", "utf-8")
    folder = tmp_path / "folder"
    for name in ("state", "notes"):
        (folder / name).mkdir(parents=True)
        (folder / name / "a.txt").write_text("x", "utf-8")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    assert Surroundings(folder).files == ("notes/a.txt",)
    assert Surroundings(folder).contents("link.csv") is None
    assert Surroundings(folder, {(folder / "notes").resolve()}).files == ("state/a.txt",)


def test_a_json_document_in_one_line_has_keys_and_a_broken_one_nothing(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"port": 1, "host": "a"}', "utf-8")
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000, "utf-8")
    (tmp_path / "odd.csv").write_bytes(b"\xff\xfe\0\0")
    seen = Surroundings(tmp_path)
    assert seen.contents("one.json") == Contents(keys={"port": "port", "host": "host"})
    for name in ("deep.json", "odd.csv", "missing.csv"):
        assert not (seen.contents(name) or Contents()).keys
    found = match("set the port in one.json to 2", SHELF, (), seen)
    assert found is not None
    assert found.slots == {"query": "port", "value": "2", "path": "one.json"}
