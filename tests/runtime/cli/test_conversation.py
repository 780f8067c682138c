"""`fractal` alone on a terminal: a conversation of runs that follow each other."""

from __future__ import annotations

import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ACCEPT, ASKS, COMMAND, PLAN, RUN, WORKS, Command, environment
from lanes import NIGHT
from terminal import Terminal

from kernel.events import Event, Kind
from runtime.cli.prompt import Progress

Talk = Callable[..., Terminal]
LATER = "also write c.txt"
WAITS = {"tool": "bash", "args": {"command": "until [ -e told ]; do sleep 0.05; done"}}
WRITES = {"calls": [WAITS, *PLAN["steps"]]}
FORGETS = {} if NIGHT else {"FRACTAL_REMEMBER": "false", "FRACTAL_RECALL": "false"}
"""What a run leaves in memory takes as long as the run: by day these tests do without it."""


@pytest.fixture
def talk(fractal: Command) -> Iterator[Talk]:
    """Opens a conversation with a scripted model."""
    terminals: list[Terminal] = []

    def open_terminal(
        script: Any, columns: int = 80, command: list[str] = COMMAND, seen: str = "›", **env: str
    ) -> Terminal:
        env = {"FRACTAL_CHECK": "auto", "FRACTAL_MODEL": fractal.script("m.yaml", script), **FORGETS, **env}
        terminals.append(Terminal(command, fractal.folder, environment(**env), columns, 40))
        terminals[-1].until(seen)
        return terminals[-1]

    yield open_terminal
    for each in terminals:
        each.close()


def says(terminal: Terminal, text: str, *seen: str) -> str:
    """Type a line, and wait until the screen shows all of this."""
    terminal.type(f"{text}\r")
    return terminal.until(lambda screen: all(each in screen for each in seen))


def ends(terminal: Terminal) -> int:
    terminal.type("\x04")
    return terminal.finish()


def runs(fractal: Command) -> list[str]:
    """The runs, oldest first."""
    return [line.split()[0] for line in reversed(fractal("ls").out.splitlines()[1:])]


def ended(number: int) -> Callable[[str], bool]:
    return lambda screen: len(re.findall(r"run \w+: complete", screen)) == number


def test_each_line_is_a_task_that_follows_the_one_before(fractal: Command, talk: Talk) -> None:
    second = PLAN | {"steps": [{"tool": "write", "args": {"path": "b.txt", "content": "5"}}]}
    second |= {"success": [{"file": "b.txt", "has": "5"}]}
    terminal = talk([{"phase": "fused", "task": "frob", "reply": PLAN}, {"phase": "fused", "reply": second}])
    says(terminal, "frobnicate it", "follows run")
    terminal.type("and now the other one\r")
    terminal.until(ended(2))
    first, other = runs(fractal)
    terminal.until(f"follows run {other}")
    assert f"from `run {first}`" in fractal("show", other).out
    assert "Task: frobnicate it" in fractal("show", other).out
    says(terminal, "/cost", "total", "conversation: 2 runs, 2 calls")
    assert ends(terminal) == 0
    history = fractal.folder / ".fractal" / "state" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+and now the other one" in history.read_text()


GUIDED = [
    {"phase": "fused", "reply": WRITES},
    {"phase": "work", "prompt": f"The user says: {LATER}", "reply": {"done": "with the guidance"}},
]
"""A script whose first turn waits for the file `told`, and whose second one has to see the guidance."""
UNASKED = {"FRACTAL_SANDBOX": "off", "FRACTAL_APPROVE": "[]"}


def test_a_line_said_while_a_run_works_reaches_its_next_turn(fractal: Command, talk: Talk) -> None:
    terminal = talk(GUIDED, **UNASKED)
    says(terminal, "frobnicate it", "bash until")
    says(terminal, LATER, "the run is told this")
    (fractal.folder / "told").touch()
    text = terminal.until("with the guidance")
    assert f"heard: {LATER}" in text
    assert len(runs(fractal)) == 1
    assert "person at terminal, 20" in fractal("show").out


def test_another_process_says_something_to_a_run(fractal: Command, talk: Talk) -> None:
    terminal = talk(GUIDED, **UNASKED)
    says(terminal, "frobnicate it", "bash until")
    assert "is running and takes it from its inbox" in fractal("say", "also", "write", "c.txt").err
    (fractal.folder / "told").touch()
    terminal.until("with the guidance")
    (run,) = runs(fractal)
    assert (
        f"has ended (complete); follow it up: fractal run --after {run}" in fractal("say", run, "again").err
    )
    assert fractal("say", "too late").exit == 2


def test_a_line_that_comes_too_late_is_the_next_task(fractal: Command, talk: Talk) -> None:
    script = [
        {"phase": "fused", "reply": PLAN, "times": 1},
        {"phase": "check", "reply": ACCEPT, "delay": 1, "times": 1},
        {"phase": "fused", "reply": {"done": "the second"}},
        {"phase": "check", "reply": {**ACCEPT, "output": "the second"}},
    ]
    terminal = talk(script, FRACTAL_CHECK="always")
    says(terminal, "frobnicate it", "checking · scripted:m.yaml")
    says(terminal, LATER, "the run is told this")
    text = terminal.until("the second")
    assert "could be taken up" not in text, "it is taken up by the next task"
    first, second = runs(fractal)
    assert f"run {second}: {LATER}" in text
    assert f"from `run {first}`" in fractal("show", second).out


