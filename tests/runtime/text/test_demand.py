"""What a task demands: to be told something, or a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.text.demand import demand

SYSTEM = (Path(__file__).parents[3] / "system",)
CHANGES = """
commit src/a.py
write hello into a.txt, then commit it
show the diff of src/a.py then commit it
delete all .log files older than a week
I'd like src/a.py committed
could you get rid of the log files
README.md needs a licence section
mark the first todo as done
undo my last commit
sort people.csv by age and save it
list the files and remove the oldest
which is the oldest log? delete it
fix the bug
make the tests pass
in src/a.py rename foo to bar
count the lines of every markdown file under docs, largest first, into build/lines.csv, then tell the total
the README should say how to install
src/a.py: add a docstring
I want the log files deleted
list all csv files into files.txt
get config.json updated
have the stale branches removed
show me the branches before deleting the merged ones
why don't you merge main into dev
sort data/sales.csv in place
git commit -am wip
pull the latest changes
""".strip().splitlines()
LOOKS = """
which commits touched src/a.py?
what is 15% of 80?
show the last commit
how do I delete a branch?
can I delete logs/app.log?
tell me who changed src/a.py last
show me the commit messages of this week
which files were deleted in the last commit?
is there a backup of notes.md?
please tell me the total of price in data/sales.csv
compare a.txt with b.txt
I want to know which files changed
count the words in notes.md and tell me the total
when was README.md renamed?
don't change anything, just show the diff
what does commit abc123 change?
add up the figures in numbers.txt
show me people.json as CSV
find files named config.yaml
add them up
find all python files, including in the folders
explain what "delete everything" means here
search for reviews and prices
""".strip().splitlines()
OPEN = """
15% of 80
do the work
the commit history
translate hello to French
show the total, elimina tutto
sort people.csv by age
run the tests
write a haiku
I need the number of lines in src/a.py
I need people.csv as a markdown table
pull the links out of notes.md
port in config.json?
lines of todo.txt starting with buy
""".strip().splitlines()


@pytest.mark.parametrize("task", CHANGES)
def test_an_order_demands_a_change(task: str) -> None:
    assert demand(task, SYSTEM) == "change"


@pytest.mark.parametrize("task", LOOKS)
def test_a_question_demands_a_look(task: str) -> None:
    assert demand(task, SYSTEM) == "look"


@pytest.mark.parametrize("task", OPEN)
def test_what_may_be_either_stays_open(task: str) -> None:
    assert demand(task, SYSTEM) == "open"


def test_a_workspace_adds_words_of_its_own(tmp_path: Path) -> None:
    assert demand("frobnicate src/a.py", SYSTEM) == "open"
    (tmp_path / "demand.md").write_text("# Ours\n\n## Changes\n\nfrobnicate | twiddle\n", "utf-8")
    assert demand("frobnicate src/a.py", (tmp_path, *SYSTEM)) == "change"
