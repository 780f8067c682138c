"""`fractal show --atif`: valid ATIF, with who answered, what steps gave, and the tree of loops."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from atif import Trajectory
from command_line import ACCEPT, ASKS, PLAN, REPOSITORY, RUN, WORKS, Command


def exported(fractal: Command, *name: str) -> dict[str, Any]:
    """What is printed, which the models of the format accept."""
    ran = fractal("show", *name, "--atif")
    assert ran.exit == 0, ran.err
    Trajectory.model_validate_json(ran.out)
    return json.loads(ran.out)


def test_run_of_a_model_has_its_calls_steps_and_costs(fractal: Command) -> None:
    fractal("run", "--model", fractal.script("script.yaml", WORKS), "note how many words there are")
    found = exported(fractal)
    task, plan, step, check, end = found["steps"]
    assert (task["source"], task["message"]) == ("user", "note how many words there are")
    assert (plan["message"], plan["llm_call_count"]) == ("turn: write the number", 1)
    (call,) = step["tool_calls"]
    assert (call["function_name"], call["arguments"]["path"]) == ("write", "words.txt")
    (result,) = step["observation"]["results"]
    assert (result["source_call_id"], result["extra"]) == (call["tool_call_id"], {"state": "done"})
    assert (check["message"], end["message"]) == ("check: ACCEPT", "five words")
    total = sum(each["metrics"]["prompt_tokens"] for each in (plan, check))
    assert found["final_metrics"]["total_prompt_tokens"] == total > 0
    assert found["extra"]["status"] == "complete"


def test_reflex_is_marked_by_zero_calls(fractal: Command) -> None:
    fractal("run", "what is 15% of 80?")
    steps = exported(fractal)["steps"]
    assert {each["llm_call_count"] for each in steps[1:]} == {0}
    assert not any("metrics" in each for each in steps)
    assert steps[1]["model_name"].startswith("reflex")


def test_question_and_answer_are_turns(fractal: Command) -> None:
    model = fractal.script("script.yaml", ASKS)
    assert fractal("run", "--model", model, "note how many words there are").exit == 6
    assert exported(fractal)["extra"]["status"] == "waiting"
    assert fractal("answer", "words.txt").exit == 0
    assert fractal("resume", env={"FRACTAL_MODEL": model}).exit == 0
    said = [(each["source"], each["message"]) for each in exported(fractal)["steps"][1:5]]
    asked, decided = ("agent", "turn"), ("agent", "turn: five words")
    assert said == [("agent", "Which file?"), ("user", "words.txt"), asked, decided]


def test_a_turn_comes_before_its_steps_and_after_it_why_its_answer_was_held_back(fractal: Command) -> None:
    look = {"tool": "read", "args": {"path": "nowhere.txt"}}
    first = {"text": "I look first.", "calls": [look], "done": "five words"}
    script = {"fused": first, "work": {"calls": PLAN["steps"], "done": ""}, "check": ACCEPT}
    fractal("run", "--model", fractal.script("script.yaml", script), "note how many words there are")
    steps = exported(fractal)["steps"]
    told = [each["message"] or each["tool_calls"][0]["function_name"] for each in steps[1:6]]
    assert told[:2] == ["turn: I look first.\nfive words", "read"]
    assert told[2].startswith("held back: a call of this turn failed") and steps[3]["source"] == "system"
    assert told[3:] == ["turn: five words", "write"]


def test_child_loops_are_trajectories_below_it(fractal: Command) -> None:
    shutil.copytree(REPOSITORY / "docs" / "example-run", fractal.folder / ".fractal/state/runs" / RUN)
    found = exported(fractal, RUN)
    children = [each["trajectory_id"] for each in found["subagent_trajectories"]]
    assert children == [f"tool-task-{RUN}-1", f"tool-task-{RUN}-2"]
    referred = [
        result["subagent_trajectory_ref"][0]["trajectory_id"]
        for step in found["steps"]
        for result in step.get("observation", {}).get("results", ())
    ]
    assert referred == children
    assert exported(fractal, children[0]) == found["subagent_trajectories"][0]


@pytest.mark.usefixtures("written")
def test_earlier_attempts_come_first_and_rungs_that_declined_are_left_out(fractal: Command) -> None:
    steps = exported(fractal, RUN)["steps"]
    calls = [each["tool_calls"][0]["function_name"] for each in steps if "tool_calls" in each]
    assert calls == ["bash", "subtask", "write"]
    assert "reflex" not in {each.get("model_name") for each in steps}
