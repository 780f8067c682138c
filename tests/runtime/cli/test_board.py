"""Events become a tree that fits any terminal and shows what matters first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kernel.events import Event
from runtime.cli.live import Board, Tree
from runtime.cli.output import width

RUN = "7f3kq2"
ROOT = f"system-{RUN}"


class Play:
    """A board and a clock that tests turn by hand."""

    def __init__(self, task: str = "the task") -> None:
        self.now = 0.0
        self.board = Board(lambda: self.now)
        self("run_started", task=task, rungs=["reflex"])
        self("loop_started", task=task, depth=0)

    def __call__(
        self, kind: Any, loop: str = ROOT, parent: str = "", type: str = "task", **data: Any
    ) -> None:
        self.board.apply(Event(kind, RUN, loop, parent, "system", type, data))

    def child(self, n: int, task: str = "part", status: str = "") -> str:
        loop = f"tool-task-{RUN}-{n}"
        self("step_started", step=n, tool="subtask", args={"task": task})
        self("loop_started", loop, ROOT, task=task, depth=1)
        if status:
            self("loop_finished", loop, ROOT, status=status, spent={"prompt_tokens": 10, "usd": 0.01})
            self("step_finished", step=n, tool="subtask", state="done" if status == "complete" else "failed")
        return loop

    def lines(self, columns: int = 80, height: int = 24) -> list[str]:
        tree = Tree(self.board)
        return [tree.draw(row, columns).plain for row in tree.rows(height)]


def test_a_loop_shows_its_task_its_phase_and_who_is_asked() -> None:
    play = Play("count the words")
    play("phase_started", phase="plan", attempt=2)
    play("ask_started", phase="plan", step=0, rung="openai/gpt-5")
    (line,) = play.lines()
    assert "count the words" in line
    assert "planning, attempt 2 · openai/gpt-5" in line
    assert "UP··" in line


def test_a_loop_shows_its_turn_and_why_its_answer_was_held_back() -> None:
    play = Play("fix it")
    play("ask_started", phase="turn", step=1, rung="m")
    assert "working · m" in play.lines()[0]
    play("ask_finished", phase="turn", step=1, rung="m")
    play("phase_finished", phase="plan", gate="PROCEED", steps=[], approach="turn the sign")
    assert "working" in play.lines()[0], "its calls are made now"
    play("phase_finished", phase="check", gate="CONTINUE", turn=1, why="held back: check failed:\npytest")
    play("ask_started", phase="turn", step=2, rung="m")
    line, held = play.lines()
    assert "working, turn 2 · m" in line
    assert held.strip() == "held back: check failed: pytest"
    play("phase_finished", phase="do", gate="")
    assert len(play.lines()) == 1


def test_the_end_of_a_reply_in_progress_is_shown_until_it_is_complete() -> None:
    play = Play()
    play("ask_started", phase="plan", step=0, rung="openai/gpt-5")
    for piece in ('{"approach": "read\nit", "steps": [{"tool": ', '"read", "args": {"path": "日本.txt"}}'):
        play("reply_delta", phase="plan", step=0, rung="openai/gpt-5", text=piece)
    assert play.lines(60)[1] == '  …"steps": [{"tool": "read", "args": {"path": "日本.txt"}}'
    assert play.lines(30)[1] == '  …rgs": {"path": "日本.txt"}}'
    play("ask_finished", phase="plan", step=0, rung="openai/gpt-5", model="openai/gpt-5")
    assert len(play.lines()) == 1


def test_thinking_is_shown_dimmed_until_the_reply_begins() -> None:
    play = Play()
    play("ask_started", phase="plan", step=0, rung="openai/gpt-5")
    play("thinking_delta", phase="plan", step=0, rung="openai/gpt-5", text="Is it blue?\nIt may be.")
    assert play.lines(60)[1] == "  Is it blue? It may be."
    play("reply_delta", phase="plan", step=0, rung="openai/gpt-5", text="It is blue.")
    assert play.lines(60)[1] == "  It is blue."


def test_a_reply_that_does_not_come_is_waited_for_visibly() -> None:
    play = Play()
    play("ask_started", phase="plan", step=0, rung="openai/gpt-5")
    play.now = 2.0
    assert "openai/gpt-5 ·" not in play.lines()[0]
    play.now = 12.2
    assert "planning · openai/gpt-5 · 12 s" in play.lines(100)[0]
    play("reply_delta", phase="plan", step=0, rung="openai/gpt-5", text="{")
    assert "12 s" not in play.lines(100)[0]


def test_steps_stand_below_their_loop_in_order() -> None:
    play = Play()
    play("step_started", step=1, tool="read", args={"path": "a.txt"})
    play("step_finished", step=1, tool="read", state="done")
    play("step_started", step=2, tool="bash", args={"command": "make"})
    play("step_finished", step=2, tool="bash", state="failed")
    _, first, second = play.lines()
    assert first == "├─ ✓ read a.txt"
    assert second == "└─ ✗ bash make"


def test_a_child_takes_the_place_of_its_step_whichever_event_comes_first() -> None:
    early, late = Play(), Play()
    early.child(3, "part one")
    late("loop_started", f"tool-task-{RUN}-3", ROOT, task="part one", depth=1)
    late("step_started", step=3, tool="subtask", args={"task": "part one"})
    assert early.lines() == late.lines()
    assert "part one" in early.lines()[1]


def test_a_loop_counts_what_its_children_spent_once() -> None:
    play = Play()
    child = play.child(1)
    play(
        "ask_finished",
        phase="plan",
        rung="m",
        model="m",
        reused=False,
        prompt_tokens=100,
        completion_tokens=20,
    )
    play("ask_finished", child, ROOT, phase="plan", rung="m", reused=False, prompt_tokens=50, usd=0.5)
    play("ask_finished", child, ROOT, phase="check", rung="m", reused=True, prompt_tokens=7, usd=0.5)
    spent = play.board.spent(play.board.loops[ROOT])
    assert (spent["tokens"], spent["usd"]) == (170, 0.5)
    play("loop_finished", child, ROOT, status="complete", spent={"prompt_tokens": 60, "usd": 0.6})
    spent = play.board.spent(play.board.loops[ROOT])
    assert (spent["tokens"], spent["usd"]) == (180, 0.6)


def test_the_clock_of_a_loop_stops_when_it_ends() -> None:
    play = Play()
    play.now = 4.0
    play("loop_finished", status="complete", spent={})
    play.now = 60.0
    assert play.lines()[0].endswith("4.0s")


def test_a_resumed_loop_is_shown_though_its_start_was_missed() -> None:
    board = Board(lambda: 0.0)
    board.apply(Event("run_started", RUN, ROOT, data={"task": "the task"}))
    board.apply(Event("phase_started", RUN, f"tool-task-{RUN}-1", ROOT, "tool", "task", {"phase": "do"}))
    tree = Tree(board)
    assert [tree.draw(row, 80).plain.split("  ")[0] for row in tree.rows(20)][1].startswith("└─ ")


def test_of_fifty_children_that_are_done_a_few_stay_in_sight() -> None:
    play = Play()
    for n in range(1, 51):
        play.child(n, f"part {n}", "complete")
    lines = play.lines(height=24)
    assert "… 44 more done" in lines[1]
    assert "part 50" in lines[-1]


def test_what_went_wrong_and_what_is_at_work_stays_in_sight() -> None:
    play = Play()
    for n in range(1, 60):
        play.child(n, f"part {n}", "escalated" if n == 7 else "complete")
    play.child(60, "part 60")
    lines = "\n".join(play.lines(height=10))
    assert "part 7 " in lines and "escalated" in lines
    assert "part 60" in lines


@given(
    st.lists(st.sampled_from(["complete", "failed", "escalated", ""]), max_size=60),
    st.integers(3, 60),
    st.integers(20, 160),
    st.text(max_size=80),
)
def test_the_tree_fits_whatever_the_terminal_and_the_run(
    states: list[str], height: int, columns: int, task: str
) -> None:
    play = Play(task)
    for n, status in enumerate(states, 1):
        play.child(n, f"{task} {n}", status)
    lines = play.lines(columns, height)
    assert len(lines) <= height
    assert all(width(line) <= columns and "\n" not in line and "\x1b" not in line for line in lines)


@pytest.mark.parametrize("columns", [30, 45, 60, 80, 120])
def test_figures_end_at_the_right_edge_as_far_as_there_is_room(columns: int) -> None:
    play = Play("a task that is much longer than any terminal that one would want to look at it in" * 2)
    play("ask_finished", phase="plan", rung="m", reused=False, prompt_tokens=1200, usd=0.0123)
    (line,) = play.lines(columns)
    assert width(line) == columns
    assert ("1.2k" in line) == (columns >= 50)
    assert ("$0.0123" in line) == (columns >= 64)


def test_markup_and_escapes_in_a_task_are_only_text() -> None:
    play = Play("[bold red]x[/] \x1b[31my :smile:")
    console = Console(width=80, height=24, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(Tree(play.board))
    assert "[bold red]x[/] ␛[31my :smile:" in capture.get()


def test_parts_of_a_task_stay_in_sight_before_operations() -> None:
    play = Play()
    for n in (1, 2):
        play.child(n, f"part {n}", "complete")
    for n in range(3, 11):
        play("step_started", step=n, tool="write", args={"path": f"{n}.txt"})
        play("step_finished", step=n, tool="write", state="done")
    lines = play.lines(height=24)
    assert "part 1" in lines[1] and "part 2" in lines[2]
    assert "… 4 more done" in lines[3]


def test_the_time_that_a_person_took_to_answer_does_not_count() -> None:
    play = Play()
    play.now += 2
    play.board.skip(60)
    play.now += 61
    assert play.board.elapsed(play.board.loops[ROOT]) == 3
