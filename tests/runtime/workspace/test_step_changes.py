"""What each step of a run changed in its folder, also while the run works."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lanes import until
from playing import ACCEPT, Play, bash, doing, plan, player, write

from kernel.asking.responder import Ask
from kernel.document.model import Step
from runtime.api.fractal import Fractal


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def play(work: Path) -> Play:
    return player(work)


def test_the_changes_of_each_step_are_known_also_in_a_loop_below(play: Play, work: Path) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.parent:
            return plan(write("a", "2\n"), write("b", "3\n", needs=[1]))
        return plan(write("a", "1\n"), {"subtask": "more", "needs": [1]})

    played = play(answers)
    run, (child,) = played.result.run, [key for key in played.documents if key.startswith("tool-")]

    def diff(n: int, loop: str) -> list[tuple[str, str]]:
        return [(each.path, each.diff) for each in played.fractal.diffs(run, n, loop=loop)]

    assert diff(1, played.result.id) == [("a", "@@ -0,0 +1 @@\n+1")]
    assert diff(1, child) == [("a", "@@ -1 +1 @@\n-1\n+2")]
    assert diff(2, child) == [("b", "@@ -0,0 +1 @@\n+3")]
    assert diff(9, child) == diff(1, "tool-none") == []


@pytest.mark.parametrize("worktree", [False, True], ids=["in the folder", "in a worktree"])
def test_the_changes_of_a_run_are_known_while_its_command_works(
    play: Play, work: Path, tmp_path: Path, worktree: bool
) -> None:
    go = tmp_path / "go"
    look = bash(f"while ! test -e {go}; do sleep 0.02; done; echo 2 > b", needs=[1])
    with ThreadPoolExecutor(1) as thread:
        playing = thread.submit(play, doing(write("a", "1\n"), look), worktree=worktree)
        try:
            fractal = Fractal(work)

            def works() -> bool:
                acts = _acted(fractal)
                return len(acts) >= 2 and "tree_before" in acts[-1].evidence

            until(works)
            assert [each.path for each in fractal.diffs()] == ["a"]
        finally:
            go.touch()
        played = playing.result()
    assert [each.path for each in played.fractal.diffs()] == ["a", "b"]


def _acted(fractal: Fractal) -> list[Step]:
    """The steps of the newest run, if it has begun."""
    runs = fractal.workspace.run_ids()
    return list(fractal.root_document(runs[0]).steps.values()) if runs else []
