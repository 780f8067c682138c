"""On a terminal: a live tree, a question that is asked at once, and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import ACCEPT, ASKS, COMMAND, PLAN, RUN, WORKS, Command, environment, write_run
from lanes import until, within
from terminal import Terminal
from warm import Process

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
    text = terminal.until("checking · scripted:m.yaml")
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


def test_no_color_takes_the_colours_and_leaves_the_tree(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", WORKS), "frobnicate it", NO_COLOR="1")
    assert terminal.finish() == 0
    assert "└─ ✓ write words.txt 5" in terminal.text
    assert not re.search(rb"\x1b\[[\d;]*(3[0-7]|9[0-7])m", terminal.raw)


def test_ci_gets_lines_instead_of_a_picture(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", WORKS), "frobnicate it", CI="1")
    assert terminal.finish() == 0
    assert b"\x1b" not in terminal.raw
    assert "checked: accepted" in terminal.text


def test_a_question_is_asked_at_once(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", ASKS), "frobnicate it")
    terminal.until("Which file?")
    terminal.until("\n>")
    assert not terminal.screen.cursor.hidden
    terminal.type("words.txt of course\n")
    assert terminal.finish() == 0
    assert "five words" in terminal.text.splitlines()[-2:]
    assert "words.txt of course" in fractal("show", _run(fractal)).out


def test_an_empty_answer_puts_it_off(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", ASKS), "frobnicate it")
    terminal.until("\n>")
    terminal.type("\n")
    assert terminal.finish() == 6
    assert f"fractal answer {_run(fractal)} …" in terminal.text


@pytest.mark.parametrize(("answer", "exit", "made"), [("y", 0, True), ("", 6, False)])
def test_an_approval_is_asked_at_once(
    fractal: Command, opened: Open, answer: str, exit: int, made: bool
) -> None:
    model = fractal.script("m.yaml", WORKS)
    terminal = opened("run", "-m", model, "frobnicate it", FRACTAL_APPROVE="[write]")
    assert "waiting for approval of step 1 may write" in terminal.until("\n>")
    terminal.type(f"{answer}\n")
    assert terminal.finish() == exit
    assert (fractal.folder / "words.txt").exists() is made
    assert ("waiting for an approval  " in terminal.text) is not made
    shown = fractal("show", _run(fractal)).out
    assert ('"approved": "person at terminal"' in shown) is made


def test_a_step_that_a_person_rejects_stands_in_the_tree(fractal: Command, opened: Open) -> None:
    judged = PLAN | {"success": [{"judge": "it is written"}]}
    model = fractal.script("m.yaml", {"fused": judged, "check": ACCEPT})
    terminal = opened("run", "-m", model, "frobnicate it", FRACTAL_APPROVE="[write]")
    terminal.until("\n>")
    terminal.type("n\n")
    assert terminal.finish() == 1
    assert "─ ✗ write" in terminal.text


def test_approve_at_a_terminal_goes_on_at_once(fractal: Command, opened: Open) -> None:
    (fractal.folder / ".env").write_text("KEY=4711\n")
    reads = PLAN | {"steps": [{"tool": "read", "args": {"path": ".env"}}], "success": [{"judge": "read"}]}
    model = fractal.script("m.yaml", {"fused": reads, "check": ACCEPT})
    assert fractal("run", "-q", "-m", model, "frobnicate it").exit == 6
    run = _run(fractal)
    refused = fractal("approve", run, "--resume")
    assert refused.exit == 2 and "not that of a command without terminal" in refused.err
    terminal = opened("approve", run, "--resume", FRACTAL_MODEL=model)
    assert terminal.finish() == 0
    assert '"approved": "person at terminal"' in fractal("show", run).out


@pytest.mark.parametrize(("answer", "exit"), [("y", 0), ("n", 3)])
def test_what_a_folder_asks_for_is_asked_about_once(
    fractal: Command, opened: Open, tmp_path: Path, answer: str, exit: int
) -> None:
    (fractal.folder / "fractal.yaml").write_text("sandbox: off\n")
    env = {"FRACTAL_TRUST": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    terminal = opened("run", "what is 2 + 2", **env)
    assert 'sandbox: "off"' in terminal.until("Allow this from now on?")
    terminal.type(f"{answer}\n")
    assert terminal.finish() == exit
    again = fractal("run", "-q", "what is 2 + 2", env=env)
    assert again.exit == exit


def test_a_run_goes_on_without_what_a_folder_brings_along(
    fractal: Command, opened: Open, tmp_path: Path
) -> None:
    (fractal.folder / "AGENTS.md").write_text("Use tabs.\n")
    config = {"FRACTAL_TRUST": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    terminal = opened("run", "-m", fractal.script("m.yaml", WORKS), "what is 2 + 2", **config)
    assert "guidance for models" in terminal.until("Allow this from now on?")
    terminal.type("n\n")
    assert terminal.finish() == 0
    assert "not used until you allow it" in " ".join(terminal.text.split())


def test_ctrl_c_at_a_question_leaves_a_run_that_can_be_resumed(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", ASKS), "frobnicate it")
    terminal.until("\n>")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert f"fractal resume {_run(fractal)}" in terminal.text


def test_the_first_ctrl_c_saves_everything_and_says_how_to_go_on(fractal: Command, opened: Open) -> None:
    terminal = opened("run", "-m", fractal.script("m.yaml", SLOW), "frobnicate it")
    terminal.until("checking")
    terminal.type("\x03")
    assert terminal.finish() == 130
    run = _run(fractal)
    assert f"interrupted; continue with: fractal resume {run}" in terminal.text
    assert "‖ frobnicate it" in terminal.text
    assert not terminal.screen.cursor.hidden
    assert json.loads(fractal("ls", "--json").out)[0]["status"] == "interrupted"
    done = fractal("resume", "-q", "-m", fractal.script("m.yaml", WORKS))
    assert (done.exit, done.out) == (0, "five words\n")


STUBBORN = """
import sys, time
from kernel.asking.responder import Ladder
from runtime.models.scripted import Scripted
import runtime.api.fractal as f
def hold(ask):
    if ask.phase == "check":
        print("holds", file=sys.stderr, flush=True)
        time.sleep(300)  # blocks the whole loop: the first Ctrl-C has no effect yet
    return %r
