"""Faults outside the run: a failing model server, commands that do not end, a wrong clock."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from lanes import NIGHT, PATIENCE, within
from llm_server import Answer, LlmServer
from playing import ACCEPT, plan
from process_list import alive
from processes import (
    TASK,
    fractal,
    inner_asked,
    outcome_of,
    root_of,
    run_folder,
    running,
    script,
    stopped_in_child,
    until,
)

from kernel.errors import Exit, ProviderError
from runtime.api.fractal import Fractal, shipped_system
from runtime.cli import cli

YEAR = 365 * 24 * 3600
Jumping = tuple[Path, dict[str, str]]


# ---- the model's server ----------------------------------------------------------------------------------

STEP = {"tool": "write", "args": {"path": "a.txt", "content": "x"}}
BAD: dict[str, Answer] = {
    "dies in the middle of the answer": Answer(json.dumps(plan(STEP)), cut=True),
    "closes the connection": Answer(drop=True),
    "answers with no JSON": Answer(raw=b"<html>502 Bad Gateway</html>"),
    "answers with bytes": Answer(raw=bytes(range(256))),
    "answers with nothing": Answer(raw=b""),
    "answers with no choice": Answer(raw=b'{"id": "1", "object": "chat.completion", "choices": []}'),
    "answers with another form": Answer(raw=b'{"choices": "many"}'),
    "hangs": Answer("{}", delay=3),
}
ODD = ("answers with bytes", "answers with no choice", "answers with another form")
"""Answers that came whole: the same request would be answered so again, and is told once."""


@pytest.mark.parametrize("fault", BAD)
def test_run_continues_after_a_model_server_recovers(
    tmp_path: Path, llm_server: LlmServer, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    rung = {
        "model": "openai/gpt-4o-mini",
        "api_base": llm_server.url,
        "timeout": 0.5,
        "options": {"retries": 1, "backoff": 0.01},
    }
    here = Fractal(tmp_path, settings={"ladder": [rung], "sandbox": "off"})
    llm_server.say(json.dumps(plan(STEP)))
    llm_server.always(lambda body: BAD[fault])  # from CHECK on
    with pytest.raises(ProviderError) as error:
        asyncio.run(here.run("write a.txt"))
    assert error.value.exit == Exit.PROVIDER
    told = "the answer has no reply|the answer is no text" if fault in ODD else "failed 2 times"
    assert "openai/gpt-4o-mini" in str(error.value) and re.search(told, str(error.value))
    (summary,) = here.runs()
    assert summary.status == "interrupted"
    before = llm_server.count
    llm_server.always(lambda body: Answer(json.dumps(ACCEPT)))
    result = asyncio.run(here.resume())
    assert (result.exit, result.output) == (Exit.ACCEPTED, "done")
    assert llm_server.count == before + 1  # the plan comes from the log
    assert result.spent["calls"] <= llm_server.count


# ---- commands --------------------------------------------------------------------------------------------

STUBBORN = "trap '' TERM INT HUP; (sleep {s} & sleep {s} & wait) & echo > begun; sleep {s}; sleep {s}"


@pytest.fixture
def stubborn(tmp_path: Path) -> Callable[[], list[str]]:
    """Finds the processes of the command by a unique number."""
    number = f"4{os.getpid()}.{abs(hash(str(tmp_path))) % 10**6:06d}"
    (tmp_path / "number").write_text(number)

    return lambda: alive(number)


def _stubborn_script(tmp_path: Path) -> str:
    command = STUBBORN.format(s=(tmp_path / "number").read_text())
    return (
        f"scripted:{script(tmp_path / 'model.json', outer=[{'tool': 'bash', 'args': {'command': command}}])}"
    )


def _sandboxes() -> list[str]:
    works = shutil.which("bwrap") and not subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"]).returncode
    return ["off", "bwrap"] if works else ["off"]


@pytest.mark.parametrize("sandbox", _sandboxes())
def test_stubborn_command_is_killed_at_its_timeout(
    tmp_path: Path, sandbox: str, stubborn: Callable[[], list[str]]
) -> None:
    work = tmp_path / "work"
    own = work / ".fractal" / "system" / "kernel" / "bash.md"
    own.parent.mkdir(parents=True)
    (work / ".fractal" / "state").mkdir()
    shipped = (shipped_system() / "kernel" / "bash.md").read_text()
    assert "timeout: 120" in shipped
    own.write_text(shipped.replace("timeout: 120", "timeout: 3"))
    ran = fractal(
        work,
        "run",
        "--model",
        _stubborn_script(tmp_path),
        TASK,
        FRACTAL_SANDBOX=sandbox,
        FRACTAL_CHECK="always",
    )
    assert ran.returncode == Exit.FAILED, ran.stderr
    assert "unverified: accepted, although step 1 failed: [stopped after 1.5 s]" in ran.stderr
    assert (work / "begun").exists()
    step = root_of(work).steps[1]
    assert step.state == "failed" and "[stopped after 1.5 s]" in str(step.result)
    assert not stubborn()


BOXED_BY_DAY = ("Ctrl-C twice", "Ctrl-C at once with a hang-up", "its time is up")
"""Outside the sandbox these end a command as Ctrl-C and `cancelled` do."""


@pytest.mark.parametrize("sandbox", _sandboxes())
@pytest.mark.parametrize(
    "why",
    ["Ctrl-C", "Ctrl-C twice", "Ctrl-C at once with a hang-up", "its time is up", "cancelled", "killed"],
)
def test_stubborn_command_ends_with_its_run(
    tmp_path: Path, sandbox: str, stubborn: Callable[[], list[str]], why: str
) -> None:
    if why == "killed" and sandbox == "off":
        pytest.skip("outside the sandbox nobody is left who could end it")
    if sandbox == "off" and why in BOXED_BY_DAY and not NIGHT:
        pytest.skip("for the night: by day in the sandbox")
    work = tmp_path / "work"
    work.mkdir()
    more = {"FRACTAL_SANDBOX": sandbox} | ({"FRACTAL_SECONDS": "4"} if why == "its time is up" else {})
    with running(work, "run", "--model", _stubborn_script(tmp_path), TASK, **more) as process:
        until(lambda: (work / "begun").exists() and len(stubborn()) >= 3)
        if why in ("Ctrl-C", "Ctrl-C twice"):
            process.send_signal(signal.SIGINT)
        if why == "Ctrl-C twice":
            process.send_signal(signal.SIGINT)
        if "at once" in why:  # both signals arrive before the first is handled
            for each in (signal.SIGSTOP, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
                process.send_signal(each)
        if why == "killed":
            process.kill()
        if why == "cancelled":
            assert fractal(work, "cancel", run_folder(work).name).returncode == 0
        _, stderr = process.communicate(timeout=PATIENCE)
    until(lambda: not stubborn())
    step = root_of(work).steps[1]
    if why == "killed" or why.startswith("Ctrl-C"):
        assert process.returncode == (Exit.INTERRUPTED if why.startswith("Ctrl-C") else -signal.SIGKILL), (
            stderr
        )
        again = fractal(work, "resume", FRACTAL_SANDBOX=sandbox)
        assert again.returncode == Exit.WAITING
        assert re.search(r'step 1 \(bash \{"command".* was interrupted and may have happened', again.stderr)
    else:
        assert process.returncode == (Exit.FAILED if why == "cancelled" else Exit.LIMIT), stderr
        assert step.state == "unknown" and "stopped: the run was" in str(step.result)


# ---- the clock -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [YEAR, -YEAR])
def test_clock_jump_uses_no_run_time(
    tmp_path: Path, jumping: Jumping, expected: dict[str, Any], seconds: int
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    jump, clock = jumping
    pause = 0.7
    slow = script(tmp_path / "slow.json", slow="inner check", seconds=pause)
    clock["FRACTAL_SECONDS"] = "100"
    with running(work, "run", "--model", f"scripted:{slow}", TASK, **clock) as process:
        until(lambda: inner_asked(work, 2))
        jump.write_text(str(seconds))
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stdout) == (Exit.ACCEPTED, "all done\n"), stderr
    assert outcome_of(work) == expected
    root = root_of(work)
    apart = abs(int(root.meta.updated[:4]) - int(root.meta.created[:4]))
    assert apart == 1  # the clock did jump
    assert pause <= root.meta.spent["seconds"] < 100


def test_clock_set_back_extends_no_limit(tmp_path: Path, jumping: Jumping) -> None:
    work = tmp_path / "work"
    work.mkdir()
    jump, clock = jumping
    slow = script(tmp_path / "slow.json", slow="inner check")
    with within(10):
        clock["FRACTAL_SECONDS"] = "4"
        with running(work, "run", "--model", f"scripted:{slow}", TASK, **clock) as process:
            until(lambda: inner_asked(work, 2))
            jump.write_text(str(-YEAR))
            process.communicate(timeout=PATIENCE)
        assert process.returncode == Exit.LIMIT


def test_clock_set_back_between_sessions(
    tmp_path: Path, jumping: Jumping, model: str, expected: dict[str, Any]
) -> None:
    work = tmp_path / "work"
    folder = stopped_in_child(work)
    jump, clock = jumping
    jump.write_text(str(-YEAR))
    again = fractal(work, "resume", "--model", model, **clock)
    assert again.returncode == Exit.ACCEPTED, again.stderr
    assert outcome_of(work) == expected
    listed = fractal(work, "ls", **clock)
    assert listed.returncode == 0 and folder.name in listed.stdout


MOMENTS = [
    "",
    "yesterday",
    "1970-01-01",
    "9999-12-31T23:59:59.999Z",
    "2020-02-30",
    "٢",
    "2020-01-01T00:00:00",
]


def test_invalid_times_stop_no_command(tmp_path: Path, model: str, expected: dict[str, Any]) -> None:
    work = tmp_path / "work"
    folder = stopped_in_child(work)
    for moment in MOMENTS:
        for path in folder.glob("*.md"):
            path.write_text(
                re.sub("(?m)^(created|updated|deadline): .*", f'\\1: "{moment}"', path.read_text())
            )
        for words in (["ls"], ["tree", folder.name], ["show", folder.name], ["cost", folder.name], ["gc"]):
            ran = CliRunner().invoke(cli, ["-C", str(work), *words])
            assert ran.exit_code == 0, (moment, words, ran.output, ran.exception)
    again = fractal(work, "resume", "--model", model)
    assert again.returncode == Exit.ACCEPTED, again.stderr
    assert outcome_of(work) == expected
    for moment in MOMENTS:
        root = folder / f"system-{folder.name}.md"
        root.write_text(re.sub("(?m)^(updated): .*", f'\\1: "{moment}"', root.read_text()))
        for words in (["gc", "--dry-run"], ["undo", folder.name]):
            ran = CliRunner().invoke(cli, ["-C", str(work), *words])
            assert ran.exit_code == 0, (moment, words, ran.output, ran.exception)
