"""On a terminal: a live tree, a question that is asked at once, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from command_line import ACCEPT, ASKS, COMMAND, PLAN, RUN, WORKS, Command, environment, write_run
from terminal import Terminal

Open = Callable[..., Terminal]
SLOW = {"fused": PLAN, "check": {"reply": ACCEPT, "delay": 60}}


@pytest.fixture
def opened(fractal: Command) -> Iterator[Open]:
    terminals: list[Terminal] = []

    def open_terminal(*words: str, columns: int = 80, lines: int = 24, **env: str) -> Terminal:
        made = Terminal([*COMMAND, *words], fractal.folder, environment(**env), columns, lines)
        terminals.append(made)
        return made

    yield open_terminal
    for each in terminals:
        each.close()


def _run(fractal: Command) -> str:
    (path,) = fractal.folder.glob(".fractal/state/runs/*")
    return path.name


def test_the_last_picture_of_the_tree_stays_above_the_result(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", WORKS), "frobnicate [bold]it[/bold]")
    assert terminal.finish() == 0
    lines = terminal.text.splitlines()
    assert lines[0].startswith("✓ frobnicate [bold]it[/bold]") and "UPDC" in lines[0]
    assert lines[1] == "└─ ✓ write words.txt 5"
    assert lines[2].startswith(f"complete: run {_run(fractal)}, 2 calls")
    assert lines[3] == "five words"
    assert not terminal.screen.cursor.hidden


def test_while_it_works_the_tree_says_at_what(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", SLOW), "frobnicate it")
    text = terminal.until("CHECK · scripted:m.yaml")
    assert "└─ ✓ write words.txt 5" in text
    before = terminal.text
    terminal.until(lambda text: text != before)  # the clock goes on


def test_escapes_in_a_task_reach_no_terminal(fractal: Command, opened: Open) -> None:
    task = "frobnicate \x1b]0;owned\x07 \x1b[2J it"
    shows = {"fused": PLAN, "check": ACCEPT | {"output": "\x1b]0;owned\x07done"}}
    terminal = opened("run", "-m", fractal.script("m.yaml", shows), task)
    assert terminal.finish() == 0
    assert b"\x1b]0;" not in terminal.raw and b"\x1b[2J" not in terminal.raw
    assert "␛]0;owned␇done" in terminal.text


@pytest.mark.parametrize("name", ["CI", "NO_COLOR"])
def test_ci_and_no_color_get_lines_instead_of_a_picture(fractal: Command, opened: Open, name: str) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", WORKS), "frobnicate it", **{name: "1"})
    assert terminal.finish() == 0
    assert b"\x1b" not in terminal.raw
    assert "CHECK: ACCEPT" in terminal.text


def test_a_question_is_asked_at_once(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", ASKS), "frobnicate it")
    terminal.until("Which file?")
    terminal.until("\n>")
    assert not terminal.screen.cursor.hidden
    terminal.type("words.txt of course\n")
    assert terminal.finish() == 0
    assert terminal.text.splitlines()[-1] == "five words"
    assert "words.txt of course" in fractal("show", _run(fractal)).out


def test_an_empty_answer_puts_it_off(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", ASKS), "frobnicate it")
    terminal.until("\n>")
    terminal.type("\n")
    assert terminal.finish() == 6
    assert f"fractal answer {_run(fractal)} …" in terminal.text


def test_ctrl_c_at_a_question_leaves_a_run_that_can_be_resumed(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", ASKS), "frobnicate it")
    terminal.until("\n>")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert f"fractal resume {_run(fractal)}" in terminal.text


def test_the_first_ctrl_c_saves_everything_and_says_how_to_go_on(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", SLOW), "frobnicate it")
    terminal.until("CHECK")
    terminal.type("\x03")
    assert terminal.finish() == 130
    run = _run(fractal)
    assert f"interrupted; go on with: fractal resume {run}" in terminal.text
    assert "‖ frobnicate it" in terminal.text
    assert not terminal.screen.cursor.hidden
    assert json.loads(fractal("ls", "--json").out)[0]["status"] == "interrupted"
    done = fractal("resume", "-q", "-m", fractal.script("m.yaml", WORKS))
    assert (done.exit, done.out) == (0, "five words\n")


STUBBORN = """
import time
from kernel.responder import Ladder
from runtime.responders.scripted import Scripted
import runtime.fractal as f
def hold(ask):
    if ask.phase == "check":
        time.sleep(30)  # blocks the whole loop: the first Ctrl-C has no effect yet
    return %r
f.build = lambda *_: Ladder((Scripted(hold),))
from runtime.cli import main
main(["run", "frobnicate it"])
"""


def test_the_second_ctrl_c_ends_at_once(fractal: Command) -> None:
    import sys

    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN % PLAN],
        cwd=fractal.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("DO"):
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    assert time.monotonic() - began < 2
    done = fractal("resume", "-q", "-m", fractal.script("m.yaml", WORKS))
    assert (done.exit, done.out) == (0, "five words\n")


def test_a_document_is_rendered_for_a_terminal(fractal: Command, opened: Open) -> None:
    write_run(fractal.folder)
    terminal = opened("show", RUN, columns=100, lines=160)
    assert terminal.finish() == 0
    assert "§2 PLAN" in terminal.text and "## §2" not in terminal.text
    assert "    status  complete" in terminal.text
    assert "   created  2025-03-01" in terminal.text
    assert "attempt 1 · retry" in terminal.text
    assert terminal.text.count("op-bash-7f3kq2-1.md") == 1
    raw = opened("show", RUN, "--raw", columns=100, lines=120)
    assert raw.finish() == 0
    assert "## §2 PLAN" in raw.text


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_lists_fit_a_narrow_terminal(fractal: Command, opened: Open, columns: int) -> None:
    write_run(fractal.folder)
    for command in (["tree", RUN], ["ls"]):
        terminal = opened(*command, columns=columns, lines=40)
        assert terminal.finish() == 0
        assert RUN in terminal.text
