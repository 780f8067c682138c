"""Plain lines and JSON lines: what a pipe gets."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from command_line import environment
from warm import Process

from kernel.events import Event
from runtime.cli.live import LiveTree
from runtime.cli.progress import JsonLines, PlainLines, View, summary
from runtime.cli.session import view

RUN = "7f3kq2"


def _event(kind: str, parent: str = "", **data: object) -> Event:
    loop = f"tool-task-{RUN}-2" if parent else f"system-{RUN}"
    return Event(kind, RUN, loop, parent, "system", "task", data)  # type: ignore[arg-type]


def test_a_pipe_gets_plain_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines() as watch:
        watch(_event("run_started", task="count\nthe \x1b[31mwords"))
        watch(_event("phase_started", phase="understand", attempt=1))
        watch(_event("phase_finished", phase="plan", attempt=1, gate="PROCEED", steps=[1, 2, 3]))
        watch(_event("step_started", step=2, tool="read", args={"path": "a.txt"}))
        watch(_event("step_started", f"system-{RUN}", step=1, tool="read", args={"path": "a.txt"}))
        watch(_event("step_finished", f"system-{RUN}", step=1, tool="read", state="done", result="x\ny"))
        watch(_event("warning", message="mind the gap"))
        watch(_event("phase_finished", phase="check", attempt=1, gate="ACCEPT"))
        watch(
            _event("run_finished", status="complete", spent={"calls": 1, "prompt_tokens": 900, "seconds": 2})
        )
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "run 7f3kq2: count the ␛[31mwords",
        "understanding…",
        "planned 3 steps",
        "step 2/3 read a.txt",
        "[2] step 1 read a.txt",
        "[2] step 1: done → x y",
        "warning: mind the gap",
        "checked: accepted",
        "run 7f3kq2: complete, 1 call, 900 tokens, $0, 2.0 s",
    ]


def test_a_pipe_shows_turns_what_they_plan_and_why_an_answer_is_held_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    used = {"prompt_tokens": 900, "completion_tokens": 100, "usd": 0.0}
    with PlainLines() as watch:
        watch(_event("phase_finished", phase="understand", attempt=1, gate="PROCEED"))
        watch(_event("ask_finished", phase="turn", step=1, model="m", **used))
        approach = "look, then write"
        watch(_event("phase_finished", phase="plan", gate="PROCEED", steps=[], approach=approach))
        watch(_event("step_started", step=1, tool="read", args={"path": "a.txt"}))
        watch(_event("step_finished", step=1, tool="read", state="done", result="x"))
        why = "held back: check failed: pytest\nexit 1"
        watch(_event("phase_finished", phase="check", gate="CONTINUE", turn=1, why=why))
        watch(_event("ask_finished", phase="turn", step=2, model="m", **used))
        watch(_event("phase_finished", phase="check", gate="ACCEPT"))
    assert capsys.readouterr().err.splitlines() == [
        "turn 1 by m: 1.0k tokens, $0",
        "planned: look, then write",
        "step 1 read a.txt",
        "step 1: done → x",
        "held back: check failed: pytest exit 1",
        "turn 2 by m: 1.0k tokens, $0",
        "checked: accepted",
    ]


def test_json_is_one_typed_event_a_line_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    watch = JsonLines()
    watch(_event("run_started", task="a\u2028b\x1b \ud800"))
    watch(_event("run_finished", status="complete", exit=0))
    out, err = capsys.readouterr()
    first, last = (json.loads(line) for line in out.splitlines())
    assert err == ""
    assert first["v"] == 1 and first["kind"] == "run_started" and first["ts"].endswith("Z")
    assert first["data"]["task"] == "a\u2028b\x1b \ud800"
    assert out.isprintable() or "\x1b" not in out
    assert last["data"] == {"status": "complete", "exit": 0}


def test_a_run_goes_on_when_nobody_reads_its_events_any_more() -> None:
    code = (
        "import os, sys\nfrom kernel.events import Event\nfrom runtime.cli.progress import JsonLines\n"
        "watch = JsonLines()\n"
        "for n in range(3000): watch(Event('warning', 'r', data={'message': 'x' * 100}))\n"
        "sys.stderr.write('went on\\n')\nos._exit(0)"
    )
    process = Process(
        [sys.executable, "-c", code],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == "went on\n"


GONE = "deleted 1 file (a.txt); `fractal undo 7f3kq2 2` brings it back"


@pytest.mark.parametrize("kind", [LiveTree, PlainLines, View])
def test_every_view_says_what_was_deleted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: type[View]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    with kind() as watch:
        watch(_event("run_started", task="take it away"))
        watch(_event("step_started", step=2, tool="remove", args={"paths": ["a.txt"]}))
        watch(_event("step_finished", step=2, tool="remove", state="done", result="", deleted=GONE))
    assert GONE in capsys.readouterr().err


def test_quiet_says_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    watch = view(quiet=True)
    assert type(watch) is View
    watch(_event("run_started", task="x"))
    watch(_event("warning", message="w"))
    assert capsys.readouterr().err == "warning: w\n"


def test_ci_gets_plain_lines_and_no_color_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert isinstance(view(), LiveTree)
    monkeypatch.setenv("CI", "1")
    assert isinstance(view(), PlainLines)


def test_a_run_without_calls_is_summed_up_without_figures_of_models() -> None:
    assert summary({"calls": 0, "seconds": 0.2}) == "0 calls, 0.2 s"
