"""Standard streams that are closed, or that take nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = f"{sys.executable} -m fractal"
COUNT = "run -q 'count the lines of f.txt'"
KEPT = "a run keeps its result: fractal show"
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f.txt").write_text("one\ntwo\n")
    return tmp_path / "work"


def shell(folder: Path, words: str, streams: str) -> tuple[int, str, str]:
    line = f"{RUN} {words} {streams}"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent), "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(["sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("streams", "code", "told"),
    [
        (">&-", 0, f"fractal: standard output is closed, so nothing was printed; {KEPT}\n"),
        (">&- 2>&-", 0, ""),
        (">/dev/full", 1, f"fractal: standard output cannot be written: no space left on device; {KEPT}\n"),
    ],
)
def test_a_result_that_cannot_be_printed_is_kept(folder: Path, streams: str, code: int, told: str) -> None:
    assert shell(folder, COUNT, streams) == (code, "", told)
    assert shell(folder, 'show --json | grep -c \'"status": "complete"\'', "")[1] == "1\n"


@pytest.mark.parametrize("streams", ["2>/dev/full", "<&- 2>&-"])
def test_other_streams_are_not_needed(folder: Path, streams: str) -> None:
    assert shell(folder, COUNT, streams)[:2] == (0, "2\n")


@pytest.mark.parametrize("words", ["show", "config", "show --raw"])
def test_what_reads_ends_without_a_traceback(folder: Path, words: str) -> None:
    assert shell(folder, COUNT, "")[1] == "2\n"
    code, _, told = shell(folder, words, ">/dev/full")
    assert code == 1 and KEPT in told and "rror" not in told
    code, _, told = shell(folder, words, ">&-")
    assert code == 0 and KEPT in told and "rror" not in told
