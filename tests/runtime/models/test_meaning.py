"""Tasks matched by the meaning of their words: what matches, what the approach says, what does not match."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.reflexes.matching import match
from runtime.reflexes.procedure import Reflexes
from runtime.reflexes.reflex import _approach

SYSTEM = Path(__file__).parents[3] / "system"
SHELF = Reflexes([SYSTEM]).shelf
NEAR_MISSES = (Path(__file__).parent / "reflex_near_misses.txt").read_text("utf-8").splitlines()

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
]


def words_in(folder: Path, verbs: str) -> None:
    (folder / "memory").mkdir()
    (folder / "memory" / "words.md").write_text(f"# Words\n\n## Verbs\n\n{verbs}\n", "utf-8")


@pytest.mark.parametrize(("task", "name", "slots"), MEANT, ids=[each[0] for each in MEANT])
def test_a_task_in_other_words_is_read_by_its_meaning(task, name, slots):
    found = match(task, SHELF)
    assert found is not None
    assert found.reading.meaning
    assert (found.procedure.name, found.slots) == (name, slots)


def test_how_many_lines_has_a_file_finds_to_count_its_lines():
    assert match("how many lines has notes.md", SHELF).procedure.name == "count-in-file"


def test_the_approach_tells_which_words_were_taken_for_which():
    approach = _approach(match("get rid of a.txt", SHELF))
    assert 'remove.md: paths = ["a.txt"]; by meaning: “get rid of” taken for “' in approach
    assert "by meaning" not in _approach(match("delete a.txt", SHELF))


def test_one_part_may_be_read_by_its_words_and_the_other_by_its_meaning():
    found = match("copy a.txt to c.txt and then get rid of b.txt", SHELF)
    assert [part.procedure.name for part in found.parts] == ["copy-file", "remove"]
    assert [part.reading.meaning for part in found.parts] == [False, True]


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


def test_there_are_many_near_misses():
    assert len(NEAR_MISSES) >= 100


def test_a_phrasing_that_fits_needs_no_word_list():
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from runtime.reflexes.matching import match\n"
        "from runtime.reflexes.procedure import Reflexes\n"
        f"assert match('count the lines of a.md', Reflexes([Path({str(SYSTEM)!r})]).shelf)\n"
        "heavy = {'numpy', 'runtime.memory.tasks.words', 'runtime.reflexes.meaning'}\n"
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
