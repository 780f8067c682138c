"""A run by turns that was complete becomes a procedure, and its replay costs nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from playing import boxed

from runtime.api.fractal import Fractal, RunResult
from runtime.memory.tasks.trees import NeuronTree


def call(tool: str, /, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


BROKEN = "def add(a, b):\n    return a - b\n"
TASK = "add in sums.py subtracts; fix it"
FIX = call("edit", path="sums.py", old="a - b", new="a + b")
ADDS = "python3 -B -c 'import sums; assert sums.add(2, 3) == 5'"
HALF = call("edit", path="sums.py", old="a - b", new="a * b")
REST = call("edit", path="sums.py", old="a * b", new="a + b")
WRONG = call("edit", path="sums.py", old="nowhere", new="a + b")
COUNT = {"what": "lines", "path": "sums.py", "format": "total"}
LOOK = call("read", path="sums.py")
TEST = call("bash", command=ADDS)
DONE = call("done", answer="It adds now.", checks=[ADDS])
Turns = Sequence[Sequence[Any]]
Do = Callable[..., RunResult]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def do(work: Path) -> Do:
    """A run of a process of its own, from the same files each time; the model takes these turns."""

    def run(*turns: Sequence[Any], task: str = TASK, text: str = BROKEN, **settings: Any) -> RunResult:
        (work / "sums.py").write_text(text)
        place = work.parent / "script.json"
        place.write_text(json.dumps([{"calls": each} for each in turns]))
        values = {
            "embedder": "lexical",
            "model": f"scripted:{place}",
            "check": "auto",
            "fsync": False,
            **settings,
        }
        fractal = Fractal(work, settings=values)
        try:
            return asyncio.run(fractal.run(task, reuse=False))
        finally:
            fractal.brain.close()

    return run


def learned(work: Path) -> list[NeuronTree]:
    fractal = Fractal(work, settings={"embedder": "lexical"})
    try:
        return list(fractal.brain.shelf.scan(NeuronTree))
    finally:
        fractal.brain.close()


def calls(result: RunResult) -> int:
    return int(result.spent["calls"])


def tools(work: Path) -> list[str]:
    """The tools of the only procedure that was learned."""
    (tree,) = learned(work)
    return [step["tool"] for step in tree.exemplar.steps]


# ---- what a check shows -----------------------------------------------------------------------------------


@boxed
@pytest.mark.parametrize(
    ("turns", "kept"),
    [
        pytest.param([[FIX, DONE]], ["edit"], id="one turn"),
        pytest.param([[LOOK], [FIX, DONE]], ["read", "edit"], id="a look before"),
        pytest.param([[WRONG, DONE], [FIX, call("done")]], ["edit"], id="an edit that failed"),
        pytest.param([[TEST], [FIX, DONE]], ["edit"], id="a command that failed"),
        pytest.param([[call("nope")], [FIX, DONE]], ["edit"], id="a faulty call"),
        pytest.param([[call("use", tool="calc")], [FIX, DONE]], ["edit"], id="guidance of a tool"),
        pytest.param(
            [[HALF, DONE], [REST, call("done")]], ["edit", "edit"], id="an answer that was held back"
        ),
        pytest.param(
            [[FIX, call("done", answer="ok", checks=[ADDS], keep=["true"])]], ["edit"], id="what is kept"
        ),
    ],
)
def test_a_run_whose_check_failed_before_is_repeated_for_nothing(
    work: Path, do: Do, turns: Turns, kept: list[str]
) -> None:
    assert do(*turns).status == "complete"
    assert tools(work) == kept
    again = do()
    assert (again.status, calls(again)) == ("complete", 0)
    assert (work / "sums.py").read_text() == BROKEN.replace("-", "+")


@boxed
def test_a_try_that_changed_something_and_failed_is_no_part_of_a_procedure(work: Path, do: Do) -> None:
    half = call("bash", command="sed -i 's/a - b/a * b/' sums.py; false")
    assert do([half, DONE], [REST, call("done")]).status == "complete"
    assert learned(work) == [], "without it, the rest may not fit"


@boxed
def test_what_is_not_as_it_was_goes_to_the_model(work: Path, do: Do) -> None:
    do([FIX, DONE])
    again = do(
        [call("edit", path="sums.py", old="a + 1", new="a + b"), DONE], text=BROKEN.replace("- b", "+ 1")
    )
    assert (again.status, calls(again)) == ("complete", 1)


# ---- what looks show --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "look",
    [call("bash", command="grep -c def sums.py"), call("use", tool="count", args=COUNT)],
    ids=["bash", "use"],
)
def test_a_question_that_looks_have_answered_is_answered_anew_for_nothing(
    work: Path, do: Do, look: Any
) -> None:
    asked = "how many functions has sums.py?"
    first = do([look], [call("done", answer="1")], task=asked, text="def add(a, b): return a - b\n")
    assert (first.status, first.output) == ("complete", "1")
    again = do(task=asked, text="def add(a, b): return a + b\ndef sub(a, b): return a - b\n")
    assert (again.status, calls(again), again.output) == ("complete", 0, "2")


# ---- what prompts are told --------------------------------------------------------------------------------


@boxed
def test_a_check_that_held_an_answer_back_is_told_as_the_failure(work: Path, do: Do) -> None:
    do([HALF, DONE], [REST, call("done")])
    fractal = Fractal(work, settings={"embedder": "lexical"})
    try:
        parts = fractal.memory.context("sub in sums.py adds; fix it", 1500, work).parts
    finally:
        fractal.brain.close()
    told = "\n".join(part.text for part in parts)
    assert "first `a * b` failed: AssertionError" in told
