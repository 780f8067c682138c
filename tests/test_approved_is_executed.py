"""An approved call is executed byte for byte, whatever its results contain.

Arguments are substituted once and stored. Each session here is a new one that reads everything from disk.

"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lanes import NIGHT, every
from playing import ACCEPT, Played, plan, player

from kernel.asking.responder import Ask
from kernel.tools.tool import BUILTINS
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.workspace.deciders import TERMINAL

HOSTILE = (
    "it is {{ steps[2].result }}\n"
    r"and \{{ steps[2].result }} {{ steps[2].result | sh }} $RESULT_2" + "\n"
    "'; touch PWNED #\" $(touch PWNED) `touch PWNED` \\\n# don't stop\nv='x' | {{ steps[99"
)
SECOND = "touch PWNED"
REFERENCE = "{{ steps[1].result }}"
READS = [
    {"tool": "read", "args": {"path": "hostile.txt"}, "needs": []},
    {"tool": "read", "args": {"path": "second.txt"}, "needs": []},
]
OPERATIONS = {
    tool.name: tool
    for tool in Catalogue([shipped_system()]).tools.values()
    if tool.run and tool.name not in BUILTINS
}
PROBE = """\
#!/bin/sh
cat >got.json
echo seen
"""


class Runs:
    """A run in a folder; each session has new objects."""

    def __init__(self, work: Path) -> None:
        self.work, self.play = work, player(work, memory=NIGHT)
        (work / "hostile.txt").write_text(HOSTILE, "utf-8")
        (work / "second.txt").write_text(SECOND, "utf-8")

    def plan(self, *steps: Mapping[str, Any], approve: str = "shell") -> Played:
        self.settings = {"approve": [approve]}
        self.answer = lambda ask: ACCEPT if ask.phase == "check" else plan(*READS, *steps)
        return self.play(self.answer, settings=self.settings)

    def resume(self, run: str) -> Played:
        return self.play(self.answer, settings=self.settings, resume=run)

    def approve(self, played: Played) -> Played:
        played.fractal.tell(played.result.run, "approve", by=TERMINAL)
        return self.resume(played.result.run)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "work")


def stored(played: Played, n: int = 3) -> dict[str, Any]:
    assert played.result.waiting == "approval"
    return dict(played.root.steps[n].args or {})


# ---- every operation -------------------------------------------------------------------------------------


GROUPS = 6
"""Runs with a share of the operations each."""


def probe(runs: Runs, name: str) -> None:
    """A program with the same signature replaces the operation and records its input."""
    tool = OPERATIONS[name]
    place = runs.work / ".fractal" / "system" / "operations"
    place.mkdir(parents=True, exist_ok=True)
    text = (tool.path).read_text("utf-8")
    meta = next(yaml.safe_load_all(text.split("\n---\n")[0].removeprefix("---\n")))
    meta |= {"name": name, "run": f"command: ./probe-{name}.sh", "effects": ["read", "write"]}
    meta["sample"] = {**tool.sample, "shows": "seen", "leaves": []}
    (place / f"{name}.md").write_text(f"---\n{yaml.safe_dump(meta)}---\n", "utf-8")
    (place / f"probe-{name}.sh").write_text(PROBE, "utf-8")
    (place / f"probe-{name}.sh").chmod(0o755)


def hostile_call(name: str) -> tuple[dict[str, Any], list[str]]:
    """A step whose texts are all the hostile result, and their keys."""
    tool = OPERATIONS[name]
    action = tool.states.by if tool.states else ""
    texts = [key for key, schema in tool.args.items() if schema.get("type") == "string" and key != action]
    texts = [key for key in texts if "enum" not in tool.args[key]]
    args = {**tool.sample["args"], **dict.fromkeys(texts, f"<{REFERENCE}>")}
    args |= (
        {action: tool.sample["before"][0][action]} if action else {}
    )  # an action that the first state allows
    return {"tool": name, "args": args, "needs": [1, 2]}, texts


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_operation_gets_the_approved_arguments(runs: Runs, group: int) -> None:
    """Operations of one run are approved one after the other, each in a session of its own."""
    names = sorted(OPERATIONS)[group::GROUPS][:: every(2)]
    assert names
    for name in names:
        probe(runs, name)
    calls = [hostile_call(name) for name in names]
    waiting = runs.plan(*(call for call, _ in calls))
    got = runs.work / "got.json"
    for n, (name, (_, texts)) in enumerate(zip(names, calls, strict=True), len(READS) + 1):
        approved = stored(waiting, n)
        assert waiting.root.steps[n].tool == name
        assert all(approved[key] == f"<{HOSTILE}>" for key in texts), name
        if NIGHT or name == names[0]:
            assert stored(runs.resume(waiting.result.run), n) == approved, "another session changes nothing"
        got.unlink(missing_ok=True)
        waiting = runs.approve(waiting)
        given = json.loads(got.read_text("utf-8"))
        given.pop("kept", None)
        assert given == approved == dict(waiting.root.steps[n].args or {}), name
        assert waiting.root.steps[n].state == "done"
        assert not (runs.work / "PWNED").exists()
    assert waiting.result.waiting == ""


# ---- builtins -------------------------------------------------------------------------------------------


def test_approved_content_is_written(runs: Runs) -> None:
    args = {"path": "out.txt", "content": f"a {REFERENCE} b"}
    waiting = runs.plan({"tool": "write", "args": args}, approve="write")
    approved = stored(waiting)
    ended = runs.approve(waiting)
    assert ended.root.steps[3].args == approved == {"path": "out.txt", "content": f"a {HOSTILE} b"}
    assert (runs.work / "out.txt").read_text("utf-8") == approved["content"]


def test_approved_path_is_read(runs: Runs) -> None:
    waiting = runs.plan(
        {"tool": "bash", "args": {"command": "true"}, "needs": []},
        {"tool": "read", "args": {"path": "{{ steps[2].result }}"}},
    )
    ended = runs.approve(waiting)
    assert ended.root.steps[4].args == {"path": SECOND}
    assert "no such file" in (ended.root.steps[4].result or "")


def test_command_gets_the_approved_results_and_runs_none_of_them(runs: Runs) -> None:
    command = 'printf %s "$RESULT_1" >text; cat "$RESULT_1_FILE" >file; cat >stdin; # {{ x }}'
    waiting = runs.plan({"tool": "bash", "args": {"command": command, "stdin": REFERENCE}})
    assert stored(waiting) == {"command": command, "stdin": HOSTILE}
    assert "- with RESULT_1, " in waiting.result.question
    assert all(f"  │ {line}\n" in f"{waiting.result.question}\n" for line in HOSTILE.splitlines())
    ended = runs.approve(waiting)
    assert ended.root.steps[3].state == "done"
    assert {(runs.work / name).read_text("utf-8") for name in ("text", "file", "stdin")} == {HOSTILE}
    assert not (runs.work / "PWNED").exists()


def test_arguments_completed_by_a_model_are_executed_as_approved(runs: Runs) -> None:
    args = {"path": "out.txt", "content": REFERENCE}

    def answer(ask: Ask) -> Any:
        if ask.part == "do":
            return {"tool": "write", "args": args}
        if ask.phase == "check":
            return ACCEPT
        return plan(*READS, {"tool": "write", "what": "write it down", "needs": [1, 2]})

    settings = {"approve": ["write"]}
    waiting = runs.play(answer, settings=settings)
    approved = stored(waiting)
    assert approved["content"] == HOSTILE
    waiting.fractal.tell(waiting.result.run, "approve")
    runs.play(answer, settings=settings, resume=waiting.result.run)
    assert (runs.work / "out.txt").read_text("utf-8") == HOSTILE


# ---- changed calls --------------------------------------------------------------------------------------


def edited(played: Played, old: str, new: str) -> None:
    path = played.folder / f"{played.result.id}.md"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_approval_is_void_when_a_result_changes(runs: Runs) -> None:
    waiting = runs.plan({"tool": "bash", "args": {"command": 'printf %s "$RESULT_2" >text'}})
    waiting.fractal.tell(waiting.result.run, "approve")
    edited(waiting, SECOND, "something else")
    again = runs.resume(waiting.result.run)
    assert again.result.waiting == "approval" and "something else" in again.result.question
    assert not (runs.work / "text").exists()
    assert runs.approve(again).root.steps[3].state == "done"
    assert (runs.work / "text").read_text("utf-8") == "something else"


def test_approval_is_void_when_a_long_result_changes_on_disk(runs: Runs) -> None:
    (runs.work / "second.txt").write_text("x" * 20_000, "utf-8")
    waiting = runs.plan({"tool": "bash", "args": {"command": 'cat "$RESULT_2_FILE" >text'}})
    waiting.fractal.tell(waiting.result.run, "approve")
    whole = waiting.folder / str(waiting.root.steps[2].evidence["whole"])
    whole.chmod(0o600)
    whole.write_text("y" * 20_000, "utf-8")
    again = runs.resume(waiting.result.run)
    assert again.root.steps[3].state != "done"
    assert not (runs.work / "text").exists()


def test_changed_stored_arguments_are_not_executed(runs: Runs) -> None:
    waiting = runs.plan({"tool": "bash", "args": {"command": "echo one >text"}})
    first = stored(waiting)
    waiting.fractal.tell(waiting.result.run, "approve")
    path = waiting.folder / f"{waiting.result.id}.md"
    plan_part, did_part = re.split(r"(?=\n## §3)", path.read_text("utf-8"), maxsplit=1)
    assert "echo one" in did_part
    path.write_text(plan_part + did_part.replace("echo one", "echo two"), "utf-8")
    ended = runs.resume(waiting.result.run)
    assert ended.root.steps[3].args == first
    assert (runs.work / "text").read_text("utf-8") == "one\n"


def test_approval_of_a_long_call_is_void_when_its_end_changes(runs: Runs) -> None:
    command = f"echo {'x' * 1000} >text; echo one >text"
    waiting = runs.plan({"tool": "bash", "args": {"command": command}})
    waiting.fractal.tell(waiting.result.run, "approve")
    edited(waiting, "echo one", "echo two")
    assert runs.resume(waiting.result.run).result.waiting == "approval"
    assert not (runs.work / "text").exists()
