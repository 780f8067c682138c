"""The command as a separate process: a provider on loopback, exit codes, Ctrl-C, kill."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lanes import PATIENCE
from llm_server import Answer, LlmServer
from processes import command, environment, running, until
from processes import fractal as in_process
from warm import run

from kernel.document.model import Document
from kernel.errors import Exit
from runtime.api.fractal import Fractal
from runtime.workspace.resume import active_before

needs_litellm = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="litellm is not installed"
)
PLAN = {
    "task": "write a.txt",
    "context": [],
    "approach": "write it",
    "confidence": "high",
    "steps": [{"tool": "write", "args": {"path": "a.txt", "content": "one\n"}}],
    "success": [{"file": "a.txt", "has": "one"}],
}
CHECK = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "a.txt holds one line"}
KEY = {"OPENAI_API_KEY": "sk-test-0123456789"}


SETTINGS = {**KEY, "FRACTAL_SANDBOX": "auto", "FRACTAL_CHECK": "always"}


def fractal(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own."""
    env = environment(**{**SETTINGS, **more})
    options: dict[str, Any] = {"env": env, "capture_output": True, "text": True, "timeout": 100}
    return run(command(folder, *words), stdin=subprocess.DEVNULL, **options)


def here(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command in this process, where what went before is the point of the test."""
    return in_process(folder, *words, **{**SETTINGS, **more})


def answer(body: Any) -> Answer:
    text = "\n".join(message["content"] for message in body["messages"])
    return Answer(json.dumps(CHECK if "# CHECK" in text else PLAN))


def settings(folder: Path, server: LlmServer, **more: Any) -> None:
    rung = {
        "model": "openai/gpt-4o-mini",
        "api_base": server.url,
        "timeout": 10,
        "options": {"retries": 1, "backoff": 0.05},
    }
    values = {"ladder": [rung | more], "usd": 1.0}
    (folder / "fractal.yaml").write_text(json.dumps(values))


def newest(folder: Path) -> Document:
    runs = Fractal(folder).runs()
    return Fractal(folder).document(runs[0].run)


@needs_litellm
def test_model_over_http_does_a_task_and_reports_its_cost(tmp_path: Path, llm_server: LlmServer) -> None:
    settings(tmp_path, llm_server)
    llm_server.always(answer)
    ran = fractal(tmp_path, "run", "write one line into a.txt")
    assert (ran.returncode, ran.stdout) == (Exit.ACCEPTED, "a.txt holds one line\n"), ran.stderr
    assert (tmp_path / "a.txt").read_text() == "one\n"
    spent = newest(tmp_path).meta.spent
    assert spent["calls"] == llm_server.count == 2
    assert spent["prompt_tokens"] == 200
    assert spent["usd"] > 0


@needs_litellm
@pytest.mark.parametrize(
    ("status", "exit_code", "says"),
    [
        (401, Exit.CONFIGURATION, "OPENAI_API_KEY"),
        pytest.param(429, Exit.PROVIDER, "failed 2 times", marks=pytest.mark.night),
        (500, Exit.PROVIDER, "failed 2 times"),
    ],
)
def test_failing_provider_leaves_a_resumable_run(
    tmp_path: Path, llm_server: LlmServer, status: int, exit_code: Exit, says: str
) -> None:
    settings(tmp_path, llm_server)
    llm_server.always(lambda body: Answer(status=status))
    ran = fractal(tmp_path, "run", "write one line into a.txt")
    assert ran.returncode == exit_code, ran.stderr
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "resume" in ran.stderr
    llm_server.always(answer)
    again = here(tmp_path, "resume")
    assert (again.returncode, again.stdout) == (Exit.ACCEPTED, "a.txt holds one line\n"), again.stderr


@needs_litellm
def test_killed_run_repeats_no_finished_call(tmp_path: Path, llm_server: LlmServer) -> None:
    settings(tmp_path, llm_server)
    llm_server.always(lambda body: Answer(delay=30) if "# CHECK" in json.dumps(body) else answer(body))
    with running(tmp_path, "run", "write a.txt", **KEY, FRACTAL_CHECK="always"):
        llm_server.wait_for(2, 60)
    assert newest(tmp_path).meta.status == "running"
    llm_server.always(answer)
    again = here(tmp_path, "resume")
    assert again.returncode == Exit.ACCEPTED, again.stderr
    assert llm_server.count == 3  # PLAN once; the interrupted CHECK twice
    assert newest(tmp_path).meta.spent["calls"] == 3


DAY = 24 * 3600


def sleeping(folder: Path, *seconds: float) -> list[str]:
    """The options of a run with a command for each of these times."""
    steps = [{"tool": "bash", "args": {"command": f"sleep {each}"}} for each in seconds]
    done = {**PLAN, "steps": steps, "success": [{"judge": "slept"}]}
    script = folder / "script.json"
    script.write_text(json.dumps([{"phase": "check", "reply": CHECK}, {"reply": done, "times": 9}]))
    return ["--sandbox", "off", "--model", f"scripted:{script}"]


def killed_after_step(folder: Path, step: int, *words: str, **more: str) -> Document:
    """Kill a process when a step has ended; returns the root document."""
    with running(folder, *words, **more) as process:
        ended = f".fractal/state/runs/*/op-bash-*-{step}.md"
        until(lambda: process.poll() is not None or list(folder.glob(ended)))
        assert process.poll() is None
    return newest(folder)


def active_of(folder: Path, root: Document) -> float:
    return active_before(folder / ".fractal" / "state" / "runs" / root.meta.run, root)


def test_time_of_a_killed_session_is_counted(tmp_path: Path) -> None:
    """DO writes only the steps; their documents have the time."""
    options = sleeping(tmp_path, 1, 4)
    root = killed_after_step(tmp_path, 1, "run", *options, "sleep twice")
    assert active_of(tmp_path, root) >= root.meta.spent["seconds"] + 1
    again = here(tmp_path, "resume", "--assume", "2=done", *options[2:])
    assert again.returncode == Exit.ACCEPTED, again.stderr
    assert newest(tmp_path).meta.spent["seconds"] >= 1


def test_time_between_sessions_is_not_counted(tmp_path: Path, jumping: tuple[Path, dict[str, str]]) -> None:
    """Both sessions are killed, and only their steps write; the second is a day later."""
    options = sleeping(tmp_path, 0.2, 0.3, 30)
    killed_after_step(tmp_path, 1, "run", *options, "sleep")
    jump, clock = jumping
    jump.write_text(str(DAY))
    root = killed_after_step(tmp_path, 2, "resume", *options, "--assume", "rerun", **clock)
    assert 0.5 <= active_of(tmp_path, root) < DAY


def test_ctrl_c_saves_and_names_the_resume_command(tmp_path: Path) -> None:
    mailbox = tmp_path / ".fractal" / "state" / "mailbox"
    with running(tmp_path, "run", "--model", "mailbox", "think about it") as process:
        until(lambda: process.poll() is not None or list(mailbox.glob("*.md")))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == Exit.INTERRUPTED
    assert "resume" in stderr and "Traceback" not in stderr
    assert newest(tmp_path).meta.status == "interrupted"


def test_task_without_a_model_waits_and_says_how_to_set_one(tmp_path: Path) -> None:
    ran = fractal(tmp_path, "run", "write a sonnet about rivers", OPENAI_API_KEY="")
    assert ran.returncode == Exit.WAITING
    assert ran.stdout == ""
    assert "FRACTAL_MODEL" in ran.stderr or "--model" in ran.stderr
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps(
            [
                {"phase": "check", "reply": CHECK},
                {"reply": PLAN, "times": 9},
            ]
        )
    )
    again = here(tmp_path, "resume", "--model", f"scripted:{script}")
    assert (again.returncode, again.stdout) == (Exit.ACCEPTED, "a.txt holds one line\n"), again.stderr


def test_rephrased_answer_lets_a_reflex_do_the_task(tmp_path: Path) -> None:
    fractal(tmp_path, "run", "tot up two and two for me", OPENAI_API_KEY="")
    name = Fractal(tmp_path).runs()[0].run
    here(tmp_path, "answer", name, "what is 2 + 2")
    again = here(tmp_path, "resume", name, OPENAI_API_KEY="")
    assert (again.returncode, again.stdout.strip()) == (Exit.ACCEPTED, "4"), again.stderr


def test_missing_key_is_reported_before_any_call(tmp_path: Path) -> None:
    ran = fractal(tmp_path, "run", "--model", "openai/gpt-5-mini", "think", OPENAI_API_KEY="")
    assert ran.returncode == Exit.CONFIGURATION
    assert "the environment variable OPENAI_API_KEY is not set" in ran.stderr
    (kept,) = Fractal(tmp_path).runs()  # it continues once a key is given
    assert (kept.status, kept.spent["usd"]) == ("interrupted", 0)
    assert f" resume {kept.run}" in ran.stderr
