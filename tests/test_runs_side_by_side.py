"""Two runs at once in worktrees: neither overwrites the other, and nothing is applied by halves."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playing import bash, doing

from kernel.asking.responder import Ladder
from kernel.errors import Exit, UsageError
from runtime.api.fractal import Fractal, RunResult
from runtime.models.scripted import Scripted


@pytest.fixture(params=["repository", "folder"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "shared.txt").write_text("".join(f"line {n}\n" for n in range(9)))
    if request.param == "repository":
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"]):
            subprocess.run([*git, *words], cwd=folder, check=True)
    return folder


def side_by_side(work: Path, *commands: str) -> tuple[Fractal, list[RunResult]]:
    def run(command: str) -> Any:
        ladder = Ladder((Scripted(doing(bash(command))),))
        return Fractal(work, settings={"sandbox": "off"}, ladder=ladder).run("work", yes=True, worktree=True)

    async def all_of_them() -> list[RunResult]:
        return await asyncio.gather(*map(run, commands))

    results = asyncio.run(all_of_them())
    assert {result.exit for result in results} == {Exit.ACCEPTED}
    return Fractal(work), results


def test_first_applies_and_second_is_merged(work: Path) -> None:
    was = (work / "shared.txt").read_text()
    wait = "touch here; sleep 0.2"
    fractal, (one, two) = side_by_side(
        work, f"{wait}; sed -i s/0/zero/ shared.txt", f"{wait}; sed -i s/8/eight/ shared.txt"
    )
    assert (work / "shared.txt").read_text() == was and not (work / "here").exists()
    assert [one.to_apply, two.to_apply] == [2, 2]
    assert fractal.apply(one.run) == ["new here", "changed shared.txt"]
    assert fractal.apply(two.run) == ["new here", "changed shared.txt (merged with your changes)"]
    assert (work / "shared.txt").read_text() == was.replace("0", "zero").replace("8", "eight")
    fractal.undo(two.run)
    assert (work / "shared.txt").read_text() == was.replace("0", "zero")
    fractal.undo(one.run)
    assert (work / "shared.txt").read_text() == was and not (work / "here").exists()


def test_second_reports_a_conflict_and_writes_nothing(work: Path) -> None:
    fractal, (one, two) = side_by_side(
        work, "sed -i s/4/four/ shared.txt", "touch other; sed -i s/4/vier/ shared.txt"
    )
    fractal.apply(one.run)
    after_first = (work / "shared.txt").read_text()
    with pytest.raises(UsageError, match=r"nothing was applied:\n  shared\.txt: you changed it, and the run"):
        fractal.apply(two.run)
    assert (work / "shared.txt").read_text() == after_first and not (work / "other").exists()
    assert [each.to_apply for each in fractal.runs([one.run, two.run])] == [0, 2], "both are kept"
    fractal.apply(two.run, force=True)
    assert "vier" in (work / "shared.txt").read_text() and (work / "other").exists()
    fractal.undo(two.run)
    assert (work / "shared.txt").read_text() == after_first
