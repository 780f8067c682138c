"""Approving a kind for the rest of a run, or a call for good: at a terminal, and by `fractal approve`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from command_line import ACCEPT, COMMAND, PLAN, Command, environment
from terminal import Terminal

from kernel.errors import Exit

Open = Callable[..., Terminal]
WRITES = [{"tool": "write", "args": {"path": f"{name}.txt", "content": name}} for name in "ab"]
ASKS = {"FRACTAL_APPROVE": "[write, shell]", "FRACTAL_SANDBOX": "off"}


@pytest.fixture
def opened(fractal: Command) -> Iterator[Open]:
    terminals: list[Terminal] = []

    def open_(*words: str, **env: str) -> Terminal:
        terminals.append(Terminal([*COMMAND, *words], fractal.folder, environment(**ASKS, **env), 120))
        return terminals[-1]

    yield open_
    for each in terminals:
        each.close()


@pytest.fixture
def model(fractal: Command) -> str:
    """A model that writes two files."""
    plan = PLAN | {"steps": WRITES, "success": [{"file": "b.txt"}]}
    return fractal.script("m.yaml", {"fused": plan, "check": ACCEPT})


def shell(fractal: Command, command: str) -> str:
    plan = PLAN | {"steps": [{"tool": "bash", "args": {"command": command}}], "success": [{"judge": "done"}]}
    return fractal.script("m.yaml", {"fused": plan, "check": ACCEPT})


def run_of(fractal: Command) -> str:
    return json.loads(fractal("ls", "--json").out)[0]["run"]


def test_k_approves_the_kind_and_the_rest_of_the_run_does_not_ask(
    fractal: Command, opened: Open, model: str
) -> None:
    terminal = opened("run", "-m", model, "frobnicate it")
    shown = terminal.until("\n>")
    assert "k: approve, and all of the kind `write` for the rest of this run" in " ".join(shown.split())
    terminal.type("k\n")
    assert terminal.finish() == 0
    assert terminal.text.count("waiting for approval of") == 1
    assert (fractal.folder / "b.txt").exists() and not (fractal.folder / "fractal.yaml").exists()


def test_a_keeps_the_call_and_the_next_run_does_not_ask(fractal: Command, opened: Open, model: str) -> None:
    terminal = opened("run", "-m", model, "frobnicate it")
    terminal.until("\n>")
    terminal.type("a\n")
    terminal.until("b.txt")
    terminal.type("y\n")
    assert terminal.finish() == 0
    (call,) = yaml.safe_load((fractal.folder / "fractal.yaml").read_text())["approved"]
    assert call["args"] == {"path": "a.txt", "content": "a"}
    again = fractal("run", "-m", model, "frobnicate it", env=ASKS)
    assert (
        again.exit == Exit.WAITING and "b.txt" in again.err and "a.txt" not in again.err.split("waiting")[-1]
    )


def test_a_serious_danger_and_a_chain_offer_less(fractal: Command, opened: Open) -> None:
    (fractal.folder / ".env").write_text("KEY=4711\n")
    terminal = opened("run", "-m", shell(fractal, "cat .env"), "frobnicate it")
    shown = terminal.until("\n>")
    assert "(y: approve, n: reject" in shown and "k: " not in shown and "a: approve" not in shown
    terminal.type("k\n")
    terminal.until("k is not offered here")
    terminal.type("n\n")
    assert terminal.finish() != 0
    terminal = opened("run", "-m", shell(fractal, "true && true"), "frobnicate it")
    shown = " ".join(terminal.until("\n>").split())
    assert "a: approve, and always this exact call in this folder" in shown and "k: " not in shown


def test_approve_takes_the_kind(fractal: Command, model: str) -> None:
    assert fractal("run", "-q", "-m", model, "frobnicate it", env=ASKS).exit == Exit.WAITING
    env = {**ASKS, "FRACTAL_MODEL": model}
    both = fractal("approve", "--kind", "--always", env=env)
    assert both.exit == Exit.USAGE and "exclude each other" in both.err
    ran = fractal("approve", "--kind", "--resume", env=env)
    assert ran.exit == 0 and (fractal.folder / "b.txt").exists()
    assert '"approved": "command without terminal, for `write`"' in fractal("show", "--raw").out


def test_approve_keeps_the_call(fractal: Command, model: str) -> None:
    env = {**ASKS, "FRACTAL_MODEL": model}
    assert fractal("run", "-q", "-m", model, "frobnicate it", env=ASKS).exit == Exit.WAITING
    kept = fractal("approve", "--always", env=env)
    assert f"the call is in {fractal.folder}/fractal.yaml, under approved" in kept.err
    assert fractal("resume", env=env).exit == Exit.WAITING  # for the second file
    listed = fractal("config", "--json", env=env).out
    assert "a.txt" in listed


def test_a_chain_is_refused_by_kind_and_nothing_is_approved(fractal: Command) -> None:
    model = shell(fractal, "touch a && touch b")
    assert fractal("run", "-q", "-m", model, "frobnicate it", env=ASKS).exit == Exit.WAITING
    ran = fractal("approve", "--kind", env=ASKS)
    assert ran.exit == Exit.USAGE and "is of no kind; approve this one: fractal approve" in ran.err
    inbox = fractal.folder / ".fractal" / "state" / "runs" / run_of(fractal) / "inbox"
    assert not inbox.exists() or not list(inbox.iterdir())


def test_settings_that_cannot_be_changed_without_a_loss_are_left_and_shown_what_to_add(
    fractal: Command, model: str, tmp_path: Path
) -> None:
    (fractal.folder / "fractal.yaml").write_text('{"retries": 0}')
    assert fractal("run", "-q", "-m", model, "frobnicate it", env=ASKS).exit == Exit.WAITING
    ran = fractal("approve", "--always", env=ASKS)
    assert ran.exit == Exit.USAGE
    assert "add {tool: write, args: {path: a.txt, content: a}, effects: [write]} to its `approved`" in ran.err
    assert (fractal.folder / "fractal.yaml").read_text() == '{"retries": 0}'


def test_a_settings_file_without_permission_is_named(fractal: Command, model: str) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (fractal.folder / "fractal.yaml").write_text("retries: 0\n")
    assert fractal("run", "-q", "-m", model, "frobnicate it", env=ASKS).exit == Exit.WAITING
    fractal.folder.chmod(0o500)
    ran = fractal("approve", "--always", env=ASKS)
    fractal.folder.chmod(0o700)
    assert ran.exit == Exit.CONFIGURATION and "cannot be written" in ran.err
