"""Danger rules in runs: what waits for approval, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, Played, boxed, plan
from processes import fractal, run_folder

from kernel.asking.responder import Ask
from kernel.errors import Exit
from runtime.api.fractal import shipped_system
from runtime.workspace.deciders import TERMINAL

BOX = {"sandbox": "auto"}
HOME = {"tool": "bash", "args": {"command": "rm -rf ~; echo gone"}}
PUSH = {"tool": "bash", "args": {"command": "git push --force origin main; true"}}
ENV = {"tool": "bash", "args": {"command": "cat .env"}}
HARMLESS = {"tool": "bash", "args": {"command": "rm -rf build; echo built"}}


def answers(*steps: dict[str, Any], check: Any = ACCEPT, **more: Any) -> Callable[[Ask], Any]:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return check(ask) if callable(check) else check
        return plan(*steps, **more)

    return answer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disposable home directory."""
    folder = tmp_path / "home"
    (folder / ".config").mkdir(parents=True)
    (folder / "letters.txt").write_text("dear")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def dangers(played: Played) -> str:
    return "\n".join(played.root.steps[1].evidence["dangers"])


@boxed
def test_deleting_the_home_waits_for_approval_and_is_harmless_in_the_sandbox(play: Play, home: Path) -> None:
    played = play(answers(HOME), settings=BOX)
    assert (played.result.exit, played.result.waiting) == (Exit.WAITING, "approval")
    assert played.root.steps[1].state == "waiting"
    assert "danger: delete-everything" in dangers(played)
    assert "delete-everything" in (played.result.question or "")
    played.fractal.tell(played.result.run, "approve", by=TERMINAL)
    played = play(answers(HOME), settings=BOX, resume=played.result.run)
    assert played.result.exit == Exit.ACCEPTED
    assert "gone" in str(played.root.steps[1].result)
    assert (home / "letters.txt").read_text() == "dear"  # the sandbox has its own home


def test_rejected_step_fails_and_does_not_run(play: Play, home: Path) -> None:
    played = play(answers(HOME))
    played.fractal.tell(played.result.run, "reject", why="never")
    played = play(answers(HOME), resume=played.result.run)
    step = played.root.steps[1]
    assert (step.state, "never" in str(step.result)) == ("failed", True)
    assert (home / "letters.txt").exists()


def test_harmless_command_does_not_wait(play: Play) -> None:
    played = play(answers(HARMLESS))
    assert played.result.exit == Exit.ACCEPTED


@boxed
def test_yes_covers_a_danger_but_no_serious_one(play: Play, home: Path) -> None:
    waits = play(answers(PUSH), settings=BOX)
    assert (waits.result.waiting, "danger: force-push" in dangers(waits)) == ("approval", True)
    assert play(answers(PUSH), settings=BOX, yes=True).result.exit == Exit.ACCEPTED
    assert play(answers(HOME), settings=BOX, yes=True).result.exit == Exit.ACCEPTED  # the sandbox contains it
    for step, settings in ((HOME, {"sandbox": "off"}), (ENV, BOX)):
        played = play(answers(step), settings=settings, yes=True)
        assert (played.result.waiting, played.root.steps[1].state) == ("approval", "waiting")
        assert "serious: " in dangers(played)


@boxed
def test_deletion_inside_the_folder_does_not_wait_and_can_be_undone(play: Play, home: Path) -> None:
    notes = home.parent / "work" / "notes.txt"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("mine")
    played = play(
        answers({"tool": "bash", "args": {"command": "shred -u notes.txt; echo gone"}}), settings=BOX
    )
    assert (played.result.exit, notes.exists()) == (Exit.ACCEPTED, False)
    played.fractal.undo(played.result.run)
    assert notes.read_text() == "mine"


def test_dangerous_criterion_is_refused(play: Play, home: Path) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        bad = not ask.turn
        return plan(HARMLESS, success=[{"run": "rm -rf ~"}, {"judge": "x"}] if bad else [{"judge": "x"}])

    played = play(answer)
    refusals = [event.data["why"] for event in played.events if event.kind == "ask_refused"]
    assert any("delete-everything" in why and "only looks" in why for why in refusals)
    assert played.result.exit == Exit.ACCEPTED
    assert (home / "letters.txt").exists()


def test_look_at_secrets_is_refused(play: Play, home: Path) -> None:
    (home / ".netrc").write_text("password heliotrope")

    def check(ask: Ask) -> Any:
        look = {"look": {"tool": "read", "args": {"path": "~/.netrc"}}}
        return ACCEPT if ask.turn else look

    played = play(answers(HARMLESS, check=check))
    refusals = [event.data["why"] for event in played.events if event.kind == "ask_refused"]
    assert any("approval" in why for why in refusals)
    assert "heliotrope" not in str([event.data for event in played.events])


