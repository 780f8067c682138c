"""`fractal context`, `fractal learn trial` and `fractal learn agents`, as whole processes."""

from __future__ import annotations

import json

import pytest
from command_line import Command

from kernel.errors import Exit

TASK = "find the best region in sales.csv and write it to best.txt"
SCRIPT = {
    "fused": {
        "task": TASK,
        "context": [],
        "approach": "look",
        "confidence": "high",
        "steps": [
            {"tool": "read", "args": {"path": "sales.csv"}},
            {"tool": "write", "args": {"path": "best.txt", "content": "north"}},
        ],
        "success": [{"file": "best.txt"}],
    },
    "check": {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "north"},
}
LEXICAL = {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_SANDBOX": "off"}


@pytest.fixture
def worked(fractal: Command) -> Command:
    (fractal.folder / "sales.csv").write_text("region,amount\nnorth,3\n")
    ran = fractal("run", "--model", fractal.script("s.yaml", SCRIPT), TASK, env=LEXICAL)
    assert ran.exit == 0, ran
    return fractal


def test_an_empty_memory_is_reported_and_creates_nothing(fractal: Command) -> None:
    ran = fractal("context", "sort", "the", "names")
    assert (ran.exit, ran.out) == (0, "")
    assert "memory has nothing for that task" in ran.err
    context = json.loads(fractal("context", "sort the names", "--json").out)
    assert (context["tokens"], context["room"], context["level"]) == (0, 1500, 3000)
    assert not (fractal.folder / ".fractal" / "state" / "memory").exists()


def test_offered_context_is_listed_with_its_sources_and_reasons(worked: Command) -> None:
    like = "find the worst region in sales.csv and write it to best.txt"
    ran = worked("context", like, env=LEXICAL)
    assert ran.exit == 0, ran
    assert "facts and files that the task needs: " in ran.out
    assert "- sales.csv 22 (used by run" in ran.out
    assert "    why: used in 1 of the 1 tasks most like it that went well" in ran.out
    assert "what earlier runs taught: nothing (25%)" in ran.out
    assert f"- “{TASK}” was solved by: read" in ran.out
    context = json.loads(worked("context", like, "--json", env=LEXICAL).out)
    assert [part["share"] for part in context["parts"].values()] == [0.4, 0.25, 0.2, 0.15]
    assert context["tokens"] == sum(part["tokens"] for part in context["parts"].values()) <= context["room"]


def test_with_less_room_less_is_shown_and_what_is_left_out_is_counted(worked: Command) -> None:
    ran = worked("context", TASK, "--room", "100", env=LEXICAL)
    assert ran.exit == 0
    assert "more did not fit)" in ran.out
    assert worked("context", TASK, "--room", "-1").exit == Exit.USAGE


def test_agents_are_listed_with_what_they_did(worked: Command) -> None:
    ran = worked("learn", "agents", env=LEXICAL)
    assert ran.exit == 0, ran
    assert [line.split()[:2] for line in ran.out.splitlines()] == [["AGENT", "SPACE"], ["default", "default"]]
    report = json.loads(worked("learn", "agents", "--json", env=LEXICAL).out)
    (known,) = report["agents"]
    (record,) = known["by_type"].values()
    assert (record["samples"], record["score"]) == (1, 0.5)
    assert report["active"] == []


def test_a_trial_is_listed_and_what_cannot_be_tried_says_why(fractal: Command) -> None:
    ran = fractal("learn", "trial")
    assert (ran.exit, "no trials yet" in ran.err) == (0, True)
    assert json.loads(fractal("learn", "trial", "--json").out) == []
    ran = fractal("learn", "trial", "no-such-thing")
    assert ran.exit != 0
    assert "a trial needs a model" in ran.err or "no learned pattern" in ran.err