def test_a_question_is_answered_by_the_next_line(fractal: Command, talk: Talk) -> None:
    terminal = talk(ASKS)
    terminal.type("frobnicate it\r")
    terminal.until("Which file?")
    terminal.until("\n?")
    says(terminal, "words.txt of course", "follows run")
    assert "words.txt of course" in fractal("show").out


def test_a_question_put_off_is_asked_again_by_resume(fractal: Command, talk: Talk) -> None:
    terminal = talk(ASKS)
    terminal.type("frobnicate it\r")
    terminal.until("\n?")
    says(terminal, "", "to go on here: /resume")
    terminal.type("/resume\r")
    terminal.until(lambda text: text.count("\n?") == 2)
    says(terminal, "words.txt of course", "follows run")
    assert len(runs(fractal)) == 1


@pytest.mark.parametrize(
    ("reply", "seen", "made"),
    [("y", "complete, 1", True), ("not that file", "terminal: not that file", False)],
)
def test_an_approval_is_asked_for(fractal: Command, talk: Talk, reply: str, seen: str, made: bool) -> None:
    terminal = talk({"fused": PLAN, "work": {"cannot": "no"}}, FRACTAL_APPROVE="[write]")
    terminal.type("frobnicate it\r")
    terminal.until("waiting for approval of step 1 may write")
    terminal.until("\n?")
    says(terminal, reply, seen)
    assert (fractal.folder / "words.txt").exists() is made


