"""What a check says of the start: of the folder as the run found it, and of tests that the run wrote."""

from __future__ import annotations

from typing import Any

from playing import ACCEPT, Play, Played, bash, plan, put, write

from kernel.asking.responder import Ask
from runtime.workspace.deciders import TERMINAL


def edited(played: Played, *changes: tuple[str, str]) -> None:
    """Change the root's document as a person would."""
    text = played.result.path.read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    played.result.path.write_text(text, "utf-8")


def test_a_new_test_that_fails_is_not_excused_by_the_start(play: Play, tmp_path: Any) -> None:
    """At the start its file is missing, and `unittest` fails for that alone."""
    work = tmp_path / "work"
    put(work, "calc.py", "one = 1\n")
    put(work, ".venv/pyvenv.cfg")
    put(work, ".venv/bin/python", '#!/bin/sh\nexec python3 "$@"\n').chmod(0o755)
    wrong = write("calc.py", "one = 1\ndef plus(a, b): return a - b\n")
    test = write(
        "test_calc.py",
        "import unittest, calc\nclass T(unittest.TestCase):\n"
        "    def test_plus(self): self.assertEqual(calc.plus(1, 2), 3)\n",
    )

    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return {"calls": [wrong, test]}
        return {"done": {"answer": "Added plus.", "checks": ["grep -q plus calc.py"]}}

    played = play(answer, "add a function plus to calc", settings={"check": "auto"})
    assert played.result.status != "complete"
    assert "AssertionError" in played.root.text(3, "not yet")


def test_the_user_is_told_that_earlier_tests_say_something_else(play: Play, tmp_path: Any) -> None:
    work = tmp_path / "work"
    head = "import unittest, calc\nclass T(unittest.TestCase):\n"
    first = "    def test_one(self): self.assertEqual(calc.one, 1)\n"
    put(work, "calc.py", "one = 1\n")
    put(work, "test_calc.py", head + first)
    put(work, "test_gone.py", head + first)

    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            calls = [write("calc.py", "one = 2\n"), write("test_calc.py", head + first.replace("1)", "2)"))]
            return {"calls": [*calls, bash("rm test_gone.py")]}
        return {"done": {"answer": "One is 2.", "checks": ["python3 -m unittest test_calc"]}}

    played = play(answer, "one in calc is to be 2", settings={"check": "auto"})
    told = "(lines of earlier tests that are changed or gone: 1 in test_calc.py, 3 in test_gone.py)"
    assert told in played.result.output


def test_what_a_failed_step_has_changed_is_not_how_it_was_at_the_start(play: Play, tmp_path: Any) -> None:
    put(tmp_path / "work", "keep.txt", "precious\n")
    verdicts = iter([{"validation": "fail", "issues": ["no"], "decision": "ESCALATE", "output": ""}])

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return next(verdicts, ACCEPT)
        return plan(bash("rm keep.txt; exit 1"), success=[{"judge": "ok"}])

    settings = {"check": "always"}
    played = play(answer, "create the file keep.txt", settings=settings)
    edited(
        played,
        (
            'planned bash `{"command": "rm keep.txt; exit 1"}`',
            'planned write `{"path": "keep.txt", "content": "again"}`',
        ),
        ('{"judge": "ok"}', '{"run": "test -f keep.txt"}'),
    )
    again = play(answer, settings=settings, resume=played.result.run)
    assert "fails now" not in again.root.text(2, "baseline")
    assert again.root.meta.unverified  # the check held at the start: it proves nothing


def test_what_a_step_beside_it_made_is_no_work_of_a_child(play: Play) -> None:
    """A child begins in the folder as its parent has left it, not as the run found it."""

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.depth:
            return plan(write("b.txt", "x"), success=[{"run": "test -f a.txt"}])
        return plan(write("a.txt", "1"), {"subtask": "write the file a.txt", "needs": [1]})

    played = play(answer, settings={"check": "auto"})
    refused = [event.data["why"] for event in played.events if event.kind == "ask_refused"]
    assert refused and "holds already" in refused[0]


def test_an_approval_of_checks_is_for_those_that_were_shown(play: Play, tmp_path: Any) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        return plan(write("a.txt", "x"), success=[{"run": "test -f seen"}, {"judge": "ok"}])

    settings = {"approve": ["shell", "write"], "sandbox": "off"}
    played = play(answer, settings=settings)
    assert "a check may shell" in played.result.question
    played.fractal.tell(played.result.run, "approve", by=TERMINAL)
    played = play(answer, settings=settings, resume=played.result.run)
    assert "step 1 may" in played.result.question
    edited(played, ('{"judge": "ok"}', '{"run": "touch unseen; test -f a.txt"}'))
    played = play(answer, settings=settings, resume=played.result.run)
    assert "a check may shell" in played.result.question and "touch unseen" in played.result.question
    assert not (tmp_path / "work" / "unseen").exists()
