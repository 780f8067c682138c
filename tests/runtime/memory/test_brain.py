from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playing import REVERSE as PLAN

from kernel.store.files import FileStore
from runtime.api.fractal import Fractal, RunResult
from runtime.memory.brain import Brain
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import ProblemType

TASK = PLAN["task"]
OTHER = "Mirror the lines of notes.md into back.md unless it exists"
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "written"}
AT = "2025-03-01T00:00:00Z"


class Crash(BaseException):
    """What a process that is killed does not come back from."""


class Crashing(Brain):
    """One that dies when it comes to what came of a decision."""

    def _settle(self, decision: str, good: bool, judge: str) -> None:
        raise Crash


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.md").write_text("one\ntwo\n")
    return folder


def fractal(work: Path, plan: Mapping[str, Any] = PLAN, **settings: Any) -> Fractal:
    place = work.parent / "script.json"
    place.write_text(json.dumps({"plan": plan, "check": ACCEPT}))
    values = {"sandbox": "off", "embedder": "lexical", "model": f"scripted:{place}", **settings}
    return Fractal(work, settings=values)


def run(made: Fractal, task: str = TASK) -> RunResult:
    (made.workspace.folder / "back.md").unlink(missing_ok=True)
    try:
        return asyncio.run(made.run(task))
    finally:
        made.brain.close()


def test_a_crash_leaves_all_of_what_a_run_taught_or_nothing(work: Path) -> None:
    made = fractal(work, remember=False)
    result = run(made)
    documents = [FileStore(made.workspace.runs / result.run).peek(result.id)]
    brain = fractal(work).brain
    with pytest.raises(Crash):
        Crashing(brain.settings).end(documents, AT)
    assert not brain.shelf.count(Decision) and brain.empty
    brain.end(documents, AT)
    (decision,) = brain.shelf.scan(Decision)
    assert decision.outcome is True and not brain.empty
    brain.end(documents, "2025-03-02T00:00:00Z")
    assert [decision] == list(brain.shelf.scan(Decision)), "the same documents again change nothing"
    brain.close()


def test_what_a_type_was_used_for_is_taken_back_with_the_decision(work: Path) -> None:
    run(fractal(work))
    made = fractal(work, {**PLAN, "task": OTHER}, remember=False)
    result = run(made, OTHER)
    documents = [FileStore(made.workspace.runs / result.run).peek(result.id)]
    settings = fractal(work).brain.settings
    crashing, sound = Crashing(settings), Brain(settings)
    for brain in (crashing, sound):
        brain.recognise(OTHER)  # as it is before a model is asked
    with pytest.raises(Crash):
        crashing.end(documents, AT)
    crashing.close()
    assert _uses(sound) == 0
    sound.end(documents, AT)
    assert _uses(sound) == 1
    sound.close()


def _uses(brain: Brain) -> int:
    return sum(each.uses for each in brain.shelf.scan(ProblemType))


def test_why_nothing_was_replayed_is_known_of_a_task_that_a_model_read_in_its_own_words(work: Path) -> None:
    run(fractal(work))
    read = {**PLAN, "task": "Copy the lines of notes.md in reverse order, only where back.md is missing"}
    result = run(fractal(work, read), OTHER)
    brain = fractal(work).brain
    (decision,) = brain.shelf.scan(Decision, {"run": result.run})
    assert (decision.path, decision.text) == ("novel", OTHER)
    assert decision.candidates == 1 and decision.why and decision.near
    assert brain.shelf.count(NeuronTree) == 2
    brain.close()


def replayed(work: Path, run: str) -> RunResult:
    (work / "back.md").unlink(missing_ok=True)
    made = Fractal(work, settings={"sandbox": "off", "embedder": "lexical"})
    try:
        return asyncio.run(made.replay(run))
    finally:
        made.brain.close()


def test_a_run_that_memory_did_is_replayed_by_memory(work: Path) -> None:
    run(fractal(work))
    again = run(fractal(work))
    assert again.spent["calls"] == 0
    result = replayed(work, again.run)
    assert (result.status, result.output) == ("complete", again.output)
    assert (work / "back.md").read_text() == "one\ntwo\n"
    assert {each["rung"] for each in FileStore(result.path.parent).peek(result.id).meta.rungs} == {"memory"}


def test_what_memory_planned_and_a_model_checked_is_replayed_by_both(work: Path) -> None:
    judged = {**PLAN, "success": [{"judge": "the lines are all there"}]}
    run(fractal(work, judged))
    again = run(fractal(work, judged))
    assert again.spent["calls"] == 1
    result = replayed(work, again.run)
    assert (result.status, result.output) == ("unverified", again.output)


def test_what_a_model_planned_is_replayed_from_its_log_whatever_memory_has_learned(work: Path) -> None:
    first = run(fractal(work))
    result = replayed(work, first.run)
    rungs = FileStore(result.path.parent).peek(result.id).meta.rungs
    assert result.exit == 0 and "memory" not in {each["rung"] for each in rungs}


def test_a_run_of_reflexes_is_replayed_without_a_log(work: Path) -> None:
    first = run(fractal(work), "what is 2 + 2")
    result = replayed(work, first.run)
    assert (result.status, result.output) == ("complete", first.output)


def test_what_a_model_is_asked_is_recognised_whatever_it_is_shown(work: Path) -> None:
    run(fractal(work))
    result = run(fractal(work, {**PLAN, "task": OTHER}), OTHER)
    brain = fractal(work).brain
    (decision,) = brain.shelf.scan(Decision, {"run": result.run})
    assert decision.path == "novel" and decision.type and decision.recognition != "novel"
    assert _uses(brain) == 1
    brain.close()
