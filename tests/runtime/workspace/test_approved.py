"""Calls that are approved for good become a line of `fractal.yaml`; the rest of the file stays as it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kernel.document.model import Step
from runtime.api.fractal import Fractal
from runtime.workspace.approved import keep
from runtime.workspace.inserting import ABOUT, with_call

CALL = {"tool": "bash", "args": {"command": "pytest -q"}, "effects": ["shell"]}
LINE = "{tool: bash, args: {command: pytest -q}, effects: [shell]}"
OTHER = "{tool: write, args: {path: a}}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{ABOUT}\napproved:\n- {LINE}\n"),
        ("{}\n", f"{ABOUT}\napproved:\n- {LINE}\n"),
        ("# mine\n", f"# mine\n{ABOUT}\napproved:\n- {LINE}\n"),
        ("usd: 1 # few", f"usd: 1 # few\n{ABOUT}\napproved:\n- {LINE}\n"),
        ("usd: 1\r\n", f"usd: 1\r\n{ABOUT}\r\napproved:\r\n- {LINE}\r\n"),
        (f"approved:\n- {OTHER} # x\nusd: 1\n", f"approved:\n- {LINE}\n- {OTHER} # x\nusd: 1\n"),
        (f"approved:\n  # y\n  - {OTHER}\n# z\n", f"approved:\n  # y\n  - {LINE}\n  - {OTHER}\n# z\n"),
        (
            "approved:\n- tool: write\n  args:\n    path: a\n",
            f"approved:\n- {LINE}\n- tool: write\n  args:\n    path: a\n",
        ),
        ("approved: [] # x\nusd: 1\n", f"approved: [{LINE}] # x\nusd: 1\n"),
        (f"approved: [{OTHER}]\n", f"approved: [{LINE}, {OTHER}]\n"),
        ("usd: 1\napproved:\n", f"usd: 1\napproved:\n- {LINE}\n"),
        ("approved:\nusd: 1\n", f"approved:\n- {LINE}\nusd: 1\n"),
        ("approved: # x\nusd: 1\n", f"approved:\n- {LINE} # x\nusd: 1\n"),
        ('{"usd": 1}', None),
        ("usd: 1\n...\n", None),
        ("- a\n", None),
        ("approved: 7\n", None),
        ("a: [", None),
        ("a: &x 1\nb: *x\n", f"a: &x 1\nb: *x\n{ABOUT}\napproved:\n- {LINE}\n"),
    ],
)
def test_a_call_is_one_more_line_or_it_is_refused(before: str, after: str | None) -> None:
    assert with_call(before, CALL) == after


@given(st.text(min_size=1, max_size=200).filter(lambda text: "\x85" not in text))
def test_any_command_is_read_back_as_it_is_or_refused(command: str) -> None:
    call = {"tool": "bash", "args": {"command": command}}
    for before in ("usd: 1\n", f"approved:\n- {OTHER}\n", f"approved: [{OTHER}]\n"):
        after = with_call(before, call)
        if after is not None:
            calls = yaml.safe_load(after)["approved"]
            assert call in calls and len(calls) == 1 + before.count("tool")


def waiting(**args: Any) -> Step:
    return Step(1, "waiting", "bash", args, evidence={"approval": ["shell"]})


def test_the_file_is_the_one_beside_the_hidden_workspace(tmp_path: Path) -> None:
    (tmp_path / ".fractal" / "state" / "runs").mkdir(parents=True)
    path = keep(
        Fractal(tmp_path).workspace, tmp_path, [waiting(command="pytest -q"), waiting(command="pytest -q")]
    )
    assert path == tmp_path / "fractal.yaml"
    assert yaml.safe_load(path.read_text()) == {"approved": [CALL]}
    again = Fractal(tmp_path)
    assert again.workspace.root == tmp_path / ".fractal" and again.config.approved[0].tool == "bash"


def test_several_at_once_lose_no_call(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").write_text("# mine\nusd: 1\n")
    workspace = Fractal(tmp_path).workspace
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: keep(workspace, tmp_path, [waiting(command=f"echo {n}")]), range(4)))
    text = (tmp_path / "fractal.yaml").read_text()
    commands = {call["args"]["command"] for call in yaml.safe_load(text)["approved"]}
    assert commands == {f"echo {n}" for n in range(4)} and text.startswith("# mine\nusd: 1\n")
