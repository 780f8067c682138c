"""`fractal review`, `nudge`, `veto`, `decisions`: what waits, who decides, and what was decided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ACCEPT, PLAN, Command

WRITE = {"tool": "write", "args": {"path": "notes.txt", "content": "the slow brown fox\njumps\n"}}


@pytest.fixture
def run(fractal: Command) -> str:
    """A run whose plan is uncertain, and that oversight leaves to a human."""
    plan = PLAN | {"steps": [WRITE], "success": [{"judge": "done"}], "confidence": "low"}
    worker = fractal.script("m.yaml", {"fused": plan, "plan": plan, "check": ACCEPT})
    passes = {"decision": "pass", "why": "is the fox slow?"}
    above = fractal.script("o.yaml", {"review": passes})
    settings = {
        "ladder": [
            {"model": worker},
            {"model": above, "tier": "oversight"},
            {"model": "person"},
        ]
    }
    (fractal.folder / "fractal.yaml").write_text(json.dumps(settings))
    assert fractal("run", "frobnicate the notes").exit == 6
    return json.loads(fractal("ls", "--json").out)[0]["run"]


def test_review_shows_the_plan_the_diff_and_what_oversight_said(fractal: Command, run: str) -> None:
    shown = fractal("review")
    assert f"{run}  " in shown.out and "it waits because its confidence is low" in shown.out
    assert 'oversight: pass by oversight "scripted:o.yaml": is the fox slow?' in shown.out
    assert "-the quick brown fox\n+the slow brown fox" in shown.out
    assert f"fractal approve {run} or fractal nudge {run} …" in shown.err
    (listed,) = json.loads(fractal("review", run, "--json").out)
    assert (listed["kind"], listed["changes"][0]["path"]) == ("plan", "notes.txt")


def test_nudge_plans_again_and_veto_ends_it_and_both_are_in_the_log(fractal: Command, run: str) -> None:
    assert fractal("nudge", run, "keep", "the", "fox", "quick", "--resume").exit == 6
    assert fractal("veto", run, "leave", "it", "--resume").exit != 0
    log = json.loads(fractal("decisions", "--json").out)["decisions"]
    assert [(each["human"]["type"], each["human"]["text"], each["outcome"]) for each in log] == [
        ("nudge", "keep the fox quick", "cancelled"),
        ("veto", "leave it", "cancelled"),
    ]
    table = fractal("decisions").out
    assert "nudge by command without terminal: keep the fox quick" in table
    assert fractal("review").err.strip() == "nothing waits for a decision"
    assert "quick" in (fractal.folder / "notes.txt").read_text()


def test_what_is_missing_is_said(fractal: Command) -> None:
    assert fractal("decisions").err.strip() == "nothing had to be decided yet"
    assert "no run is waiting for approval" in fractal("nudge", "do", "it").err
    assert (
        "has approved no calls in tasks of the type git" in fractal("decisions", "--review-again", "git").err
    )
    assert not (fractal.folder / ".fractal" / "state" / "messages").exists()


def test_the_log_of_a_folder_without_a_state_is_empty(tmp_path: Path) -> None:
    assert json.loads(Command(tmp_path)("decisions", "--json").out) == {"decisions": [], "settled": []}