@pytest.fixture
def untrusted(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has allowed nothing."""
    return {"FRACTAL_TRUST": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_what_a_folder_asks_for_is_asked_about_once(
    fractal: Command, talk: Talk, untrusted: dict[str, str]
) -> None:
    for number in range(5):
        skill = fractal.folder / ".claude" / "skills" / f"made-{number}" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("# Made\n")
    terminal = talk(WORKS, 200, seen="Allow this from now on?", **untrusted)
    says(terminal, "n", "›")
    says(terminal, "what is 2 + 2", "complete")
    terminal.type("what is 3 + 3\r")
    text = terminal.until(ended(2))
    assert text.count("Allow this") == 1
    assert text.count("not used until you allow it") == 3 and text.count("see: fractal trust") == 1
    (fractal.folder / "AGENTS.md").write_text("Use tabs.\n")
    says(terminal, "what is 4 + 4", "guidance for models", "Allow this")
    says(terminal, "n", "instructions", "\n8\n")


def test_ctrl_c_at_the_question_what_to_allow_starts_nothing(
    fractal: Command, talk: Talk, untrusted: dict[str, str]
) -> None:
    terminal = talk(WORKS, 200, **untrusted)
    (fractal.folder / "AGENTS.md").write_text("Use tabs.\n")
    says(terminal, "what is 4 + 4", "Allow this")
    terminal.type("\x03")
    terminal.until("interrupted")
    terminal.type("what is 4 + 4\r")
    terminal.until(lambda screen: screen.rfind("Allow this") > screen.rfind("interrupted"))
    says(terminal, "y", "\n8\n")
    assert len(runs(fractal)) == 1


def test_ctrl_c_interrupts_the_run_and_the_conversation_goes_on(fractal: Command, talk: Talk) -> None:
    script = [
        {"phase": "fused", "reply": PLAN, "delay": 60, "times": 1},
        {"phase": "fused", "reply": PLAN},
    ]
    terminal = talk(script)
    says(terminal, "frobnicate it", "working · scripted:m.yaml")
    terminal.type("\x03")
    terminal.until("interrupted; to continue: /resume")
    (fractal.folder / "m.yaml").write_text((fractal.folder / "m.yaml").read_text().replace("60", "0"))
    says(terminal, "/resume", "complete, ")
    assert len(runs(fractal)) == 1
    terminal.type("half a line\x03")
    terminal.until("half a line\n›")
    terminal.type("\x03")
    assert terminal.finish() == 0


STUBBORN = """
import time
from kernel.asking.responder import Ladder
from runtime.models.scripted import Scripted
import runtime.api.fractal as f
f.build = lambda *_: Ladder((Scripted(lambda ask: time.sleep(600)),))  # nothing can interrupt it
from runtime.cli import main
main([])
"""


def test_the_second_ctrl_c_ends_at_once(fractal: Command, talk: Talk) -> None:
    terminal = talk(WORKS, command=[sys.executable, "-c", STUBBORN])
    says(terminal, "frobnicate it", "working · scripted")
    terminal.type("\x03")
    terminal.until("stopping; Ctrl-C again ends at once")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert b"\x1b[?2004l" in terminal.raw[-400:], "bracketed paste is off again"


def test_the_end_of_the_input_saves_the_run_that_works(fractal: Command, talk: Talk) -> None:
    terminal = talk([{"phase": "fused", "reply": PLAN, "delay": 60}])
    says(terminal, "frobnicate it", "working · scripted:m.yaml")
    assert ends(terminal) == 0
    assert " interrupted " in fractal("ls").out


def test_a_signal_ends_it_and_leaves_a_usable_terminal(fractal: Command, talk: Talk) -> None:
    terminal = talk([{"phase": "fused", "reply": PLAN, "delay": 60}])
    says(terminal, "frobnicate it", "working · scripted:m.yaml")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.finish() == 143
    assert " interrupted " in fractal("ls").out
    assert b"\x1b[?2004l" in terminal.raw[-400:], "bracketed paste is off again"


def test_commands_show_and_restore_what_the_last_run_changed(fractal: Command, talk: Talk) -> None:
    terminal = talk(WORKS, columns=60)
    says(terminal, "frobnicate it", "follows run")
    says(terminal, "/diff", "new words.txt", "+5")
    says(terminal, "/undo", "to revert this: fractal undo")
    assert not (fractal.folder / "words.txt").exists()
    says(terminal, "/udno", "did you mean /undo?")
    says(terminal, "/undo x", "x is not the number of a step")
    assert all(len(each) <= 60 for each in says(terminal, "/help", "/quit").splitlines())
    terminal.type("/quit\r")
    assert terminal.finish() == 0


def test_a_plan_is_shown_and_carried_out_by_resume(fractal: Command, talk: Talk) -> None:
    terminal = talk(WORKS)
    says(terminal, "/plan frobnicate it", "## §2 PLAN", "to go on here: /resume")
    assert not (fractal.folder / "words.txt").exists()
    terminal.type("/resume\r")
    terminal.until("\n?")
    says(terminal, "y", "complete, 1")
    assert (fractal.folder / "words.txt").exists()


def test_the_model_and_the_run_to_follow_can_be_set(fractal: Command, talk: Talk) -> None:
    fractal("run", "-q", "-m", fractal.script("first.yaml", WORKS), "frobnicate it")
    (first,) = runs(fractal)
    second = {"fused": {**PLAN, "steps": [], "success": [], "answer": "from the other model"}}
    name = fractal.script("other.yaml", second)
    terminal = talk(WORKS)
    says(terminal, "/model nonsense", "nonsense")
    says(terminal, f"/model {name}", f"the following runs use {name}")
    says(terminal, "/continue", f"the next task follows run {first}")
    says(terminal, "frobnicate another", "from the other model")
    assert f"from `run {first}`" in fractal("show").out


def test_lines_are_pasted_completed_and_remembered(fractal: Command, talk: Talk) -> None:
    terminal = talk(WORKS)
    terminal.type("\x1b[200~frobnicate it\nwith care\x1b[201~")
    terminal.until("with care")
    terminal.type("\r")
    terminal.until("follows run")
    assert "> frobnicate it\n> with care" in fractal("show").out
    terminal.type("/exp\t")
    terminal.until("/explain")
    terminal.type("\x15what is in not\t")
    terminal.until("what is in notes.txt")
    terminal.type("\x15\x1b[A")
    terminal.until(lambda text: text.count("with care") == 3)


def test_a_history_that_cannot_be_used_is_reported(fractal: Command, talk: Talk) -> None:
    (fractal.folder / ".fractal" / "state" / "history").mkdir(parents=True)
    terminal = talk(WORKS)
    terminal.until("the history cannot be used")
    says(terminal, "frobnicate it", "complete, 1")
    assert terminal.text.count("the history cannot be used") == 1


def test_the_bar_shows_what_is_being_written_and_the_calls_that_are_made() -> None:
    view = Progress()
    assert view.state() == ["starting", ""]

    def hear(kind: Kind, **data: Any) -> list[str]:
        view(Event(kind, RUN, f"system-{RUN}", data=data))
        return view.state()

    hear("run_started", task="frobnicate it", rungs=[])
    first, second = hear("ask_started", phase="turn", step=1, rung="some-model")
    assert re.fullmatch(r". working · some-model · 0 tokens · \$0 · 0\.\ds", first)
    hear("reply_delta", phase="turn", text='{"task": ')
    assert hear("reply_delta", phase="turn", text='"Write\n\x1b[2J')[1] == '{"task": "Write ␛[2J'
    first, second = hear("ask_finished", phase="turn", rung="some-model", prompt_tokens=1200, usd=0.01)
    assert "1.2k tokens · $0.01" in first and not second
    assert hear("step_started", step=1, tool="bash", args={"command": "make"})[1] == "bash make"


def test_escapes_of_a_model_reach_no_terminal(talk: Talk) -> None:
    shows = PLAN | {"done": "\x1b]0;owned\x07done", "task": "\x1b[2Jx"}
    terminal = talk({"fused": shows})
    says(terminal, "frobnicate it", "␛]0;owned␇done")
    assert b"\x1b]0;" not in terminal.raw


def test_without_a_terminal_it_is_the_help(fractal: Command) -> None:
    shown = fractal()
    assert shown.exit == 0
    assert "alone opens a conversation" in shown.out
