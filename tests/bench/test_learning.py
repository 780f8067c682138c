"""The bench of learning: its tasks are real, its worker reads as a person might, its figures are sound."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import learning
from bench.apprentice.reader import HAZARDS, hear
from bench.apprentice.tasks import KINDS, Task, stream
from bench.apprentice.worker import Day, Worker
from bench.learning import Arm, Row, figures, measure, missed, table
from kernel.asking.responder import Ladder
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted

ONE = {task.kind: task for task in stream(7, 1)}


def shown(part: str, *lines: str) -> str:
    inside = "\n".join(f"- {line} (patterns/x.md)" for line in lines)
    return f"## Task\nx\n\n## Context from memory: {part}\n```\n{inside}\n```\n\n## Plan\ny"


# ---- tasks and the worker --------------------------------------------------------------------------------


def test_no_two_tasks_of_a_stream_are_the_same_and_a_seed_gives_the_same_stream() -> None:
    tasks = stream(1, 12)
    assert len({task.text for task in tasks}) == len(tasks) == 12 * len(KINDS)
    assert [task.text for task in stream(1, 12)] == [task.text for task in tasks]
    assert {task.text for task in stream(2, 12)} != {task.text for task in tasks}


def played(
    folder: Path, task: Task, draw: float, look: float = 0.99, notice: float = 0.99
) -> tuple[bool, Day]:
    """One task in the real runtime, with the worker's luck given."""
    worker = Worker(0)
    fractal = Fractal(
        folder, settings={**learning.SETTINGS, "recall": False}, ladder=Ladder((Scripted(worker),))
    )
    task.lay_out(folder)
    day = worker.begin(0, task)
    day.draw, day.look, day.notice = draw, look, notice
    result = asyncio.run(fractal.run(task.text, yes=True))
    return result.exit == 0 and task.right(folder), day


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_is_done_the_right_way_and_not_by_the_mistake(tmp_path: Path, kind: str) -> None:
    task = next(
        each for each in stream(3, 9) if each.kind == kind and (kind != "fix" or "n +" in str(each.bad))
    )
    for name in "ab":
        (tmp_path / name).mkdir()
    done, good = played(tmp_path / "a", task, draw=0.99)
    assert done
    done, bad = played(tmp_path / "b", task, draw=0.0)
    assert bad.mistaken
    if kind == "edit":  # its mistake is seen, and costs steps and calls
        assert done
        assert bad.calls > good.calls
    else:
        assert not done


def test_what_check_notices_is_mended_and_costs_calls(tmp_path: Path) -> None:
    done, day = played(tmp_path, ONE["ranking"], draw=0.0, notice=0.0)
    assert done
    assert day.calls == 4


def test_looking_around_costs_steps_and_context_that_no_step_used(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    _, straight = played(tmp_path / "a", ONE["errors"], draw=0.99)
    _, looked = played(tmp_path / "b", ONE["errors"], draw=0.99, look=0.5)
    assert looked.calls == straight.calls + 1
    assert looked.context[1] > 2 * straight.context[1]


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
def test_guidance_is_understood_in_several_wordings_and_so_is_its_opposite(
    kind: str, line: str, sign: int
) -> None:
    score = hear(shown("patterns", line), kind, ONE[kind].text).score
    assert (score > 0) - (score < 0) == sign


def test_what_stands_elsewhere_in_a_prompt_or_is_about_something_else_is_no_guidance() -> None:
    line = "Sort scores with the largest first."
    assert hear(f"## Task\n{line}\n\n## Context from folder\n```\n{line}\n```", "ranking", "x").score == 0
    other = hear(
        shown("patterns", "Water the plants with the largest leaves first."), "ranking", ONE["ranking"].text
    )
    assert other.score == 0


def test_a_solved_task_shows_the_way_to_one_like_it() -> None:
    good = ONE["ranking"]
    line = f'“{good.text}” was solved by: sort {{"path": "a", "order": "descending"}}'
    heard = hear(shown("similar tasks", line), "ranking", good.text)
    assert (heard.warned, heard.way_shown, len(heard.used)) == (True, True, 1)
    assert not hear(shown("similar tasks", line), "label", ONE["label"].text).way_shown


def test_every_mistake_has_a_known_rate_and_words_for_and_against() -> None:
    assert set(HAZARDS) == set(KINDS)
    assert all(0 < each.rate < 1 and each.right and each.wrong and each.shown for each in HAZARDS.values())


# ---- figures ---------------------------------------------------------------------------------------------


def rows(done: float, steps: int, unused: int, guidance: int = 90) -> list[Row]:
    made: list[Row] = []
    for n in range(80):
        fine = n % 10 < done * 10
        made.append(
            Row(0, n, list(KINDS)[n % 8], fine, not fine, False, steps, 3, 900, 400, unused, guidance)
        )
    return made


def test_goals_are_judged_by_the_end_of_the_stream() -> None:
    arms = {
        "with": Arm(rows(0.9, 2, 70), [1.0]),
        "without": Arm(rows(0.5, 3, 100)),
        "poisoned": Arm(rows(0.6, 3, 90), [1.0]),
    }
    told = figures(arms, 10)
    against = told["with"]["against_without"]
    assert against["success"]["difference"] == pytest.approx(0.4, abs=0.05)
    assert against["steps"]["difference"] == pytest.approx(-1 / 3, abs=1e-3)
    assert against["unused_context"] == {"difference": -0.3, "ci": [-0.3, -0.3]}
    assert missed(told) == ["calls +0.0%"]
    assert told["guidance_tokens_max"] == 90
    low, high = told["with"]["ci"]
    assert low < told["with"]["success"] < high
    assert "| with against without |" in table(told)


def test_a_bench_that_brings_nothing_says_so() -> None:
    same = {arm: Arm(rows(0.5, 3, 100, 700), [0.5]) for arm in ("with", "without", "poisoned")}
    short = missed(figures(same, 10))
    assert short[:1] == ["success +0.0%"]
    assert "coverage 50%" in short
    assert "guidance 700" in short


def test_a_short_stream_runs_through_the_whole_runtime_with_memory_and_without() -> None:
    told = measure(1, 1, ("with", "without"), processes=1)
    assert told["tasks"] == 8
    assert told["with"]["tokens"] > 0
    assert told["guidance_tokens_max"] <= learning.GOALS["guidance"]
    assert {"success", "steps", "unused_context", "ci"} <= told["without"].keys()
