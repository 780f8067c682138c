"""`fractal messages` and `fractal beat`, as a person uses them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from typing import Any

import pytest
from command_line import ACCEPT, COMMAND, WORKS, Command, environment
from lanes import until
from warm import Process

PUSH: dict[str, Any] = {
    "task": "Publish it",
    "approach": "push",
    "confidence": "high",
    "steps": [{"tool": "bash", "args": {"command": "git push origin main; echo main > pushed"}}],
    "success": [{"file": "pushed", "has": "main"}],
}


@pytest.fixture
def ready(fractal: Command) -> Command:
    """A folder whose model writes `words.txt`."""
    name = fractal.script("works.yaml", WORKS)
    (fractal.folder / "fractal.yaml").write_text(f"model: {name}\nsandbox: 'off'\nreview: 'off'\n")
    return fractal


def messages(fractal: Command, *words: str) -> list[dict[str, Any]]:
    return json.loads(fractal("messages", *words, "--json").out)


def test_a_task_is_sent_done_at_a_beat_and_reported(ready: Command) -> None:
    assert messages(ready) == [] and not (ready.folder / "state").exists()
    sent = ready("messages", "send", "write", "five")
    assert sent.exit == 0 and "fractal beat --once" in sent.err
    assert [each["text"] for each in messages(ready, "--open")] == ["write five"]
    beat = ready("beat", "--once")
    assert beat.exit == 0 and "write five" in beat.err and ": complete" in beat.err
    assert (ready.folder / "words.txt").read_text() == "5\n"
    assert [each["type"] for each in messages(ready)] == ["task", "observation", "outcome"]
    run = messages(ready)[-1]["run"]
    assert len(messages(ready, "--run", run)) == 2 and messages(ready, "--open") == []
    assert len(messages(ready, "--since", "1h")) == 3 and messages(ready, "--since", "2099-01-01") == []
    shown = ready("messages").out.splitlines()
    assert len(shown) == 4 and "human command" in shown[1] and "worker default" in shown[3]
    assert json.loads(ready("beat", "--once", "--json").out) == []


def test_the_queue_is_shown_in_its_order_with_the_reasons(ready: Command) -> None:
    ready("messages", "send", "write five", "--priority", "low")
    ready("messages", "send", "write six")
    shown = ready("messages", "--open").out.splitlines()
    assert "1: normal priority" in shown[1] and "write six" in shown[1]
    assert "2: low priority" in shown[2] and "write five" in shown[2]
    assert [each["queue"] for each in messages(ready, "--open")] == ["1: normal priority", "2: low priority"]
    assert "queue" not in messages(ready)[0] and "queue" not in ready("messages").out
    assert "not one of 'low'" in ready("messages", "send", "write", "--priority", "soon").err
    begun = [line for line in ready("beat", "--once").err.splitlines() if "begins" in line]
    assert [line.partition("begins: ")[2] for line in begun] == ["write six", "write five"]


def test_a_reply_by_id_goes_on_at_the_beat(ready: Command) -> None:
    name = ready.script("pushes.yaml", {"fused": PUSH, "check": ACCEPT})
    (ready.folder / "fractal.yaml").write_text(f"model: {name}\nsandbox: 'off'\n")
    ready("messages", "send", "publish it")
    assert json.loads(ready("beat", "--once", "--json").out)[0]["status"] == "waiting"
    (asked,) = [each for each in messages(ready, "--open") if each["type"] == "proposal"]
    assert "git push" in asked["text"]
    refused = ready("messages", "reply", asked["id"][:8], "nudge")
    assert refused.exit == 2 and "nudge is empty" in refused.err
    assert ready("messages", "reply", "zzzz", "approve").exit == 2
    kept = ready("messages", "reply", asked["id"][:8], "approve")
    assert kept.exit == 0 and f"fractal resume {asked['run']}" in kept.err
    assert json.loads(ready("beat", "--once", "--json").out)[0]["status"] == "complete"


def test_the_markdown_can_be_made_anew(ready: Command) -> None:
    ready("messages", "send", "write five")
    (path,) = (ready.folder / "state" / "messages").glob("*.md")
    text = path.read_text()
    path.unlink()
    assert "1 file" in ready("messages", "--render").err
    assert path.read_text() == text and "> write five" in text


def test_a_broken_message_is_reported(ready: Command) -> None:
    ready("messages", "send", "write five")
    ready("messages", "send", "write six")
    base = sqlite3.connect(ready.folder / "state" / "memory" / "brain.sqlite3")
    with base:
        base.execute("UPDATE records SET body = '{' WHERE kind = 'message' AND body LIKE '%five%'")
    base.close()
    shown = ready("messages")
    assert "write six" in shown.out and "write five" not in shown.out
    assert "skipped: " in shown.err
    beat = ready("beat", "--once")
    assert beat.exit == 0 and "write six" in beat.err and (ready.folder / "words.txt").exists()


def test_wrong_arguments_are_named(ready: Command) -> None:
    for words, why in (
        (("messages", "--since", "soon"), "no date or time"),
        (("messages", "--run", "nnnnnn"), "there is no run"),
        (("messages", "send", " "), "the task is empty"),
        (("messages", "send", "--to", "a b", "write"), "agent"),
        (("beat", "--every", "soon"), "no span of time"),
    ):
        said = ready(*words)
        assert said.exit in (2, 3) and why in said.err, words


def test_ctrl_c_ends_the_beat_and_its_work_goes_on_at_the_next(ready: Command) -> None:
    slow = {**PUSH, "steps": [{"tool": "bash", "args": {"command": "echo main > pushed; sleep 60"}}]}
    name = ready.script("slow.yaml", {"fused": slow, "check": ACCEPT})
    (ready.folder / "fractal.yaml").write_text(f"model: {name}\nsandbox: 'off'\n")
    ready("messages", "send", "sleep well")
    beating = Process(
        [*COMMAND, "beat", "--every", "1s"],
        cwd=ready.folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: (ready.folder / "pushed").exists())
    beating.send_signal(signal.SIGINT)
    _, said = beating.communicate(timeout=30)
    assert beating.returncode == 0 and "begins: sleep well" in said and "Traceback" not in said
    assert "interrupted" in ready("ls").out
    assert "goes on" in ready("beat", "--once").err
