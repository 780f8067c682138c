"""`python -m bench learning`: its tasks, its worker, its reader of guidance, and its figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import learning
from bench.apprentice.reader import HAZARDS, advice_in
from bench.apprentice.tasks import KINDS, Task, stream
from bench.apprentice.worker import Day, Worker
from bench.learning import Arm, Row, figures_of, measure, missed, table
from kernel.asking.responder import Ladder
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted

ONE = {task.kind: task for task in stream(7, 1)}


def prompt(section: str, line: str) -> str:
    context = f"## From memory: {section}\n```\n- {line} (patterns/x.md)\n```"
    return f"## Task\nx\n\n{context}\n\n## Plan\ny"


# ---- tasks and the worker --------------------------------------------------------------------------------


def test_the_tasks_of_a_stream_differ_and_a_seed_gives_the_same_stream() -> None:
    tasks = stream(1, 12)
    assert len({task.text for task in tasks}) == len(tasks) == 12 * len(KINDS)
    assert [task.text for task in stream(1, 12)] == [task.text for task in tasks]
    assert {task.text for task in stream(2, 12)} != {task.text for task in tasks}


def play(
    folder: Path, task: Task, draw: float, explore: float = 0.99, notice: float = 0.99
) -> tuple[bool, Day]:
    """One task in the runtime, with the given draws of the worker."""
    worker = Worker(0)
    fractal = Fractal(
        folder, settings={**learning.SETTINGS, "recall": False}, ladder=Ladder((Scripted(worker),))
    )
    task.lay_out(folder)
    day = worker.begin(0, task)
    day.draw, day.explore, day.notice = draw, explore, notice
    result = asyncio.run(fractal.run(task.text, yes=True))
    return result.exit == 0 and task.is_done(folder), day


@pytest.mark.parametrize("kind", KINDS)
def test_right_steps_do_a_task_and_the_mistake_does_not(tmp_path: Path, kind: str) -> None:
    task = next(
        each for each in stream(3, 9) if each.kind == kind and (kind != "fix" or "n +" in str(each.bad))
    )
    for name in "ab":
        (tmp_path / name).mkdir()
    done, good = play(tmp_path / "a", task, draw=0.99)
    assert done
    done, bad = play(tmp_path / "b", task, draw=0.0)
    assert bad.mistaken
    if kind == "edit":  # a step fails, and the second attempt costs calls
        assert done
        assert bad.calls > good.calls
    else:
        assert not done


def test_a_mistake_that_check_notices_is_corrected_and_costs_calls(tmp_path: Path) -> None:
    done, day = play(tmp_path, ONE["ranking"], draw=0.0, notice=0.0)
    assert done
    assert day.calls == 4


def test_exploring_costs_calls_and_unused_context(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    _, straight = play(tmp_path / "a", ONE["errors"], draw=0.99)
    _, explored = play(tmp_path / "b", ONE["errors"], draw=0.99, explore=0.5)
    assert explored.calls == straight.calls + 1
    assert explored.context[1] > 2 * straight.context[1]


# ---- the reader ------------------------------------------------------------------------------------------

ADVICE = [
    ("edit", "Before you edit a file, read it.", 1),
    ("edit", "Read the file first, then change it with edit.", 1),
    ("edit", "Do: read → edit. Avoid: edit without reading.", 1),
    ("edit", "Never edit a file without having read it.", 1),
    ("edit", "Edit files directly, reading them is a waste.", -1),
    ("edit", "Edit without reading first.", -1),
    ("report", "Summaries belong in reports/.", 1),
    ("report", "Write each summary into the folder for reports.", 1),
    ("report", "Put the summary into the top folder.", -1),
    ("label", "On a label the number is followed by its unit of measure.", 1),
    ("ranking", "Sort scores with the largest first.", 1),
    ("ranking", "sort with order: descending. Avoid: ascending order.", 1),
    ("ranking", "Sort rankings ascending.", -1),
    ("rows", "Rows of a table keep their header.", 1),
    ("rows", "Take rows with grep.", -1),
    ("fix", "After an edit of code, run its tests.", 1),
    ("setting", "Change settings with edit; never write the file anew.", 1),
    ("errors", "Count errors whatever their case: case-insensitive matches.", 1),
]


@pytest.mark.parametrize(("kind", "line", "sign"), ADVICE)
def test_guidance_and_its_opposite_are_understood_in_several_wordings(
    kind: str, line: str, sign: int
) -> None:
    score = advice_in(prompt("patterns", line), kind, ONE[kind].text).score
    assert (score > 0) - (score < 0) == sign


def test_text_elsewhere_in_a_prompt_or_about_something_else_is_no_guidance() -> None:
    line = "Sort scores with the largest first."
    assert (
        advice_in(f"## Task\n{line}\n\n## Context from folder\n```\n{line}\n```", "ranking", "x").score == 0
    )
    other = advice_in(
        prompt("patterns", "Water the plants with the largest leaves first."), "ranking", ONE["ranking"].text
    )
    assert other.score == 0


def test_a_solved_task_shows_the_way_to_one_like_it() -> None:
    good = ONE["ranking"]
    line = f'“{good.text}” was solved by: sort {{"path": "a", "order": "descending"}}'
    advice = advice_in(prompt("similar tasks", line), "ranking", good.text)
    assert (advice.warns, advice.way_shown, len(advice.used)) == (True, True, 1)
    assert not advice_in(prompt("similar tasks", line), "label", ONE["label"].text).way_shown


def test_every_mistake_has_a_rate_and_patterns_for_both_ways() -> None:
    assert set(HAZARDS) == set(KINDS)
    assert all(0 < each.rate < 1 and each.right and each.wrong and each.shown for each in HAZARDS.values())


# ---- figures ---------------------------------------------------------------------------------------------


def rows(done: float, steps: int, unused: int, guidance: int = 90) -> list[Row]:
    made: list[Row] = []
    for n in range(80):
        right = n % 10 < done * 10
        made.append(
            Row(0, n, list(KINDS)[n % 8], right, not right, False, steps, 3, 900, 400, unused, guidance)
        )
    return made


def test_the_end_of_the_stream_decides_the_goals() -> None:
    arms = {
        "with": Arm(rows(0.9, 2, 70), [1.0]),
        "without": Arm(rows(0.5, 3, 100)),
        "poisoned": Arm(rows(0.6, 3, 90), [1.0]),
    }
    figures = figures_of(arms, 10)
    against = figures["with"]["against_without"]
    assert against["success"]["difference"] == pytest.approx(0.4, abs=0.05)
    assert against["steps"]["difference"] == pytest.approx(-1 / 3, abs=1e-3)
    assert against["unused_context"] == {"difference": -0.3, "ci": [-0.3, -0.3]}
    assert missed(figures) == ["calls +0.0%"]
    assert figures["guidance_tokens_max"] == 90
    low, high = figures["with"]["ci"]
    assert low < figures["with"]["success"] < high
    assert "| with against without |" in table(figures)


def test_equal_arms_miss_the_goals() -> None:
    same = {arm: Arm(rows(0.5, 3, 100, 700), [0.5]) for arm in ("with", "without", "poisoned")}
    goals = missed(figures_of(same, 10))
    assert goals[:1] == ["success +0.0%"]
    assert "coverage 50%" in goals
    assert "guidance 700" in goals


@pytest.mark.night
def test_a_short_stream_runs_with_memory_and_without() -> None:
    figures = measure(1, 1, ("with", "without"), processes=1)
    assert figures["tasks"] == 8
    assert figures["with"]["tokens"] > 0
    assert figures["guidance_tokens_max"] <= learning.GOALS["guidance"]
    assert {"success", "steps", "unused_context", "ci"} <= figures["without"].keys()