def test_step_of_a_child_waits(play: Play, home: Path) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        return plan(HOME) if ask.document.task == "the inner part" else plan({"subtask": "the inner part"})

    played = play(answer)
    assert (played.result.exit, played.result.waiting) == (Exit.WAITING, "approval")
    child = next(each for each in played.documents.values() if each.meta.depth == 1)
    assert child.steps[1].state == "waiting"
    assert "delete-everything" in "\n".join(child.steps[1].evidence["dangers"])
    assert (home / "letters.txt").exists()


def test_atomic_loop_waits(play: Play, home: Path) -> None:
    played = play(lambda ask: HOME, settings={"max_depth": 0})
    assert (played.result.exit, played.result.waiting) == (Exit.WAITING, "approval")
    assert "delete-everything" in (played.result.question or "")
    assert (home / "letters.txt").exists()


def test_file_operation_waits_like_a_command(play: Play, home: Path) -> None:
    step = {"tool": "read", "args": {"path": ".env"}}
    (home.parent / "work" / ".env").write_text("KEY=4711\n")
    played = play(answers(step))
    assert (played.result.waiting, "serious: credentials" in dangers(played)) == ("approval", True)


def test_workspace_switches_a_rule_off(play: Play, home: Path) -> None:
    system = home.parent / "work" / ".fractal" / "system"
    system.mkdir(parents=True)
    (system / "dangers.md").write_text("### credentials\n\n```yaml\nseverity: off\n```\n")
    (home.parent / "work" / ".env").write_text("KEY=4711\n")
    played = play(answers({"tool": "read", "args": {"path": ".env"}}))
    assert played.result.exit == Exit.ACCEPTED


def test_shipped_rules_apply_without_the_shipped_system(play: Play, home: Path) -> None:
    system = home.parent / "work" / ".fractal" / "system"
    shutil.copytree(shipped_system() / "kernel", system / "kernel")
    shutil.copyfile(shipped_system() / "pattern.md", system / "pattern.md")
    played = play(answers(HOME), settings={"shipped": False})
    assert "delete-everything" in dangers(played)


def test_danger_on_the_command_line(tmp_path: Path, home: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps([{"phase": "check", "reply": ACCEPT}, {"phase": "plan", "reply": plan(HOME)}])
    )
    ran = fractal(work, "run", "--model", f"scripted:{script}", "clean up")
    assert ran.returncode == Exit.WAITING == 6
    assert "delete-everything" in ran.stdout + ran.stderr
    run = run_folder(work).name
    again = fractal(work, "resume", run, "--yes")
    assert (again.returncode, (home / "letters.txt").exists()) == (Exit.WAITING, True)
    assert fractal(work, "reject", run, "no").returncode == 0
    fractal(work, "resume", run)
    assert (home / "letters.txt").exists()
    assert "reject" in next(run_folder(work).glob("system-*.md")).read_text()


FIRST = {"tool": "write", "args": {"path": "first.txt", "content": "x"}}
LATER = {"tool": "bash", "args": {"command": "sudo reboot"}}


def test_serious_step_is_approved_before_the_plan_starts(play: Play, home: Path) -> None:
    played = play(answers(FIRST, LATER))
    assert (played.result.exit, played.result.waiting) == (Exit.WAITING, "approval")
    assert "step 2" in (played.result.question or "") and "serious: privilege" in (
        played.result.question or ""
    )
    assert not (home.parent / "work" / "first.txt").exists()
    again = play(answers(FIRST, LATER), resume=played.result.run)
    assert (again.result.waiting, (home.parent / "work" / "first.txt").exists()) == ("approval", False)
    again.fractal.tell(played.result.run, "reject", why="never")
    ended = play(answers(FIRST, LATER), resume=played.result.run)
    assert (home.parent / "work" / "first.txt").exists()
    assert ended.root.steps[2].state == "failed"


def test_plan_lists_its_dangers(play: Play, home: Path) -> None:
    played = play(answers(FIRST, PUSH), plan_only=True)
    assert (played.result.waiting, played.result.question) == ("approval", "the plan")
    note = played.root.text(2, "dangers")
    assert note.startswith("step 2 (bash): danger: ")
    assert "git push --force origin main" in note


def test_danger_known_only_at_its_step_waits_there(play: Play, home: Path) -> None:
    hidden = {"tool": "read", "args": {"path": "{{ steps[1].result }}"}, "needs": [1]}
    played = play(answers({"tool": "bash", "args": {"command": "printf .env"}}, hidden))
    assert played.root.text(2, "dangers") == ""
    assert (played.result.waiting, played.root.steps[1].state) == ("approval", "done")