f.build = lambda *_: Ladder((Scripted(hold),))
from runtime.cli import main
main(["run", "frobnicate it"])
"""


def test_the_second_ctrl_c_ends_at_once(fractal: Command) -> None:
    import sys

    process = Process(
        [sys.executable, "-c", STUBBORN % PLAN],
        cwd=fractal.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("holds"):
            break
    process.send_signal(signal.SIGINT)
    status = Path(f"/proc/{process.pid}/status")
    until(lambda: "ShdPnd:\t0000000000000000" in status.read_text())  # the first one was delivered
    assert process.poll() is None
    with within(2):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    done = fractal("resume", "-q", "-m", fractal.script("m.yaml", WORKS))
    assert (done.exit, done.out) == (0, "five words\n")


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("words", [("cost",), ("tools", "ls"), ("explain",)])
def test_no_word_is_broken_at_the_edge_of_a_terminal(
    fractal: Command, opened: Open, words: tuple[str, ...], columns: int
) -> None:
    write_run(fractal.folder)
    terminal = opened(*words, columns=columns, lines=300)
    assert terminal.finish() == 0
    shown = terminal.raw.decode().replace("\r", "").split("\n")
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in shown]
    # a place to look at (←) is a file's name and stays whole
    assert [line for line in plain if len(line) > columns and "←" not in line] == []


def test_a_document_begins_with_three_lines_of_meta(fractal: Command, opened: Open) -> None:
    write_run(fractal.folder)
    terminal = opened("show", RUN, columns=100, lines=160)
    assert terminal.finish() == 0
    lines = terminal.text.splitlines()
    assert lines[0] == f"system-{RUN} · complete · output"
    assert lines[2] == "all of META: fractal show --raw" and "State" in lines[3]
    whole = opened("show", RUN, "--raw", columns=100, lines=160)
    assert whole.finish() == 0
    assert "budget: {" in whole.text and "rungs: [" in whole.text


def test_a_document_is_rendered_for_a_terminal(fractal: Command, opened: Open) -> None:
    write_run(fractal.folder)
    terminal = opened("show", RUN, columns=100, lines=160)
    assert terminal.finish() == 0
    assert "§2 PLAN" in terminal.text and "## §2" not in terminal.text
    assert "complete · output" in terminal.text
    assert "2025-03-01 · " in terminal.text
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
