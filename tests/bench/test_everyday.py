"""`python -m bench everyday` judges the outcome of each task, and its list is sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lanes import NIGHT

from bench.everyday import LISTS, Task, judge, measure, missed, table, tasks
from kernel.errors import Exit
from runtime.api.fractal import shipped_system
from runtime.reflexes.matching import match
from runtime.reflexes.procedure import Reflexes
from runtime.workspace.runs import RunResult

REFUSED = "move a.txt and b.txt to backup"
"""A reflex matches it and is refused when it runs: the target has another a.txt."""
DONE = RunResult("r", "system-r", "complete", Exit.ACCEPTED, Path("r.md"), output="There are 12.")
WAITS = replace(DONE, status="waiting", exit=Exit.WAITING, output="")
BEFORE = {"a.txt": b"red\n", "docs/": None}


@pytest.mark.parametrize(
    ("task", "result", "after", "kind"),
    [
        (Task("t", r"\b12\b"), DONE, BEFORE, "right"),
        (Task("t", r"\b13\b"), DONE, BEFORE, "wrong"),
        (Task("t", r"\b12\b"), WAITS, BEFORE, "passed wrongly"),
        (Task("t", passes=True), WAITS, BEFORE, "passed rightly"),
        (Task("t", passes=True), DONE, BEFORE, "wrong"),
        (Task("t", r"\b12\b", passes=True), DONE, BEFORE, "right"),
        (Task("t", passes=True), WAITS, {**BEFORE, "new.txt": b""}, "wrong"),
        (Task("t", r"\b12\b"), DONE, {**BEFORE, "a.txt": b"blue\n"}, "wrong"),
        (Task("t", r"\b12\b"), DONE, {"docs/": None}, "wrong"),
        (Task("t", files={"a.txt": None}), DONE, {"docs/": None}, "right"),
        (
            Task("t", files={"a.txt": {"swap": ["red", "blue"]}}),
            DONE,
            {**BEFORE, "a.txt": b"blue\n"},
            "right",
        ),
        (
            Task("t", files={"b/a.txt": {"like": "a.txt"}}),
            DONE,
            {**BEFORE, "b/": None, "b/a.txt": b"red\n"},
            "right",
        ),
    ],
)
def test_a_task_is_judged_by_its_answer_and_its_changes(task, result, after, kind):
    assert judge(task, result, BEFORE, after)[0] == kind


def test_the_lists_have_tasks_of_their_own_and_traps():
    found = {name: tasks(path) for name, path in LISTS.items()}
    assert [len(found["own"]), len(found["unseen"])] == [200, 150]
    assert all(sum(task.passes for task in listed) >= len(listed) / 6 for listed in found.values())


def test_unseen_tasks_are_only_counted():
    listed = [Task("what is 2 + 2", r"\b5\b")] * 4
    figures = measure(lists={"unseen": listed})
    assert figures["wrong_tasks"] == {}
    assert missed(figures) == ["4 wrong actions", "0.0% of the unseen tasks done; the goal is 75%"]


def test_outcomes_of_tasks_on_real_files_are_counted():
    listed = [
        Task("how many lines has notes.md", r"\b12\b"),
        Task("delete draft.txt", files={"draft.txt": None}),
        Task("write a poem about lamps to poem.txt", passes=True),
        Task("what is 2 + 2", r"\b5\b"),
        Task("sing me a song", r"la"),
    ]
    figures = measure(lists={"own": listed})
    own = figures["lists"]["own"]
    assert [own[each] for each in ("right", "passed_rightly", "passed_wrongly", "wrong")] == [2, 1, 1, 1]
    assert list(figures["wrong_tasks"]) == ["what is 2 + 2"]
    assert "| own | 5 | 4 | 50.0% | 2 | 1 | 1 | 1 |" in table(figures)
    assert missed(figures) == ["1 wrong actions"]


def test_no_reflex_matches_a_task_that_must_be_passed_on():
    shelf = Reflexes([shipped_system()]).shelf
    asked = [task.text for task in tasks(LISTS["own"]) if not task.may_be_done]
    assert [text for text in asked if match(text, shelf) and text != REFUSED] == []


def test_a_part_of_the_list_is_done_without_a_wrong_action():
    assert measure(lists={"own": tasks(LISTS["own"])[:: 10 if NIGHT else 20]})["wrong_tasks"] == {}
