"""The fixture `fractal_replay` in tests of a program that uses Fractal.

Nothing runs in this process: pytester removes modules that are imported meanwhile, and other tests need them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TASK = "write into answer.txt what one thinks of notes.txt"
PLAN = {
    "task": "Say how many",
    "approach": "write it",
    "confidence": "high",
    "steps": [{"tool": "write", "args": {"path": "answer.txt", "content": "three\n"}}],
    "success": [{"file": "answer.txt", "has": "three"}],
}
TEST = f"""
import asyncio

def test_answer(fractal_replay, tmp_path):
    (tmp_path / "notes.txt").write_text("a b c")
    result = asyncio.run(fractal_replay("answers").run("{TASK}"))
    assert result.output.startswith("wrote answer.txt")
    assert (tmp_path / "answer.txt").read_text() == "three\\n"
"""
TWICE = """
import asyncio

def test_twice(fractal_replay):
    fractal = fractal_replay("answers")
    asyncio.run(fractal.run("write into answer.txt what one thinks of bread"))
    asyncio.run(fractal.run("put a nice word for the baker into answer.txt"))
"""


@pytest.fixture
def script(pytester: pytest.Pytester) -> Path:
    """A script that answers as often as it is asked."""
    path = pytester.path / "script.json"
    path.write_text(json.dumps({"fused": PLAN}), "utf-8")
    return path


def test_recorded_test_passes_without_the_model(pytester: pytest.Pytester, script: Path) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess("--fractal-record", f"scripted:{script}").assert_outcomes(passed=1)
    script.unlink()
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.night
def test_failed_test_keeps_the_recording_that_was_there(pytester: pytest.Pytester, script: Path) -> None:
    log = pytester.mkdir("answers") / "calls.jsonl"
    log.write_text("good", "utf-8")
    pytester.makepyfile(f"{TEST}    assert False\n")
    pytester.runpytest_subprocess("--fractal-record", f"scripted:{script}").assert_outcomes(failed=1)
    assert log.read_text("utf-8") == "good"


@pytest.mark.night
def test_recording_that_is_not_strict_accepts_other_files(pytester: pytest.Pytester, script: Path) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess("--fractal-record", f"scripted:{script}").assert_outcomes(passed=1)
    pytester.makepyfile(TEST.replace("a b c", "d").replace('"answers"', '"answers", strict=False'))
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.night
def test_request_without_a_reply_fails_and_is_named(pytester: pytest.Pytester, script: Path) -> None:
    folder = pytester.mkdir("work")
    (folder / "notes.txt").write_text("a b c", "utf-8")
    pytester.run(sys.executable, "-m", "fractal", "-C", folder, "run", "--model", f"scripted:{script}", TASK)
    (run,) = folder.glob(".fractal/state/runs/*")
    shutil.copytree(run, pytester.path / "answers")
    changed = TEST.replace("a b c", "something else")
    tests = {
        "same": TEST,
        "changed": changed,
        "allowed": changed.replace('"answers"', '"answers", strict=False'),
        "other": TEST.replace('"answers"', '"answers", check="always"'),
        "missing": TEST.replace('"answers"', '"missing"'),
    }
    pytester.makepyfile("".join(text.replace("_answer", f"_{name}") for name, text in tests.items()))
    ran = pytester.runpytest_subprocess("-rA")
    ran.assert_outcomes(passed=2, failed=3)
    ran.stdout.fnmatch_lines_random(
        [
            "PASSED *::test_same",
            "PASSED *::test_allowed",
            "*the request in turn of system *differs from the recorded one; record the run again",
            "*the recorded run had no reply to check of system*",
            "*missing/calls.jsonl: there is no such recording; make it with: pytest --fractal-record MODEL",
        ]
    )


@pytest.mark.night
def test_test_with_several_runs_is_not_recorded(pytester: pytest.Pytester, script: Path) -> None:
    pytester.makepyfile(TWICE)
    ran = pytester.runpytest_subprocess("--fractal-record", f"scripted:{script}")
    ran.assert_outcomes(passed=1, errors=1)
    ran.stdout.fnmatch_lines(["*a recording has one run that asks a model, and this test had 2"])
    assert not (pytester.path / "answers").exists()
