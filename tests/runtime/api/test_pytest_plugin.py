"""The fixture `fractal_replay` in tests of a program that uses Fractal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy  # noqa: F401 (cannot be imported again after pytester has removed it)
import pytest

import fractal.public  # noqa: F401 (saves importing it in every test)

pytest_plugins = ["pytester"]

SCRIPT = [
    {
        "task": "Say how many",
        "approach": "write it",
        "confidence": "high",
        "steps": [{"tool": "write", "args": {"path": "answer.txt", "content": "three\n"}}],
        "success": [{"file": "answer.txt", "has": "three"}],
    }
]
TEST = """
import asyncio

def test_answer(fractal_replay, tmp_path):
    (tmp_path / "notes.txt").write_text("a b c")
    fractal = fractal_replay("answers", seconds=60)
    result = asyncio.run(fractal.run("write into answer.txt what one thinks of notes.txt"))
    assert result.output.startswith("wrote answer.txt")
    assert (tmp_path / "answer.txt").read_text() == "three\\n"
"""
CHANGED = TEST.replace("a b c", "something else")


@pytest.fixture
def recorded(pytester: pytest.Pytester) -> pytest.Pytester:
    """A test whose run was recorded with a script, which is gone."""
    script = pytester.path / "script.json"
    script.write_text(json.dumps(SCRIPT), "utf-8")
    pytester.makepyfile(TEST)
    pytester.runpytest("--fractal-record", f"scripted:{script}").assert_outcomes(passed=1)
    script.unlink()
    return pytester


def test_recording_answers_in_another_folder_without_the_model(recorded: pytest.Pytester) -> None:
    shutil.rmtree(recorded.path / ".pytest_cache", ignore_errors=True)
    log = (recorded.path / "answers" / "calls.jsonl").read_text("utf-8")
    assert str(recorded.path) not in log.replace("scripted:", "")
    recorded.runpytest().assert_outcomes(passed=1)


def test_missing_recording_says_how_to_make_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    ran = pytester.runpytest()
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        ["*answers/calls.jsonl: there is no such recording; make it with: pytest --fractal-record*"]
    )


def test_changed_request_fails_and_names_its_place(recorded: pytest.Pytester) -> None:
    recorded.makepyfile(CHANGED)
    ran = recorded.runpytest()
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        ["*the request in fused of system*differs from the recorded one; record the run again*"]
    )


def test_request_that_was_never_recorded_fails(recorded: pytest.Pytester) -> None:
    recorded.makepyfile(TEST.replace("seconds=60", "seconds=60, fuse='never'"))
    ran = recorded.runpytest()
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*the recorded run had no reply to understand of system*"])


def test_changed_request_of_a_whole_run_may_be_allowed(recorded: pytest.Pytester) -> None:
    (run,) = recorded.path.parent.glob("**/.fractal/state/runs/*")
    shutil.copytree(run, recorded.path / "answers", dirs_exist_ok=True)
    recorded.makepyfile(CHANGED.replace("seconds=60", "seconds=60, strict=False"))
    recorded.runpytest().assert_outcomes(passed=1)


def test_test_with_several_runs_is_not_recorded(pytester: pytest.Pytester, tmp_path: Path) -> None:
    script = pytester.path / "script.json"
    script.write_text(json.dumps({"fused": SCRIPT[0]}), "utf-8")
    twice = TEST.replace(
        "    assert result", "    asyncio.run(fractal.run('write it again'))\n    assert result", 1
    )
    pytester.makepyfile(twice)
    ran = pytester.runpytest("--fractal-record", f"scripted:{script}")
    ran.assert_outcomes(passed=1, errors=1)
    ran.stdout.fnmatch_lines(["*a recording has one run that asks a model, and this test had 2"])
    assert not (pytester.path / "answers").exists()
