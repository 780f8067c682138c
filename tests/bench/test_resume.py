"""A run that dies anywhere can be resumed: a sample of the points, and whether the benchmark finds faults."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lanes import NIGHT, chance

from bench import resume
from bench.crash.campaign import Ground, points_of, prepared, try_all
from bench.crash.trial import FAULTS, Death, Point

KILLS, POINTS = (30, 72) if NIGHT else (0, 5)
DEADLY = {"SIGKILL", "open", "write", "fsync", "replace", "mkdir", "unlink", "link", "ftruncate"}
RUN = ".fractal/state/runs/*"
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.night,  # by day tests/e2e and the promises kill and resume
    pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed"),
]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with prepared(resume.sandbox(), 2 if NIGHT else 1) as ground:  # by day the other core runs other tests
        yield ground


@pytest.mark.night
def test_nothing_is_lost_and_nothing_is_repeated(ground: Ground) -> None:
    points = points_of(ground, chance(1), kills=KILLS, most=POINTS)
    outcomes = try_all(ground, points, lambda *_: None)
    assert [each for each in outcomes if not each.good] == []
    died = {call.partition(" ")[0] for each in outcomes for call in each.died}
    assert not NIGHT or died >= DEADLY
    assert len(outcomes) >= KILLS + POINTS
    assert sum(bool(each.died) for each in outcomes) > 0.9 * len(outcomes)


def twice(path: Path) -> int:
    return path.write_bytes(path.read_bytes() * 2)


def forget_replies(path: Path) -> None:
    """Like a runtime that records asks and no replies."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line)["kind"] == "asked"))


@pytest.mark.parametrize(
    ("fault", "pattern", "how"),
    [
        ("repeated_calls", f"{RUN}/calls.jsonl", forget_replies),
        pytest.param("repeated_steps", "ledger/root1.txt", twice, marks=pytest.mark.night),
        pytest.param(
            "unreadable",
            f"{RUN}/tool-task-*-5.md",
            lambda path: path.write_text("no document"),
            marks=pytest.mark.night,
        ),
        pytest.param(
            "temporary_files",
            "parts",
            lambda path: (path / ".a.txt.0123abcd.tmp").write_text("half"),
            marks=pytest.mark.night,
        ),
        pytest.param(
            "ledger_broken", f"{RUN}/calls.jsonl", lambda path: path.write_text(""), marks=pytest.mark.night
        ),
        pytest.param("different_result", "config.txt", Path.unlink, marks=pytest.mark.night),
    ],
)
def test_the_benchmark_finds_faults(
    ground: Ground, fault: str, pattern: str, how: Callable[[Path], object]
) -> None:
    """A file is changed after a death at the moment when only the last reply is on disk.

    Parallel steps may save the root once more or less often than in the undisturbed run.
    """
    saved = r"open .*/\.system-"
    saves = sum(bool(re.match(saved, call)) for call in ground.goal.calls["resume"])
    for at in (saves, saves - 1, saves + 1):
        point = Point(f"meddle-{fault}-{at}", "resume", Death(at, match=saved))
        outcome = ground.attempt(point, meddle=lambda work: [how(path) for path in work.glob(pattern)])
        if outcome.died and getattr(outcome, fault):
            break
    assert getattr(outcome, fault), outcome


@pytest.mark.night
def test_the_figures_are_printed_and_the_page_is_written(
    ground: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    resume.main(True, points=2, kills=1, report=page, ground=ground)
    out, err = capsys.readouterr()
    assert "goal missed" not in err
    figures = json.loads(out)
    assert figures["points"] == figures["finished"] == 3
    assert [figures[name] for name in FAULTS] == [0] * len(FAULTS)
    assert sum(row["points"] for row in figures["by_kind"].values()) == 3
    assert "| **all** | 3 | 3 | 0 | 0 | 0 | 0 | 0 | 0 |" in page.read_text()
