"""No input of a model, a person or a file crashes a run: it ends or waits with a clear message.

Each test injects an invalid input; the run ends or waits, and `resume` with a correct model continues.

"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT, within
from playing import ACCEPT, Play, Played, plan, player

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import ConfigurationError, FractalError
from kernel.events import Event
from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal
from runtime.evolution.sample_tests import try_sample
from runtime.models.scripted import Scripted
from runtime.operations.running import caller
from runtime.safety.rules import merged_rules
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "x"}}


@pytest.fixture
def forgetful(tmp_path: Path) -> Play:
    """Plays tasks without memory by day: what a run leaves in it takes as long as the run."""
    return player(tmp_path / "work", memory=NIGHT)


def honest(ask: Ask) -> Any:
    """A model that does the task."""
    if ask.phase == "work":
        return {"calls": [WRITE], "done": "written"}
    return ACCEPT if ask.phase == "check" else plan(WRITE, success=[{"file": "a.txt"}])


def deep(levels: int) -> str:
    return '{"task":' * levels + "1" + "}" * levels


GROUPS = "(" * 400 + ")" * 400
FILTERS = " | upper" * 250
PLANS: dict[str, Any] = {
    "a pattern with a count too large": plan(WRITE, success=[{"file": "a.txt", "has": "a{99999999999999}"}]),
    "a pattern of many groups": plan(WRITE, success=[{"file": "a.txt", "has": "(" * 3000 + ")" * 3000}]),
    "a pattern of groups that just fits": plan(WRITE, success=[{"file": "a.txt", "has": GROUPS}]),
    "a pattern that is a list": plan(WRITE, success=[{"file": "a.txt", "has": ["a", {"b": 1}]}]),
    "a criterion about a step with a large number": plan(WRITE, success=[{"step": 10**400, "has": "x"}]),
    "a criterion about a step that is true": plan(WRITE, success=[{"step": True, "has": "x"}]),
    "a criterion about a file with NUL": plan(WRITE, success=[{"file": "a\0b"}]),
    "a criterion about a file with a long name": plan(WRITE, success=[{"file": "a" * 5000}]),
    "a criterion about half a letter": plan(WRITE, success=[{"file": "\ud800", "has": "\udfff"}]),
    "a command with NUL": plan(WRITE, success=[{"run": "echo \0"}]),
    "a command of megabytes": plan(WRITE, success=[{"run": "echo " + "x" * 3_000_000}]),
    "a reference with many digits": plan(
        WRITE, {"tool": "write", "args": {"path": "b", "content": "{{ steps[" + "9" * 5000 + "].result }}"}}
    ),
    "a reference with many filters": plan(
        WRITE, {"tool": "write", "args": {"path": "b", "content": f"{{{{ steps[1].result{FILTERS} }}}}"}}
    ),
    "a reference that fills the memory": plan(
        WRITE,
        {"tool": "write", "args": {"path": "b", "content": "{{ steps[1].result.ljust(9000000000) }}"}},
    ),
    "a reference that is no expression": plan(
        WRITE, {"tool": "write", "args": {"path": "b", "content": "{{ steps[1].result | (((((( }}"}}
    ),
    "needs with a large number": plan({**WRITE, "needs": [2**80]}),
    "needs below nothing": plan({**WRITE, "needs": [-1]}),
    "half letters everywhere": plan(
        {"tool": "write", "args": {"path": "\ud800", "content": "\udfff", "\ud800": 1}}, approach="\ud800"
    ),
    "an argument with a strange name": plan({"tool": "write", "args": {"": 1, "`a`\n## §5 OUTPUT": [{}]}}),
    "a path with NUL": plan({"tool": "read", "args": {"path": "\0"}}),
    "a path that is far too long": plan({"tool": "read", "args": {"path": "x/" * 50_000}}),
    "a path of megabytes": plan({"tool": "read", "args": {"path": "x/" * 1_000_000}}),
    "steps that are a word": {**plan(), "steps": "write"},
    "a nested object": deep(60),
    "an object nested too far": deep(100_000),
    "a number without an end": '{"task": ' + "9" * 100_000 + "}",
    "no object": "I would rather not.",
    "nothing": "",
    "an object that is cut off": '{"task": "do',
}
VERDICTS: dict[str, Any] = {
    "an output with many digits": {**ACCEPT, "output": "{{ steps[" + "9" * 5000 + "].result }}"},
    "an output with many filters": {**ACCEPT, "output": f"{{{{ steps[1].result{FILTERS} }}}}"},
    "an output of half a letter": {**ACCEPT, "output": "\ud800", "learned": "\udfff"},
    "a look at nothing": {"look": {"tool": "read", "args": {"path": "\0"}}},
    "a look at a list": {"look": {"tool": "read", "args": {"path": [1]}}},
    "a look with a pattern": {"look": {"tool": "grep", "args": {"pattern": "a{99999999999999}"}}},
    "issues that are a number": {**ACCEPT, "issues": 5},
}
FINE = ("complete", "unverified", "escalated", "failed", "exhausted", "waiting")


@pytest.mark.parametrize(
    "poison",
    [
        pytest.param(each, id=name, marks=pytest.mark.night if name == "a path of megabytes" else ())
        for name, each in PLANS.items()
    ],
)
def test_invalid_plan_ends_the_run_cleanly(play: Play, poison: Any) -> None:
    """A model that always replies so is given up with a reason."""
    stuck = play(lambda ask: ACCEPT if ask.phase == "check" else poison)
    assert stuck.result.status in FINE
    assert stuck.result.status in ("complete", "waiting") or stuck.result.reason


@pytest.mark.parametrize("poison", VERDICTS.values(), ids=VERDICTS)
def test_invalid_verdict_ends_the_run_cleanly(play: Play, poison: Any) -> None:
    stuck = play(lambda ask: poison if ask.phase == "check" else honest(ask))
    assert stuck.result.status in FINE
    assert stuck.result.status in ("complete", "waiting") or stuck.result.reason


@pytest.mark.parametrize(
    "name", ["a pattern with a count too large", "a reference with many digits", "no object"]
)
def test_invalid_logged_reply_does_not_stop_resume(forgetful: Play, name: str) -> None:
    """The reply is in the log of a process that crashed before reading it."""
    crashed = forgetful(_crashing)
    assert crashed.result.status == "interrupted"
    _log(crashed, PLANS[name])
    resumed = forgetful(honest, resume=crashed.result.run)
    assert resumed.result.status == "complete"
    assert resumed.root.meta.rungs[0]["phase"] == "turn"


def _crashing(ask: Ask) -> Any:
    raise asyncio.CancelledError


def _log(played: Played, poison: Any) -> None:
    """Log this reply for the open ask."""
    log = played.folder / "calls.jsonl"
    asked = json.loads(log.read_text("utf-8").splitlines()[-1])
    reply = {"text": poison if isinstance(poison, str) else json.dumps(poison), "model": "scripted"}
    line = {**asked, **reply, "kind": "replied", "truncated": False}
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")


MESSAGES: dict[str, bytes] = {
    "a number": b"5",
    "a list": b"[]",
    "no kind": b'{"text": "x"}',
    "another kind": b'{"kind": "approve"}',
    "nothing": b"",
    "half a message": b'{"kind": "ans',
    "Latin-1": '{"kind": "answer", "text": "ä"}'.encode("latin-1"),
    "nested too far": b"[" * 100_000,
    "two megabytes": b'{"kind": "answer", "text": "' + b"x" * 2_000_000 + b'"}',
}


@pytest.mark.parametrize(
    "names", [[*MESSAGES], *(pytest.param([name], id=name, marks=pytest.mark.night) for name in MESSAGES)]
)
def test_invalid_messages_are_set_aside_with_a_warning(forgetful: Play, names: list[str]) -> None:
    asked = forgetful(lambda ask: plan(question="which?"))
    assert asked.result.status == "waiting"
    inbox = asked.folder / "inbox"
    inbox.mkdir(exist_ok=True)
    wrong = [f"{n:04}-answer" for n in range(len(names))]
    for name, file in zip(names, wrong, strict=True):
        (inbox / f"{file}.json").write_bytes(MESSAGES[name])
    (inbox / "0101-cancel.json").mkdir()
    os.mkfifo(inbox / "0102-approve.json")
    asked.fractal.tell(asked.result.run, "answer", text="the first")
    again = forgetful(honest, resume=asked.result.run)
    assert again.result.exit == 0
    assert again.root.text(1, "answer") == "the first"
    warnings = " ".join(str(e.data["message"]) for e in again.events if e.kind == "warning")
    assert all(f"{inbox / file}.json: not a message" in warnings for file in (*wrong, "0101-cancel"))
    set_aside = [*wrong, "0101-cancel", "0102-approve"]
    assert sorted(path.name for path in inbox.iterdir()) == [f"{file}.bad" for file in set_aside]


SAMPLES = {
    "files: [a.txt]": "files: a mapping of paths to texts",
    "files: {a.txt: [1]}": "files: a mapping of paths to texts",
    "leaves: 3": "leaves: a list of paths",
    "leaves: [3]": "leaves: a list of paths",
    "before: 5": "before: a list of mappings",
    "before: [5]": "before: a list of mappings",
    "args: [5]": "args: a mapping of names",
    "task: [5]": "task: a text",
}


@pytest.mark.parametrize(("line", "message"), SAMPLES.items())
def test_invalid_sample_is_reported_as_a_fault_of_the_draft(forgetful: Play, line: str, message: str) -> None:
    pattern = (
        '---\ndescription: counts\nrun: "command: ./c.sh"\neffects: [read]\n'
        f"sample: {{task: count, shows: one, {line}}}\n---\nIt counts.\n"
    )
    steps = [
        {"tool": "write", "args": {"path": "system/tools/counts/pattern.md", "content": pattern}},
        {"tool": "write", "args": {"path": "system/tools/counts/c.sh", "content": "echo one\n"}},
    ]
    steps = [{**each, "args": {**each["args"], "path": f".fractal/{each['args']['path']}"}} for each in steps]
    seen: list[str] = []

    def answer(ask: Ask) -> Any:
        seen.append(prompt_text(ask))
        return ACCEPT if ask.phase == "check" else plan(*steps)

    assert forgetful(answer).result.status in FINE
    assert f"tools/counts/pattern.md:1: sample: {message}" in "".join(seen)


def test_sample_with_impossible_paths_fails(tmp_path: Path) -> None:
    for path in ("a\0b", "x" * 5_000, "."):
        tool = Tool("t", tmp_path / "t.md", "d", run="command: ./t.sh", sample={"files": {path: "x"}})
        context = OperationContext(tmp_path, Sandbox("off"))
        passed, why = asyncio.run(try_sample(tool, context, caller()))
        assert not passed
        assert "sample: " in why


def test_repeated_internal_error_ends_the_loop_and_can_be_resumed_after_a_fix(tmp_path: Path) -> None:
    """The listener stands for any code of ours with a bug."""

    def fractal(faulty: bool) -> Fractal:
        def listen(event: Event) -> None:
            events.append(event)
            if faulty and event.kind == "phase_started" and event.data["phase"] == "do":
                raise ZeroDivisionError("nobody foresaw it")

        ladder = Ladder((Scripted(honest),))
        return Fractal(tmp_path, settings={"sandbox": "off"}, ladder=ladder, on_event=listen)

    events: list[Event] = []
    place = r"\(\w+/[\w/]+\.py:\d+\)"
    with pytest.raises(FractalError, match=f"DO, attempt 1: .*ZeroDivisionError: nobody foresaw it {place}"):
        asyncio.run(fractal(True).run("do the work"))
    (run,) = fractal(True).runs()
    assert run.status == "interrupted"
    assert any("nobody foresaw" in str(each.data) for each in events if each.kind == "warning")
    ended = asyncio.run(fractal(True).resume())
    assert ended.status == "failed"
    assert "nobody foresaw" in ended.reason
    ended.path.write_text(ended.path.read_text("utf-8").replace('"failed"', '"ready"', 1), "utf-8")
    assert asyncio.run(fractal(False).resume(run.run)).status == "complete"


DEEP = "[" * 3_000
FILES: dict[str, bytes] = {
    "not UTF-8": b"\xff\xfe\x00",
    "eleven megabytes": b"x\n" * 5_500_000,
    "a folder": b"folder",
    "a pipe": b"pipe",
}


PLACES = ["system/phases/turn.md", "system/dangers.md", "fractal.yaml"]
BY_DAY = {(PLACES[0], each) for each in FILES}
BY_DAY |= {(PLACES[1], "a folder"), (PLACES[2], "a pipe"), (PLACES[2], "eleven megabytes")}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(
            name, FILES[each], id=f"{name}-{each}", marks=() if (name, each) in BY_DAY else pytest.mark.night
        )
        for name in PLACES
        for each in FILES
    ],
)
def test_unreadable_system_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    """The run reports the file and continues once it is fixed."""
    (tmp_path / ".fractal" / "state").mkdir(parents=True)
    path = tmp_path / ".fractal" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content in (b"folder", b"pipe"):
        (Path.mkdir if content == b"folder" else os.mkfifo)(path)
    else:
        path.write_bytes(content)

    def run() -> Any:
        settings = {"sandbox": "off", "remember": NIGHT, "recall": NIGHT}
        fractal = Fractal(tmp_path, settings=settings, ladder=Ladder((Scripted(honest),)))
        waits = [each.run for each in fractal.runs()]
        return asyncio.run(fractal.resume(waits[0]) if waits else fractal.run("do the work"))

    with pytest.raises(ConfigurationError, match=re.escape(str(path))):
        run()
    path.rmdir() if path.is_dir() else path.unlink()
    assert run().status == "complete"


RULE = "### a\n\nIt is bad.\n\n```yaml\nseverity: danger\neffect: shell\nmatch: %s\n```\n"
MATCHES = {
    "deep YAML": DEEP,
    "a deep pattern": "[{does: run, argument: '" + "(" * 3_000 + ")" * 3_000 + "'}]",
    "a number too large": "[{does: run, argument: 'a{99999999999999}'}]",
    "a number": "[5]",
}


@pytest.mark.parametrize("match", MATCHES.values(), ids=MATCHES)
def test_invalid_danger_rule_is_named_with_its_line(tmp_path: Path, match: str) -> None:
    (tmp_path / "dangers.md").write_text(RULE % match)
    with pytest.raises(ConfigurationError, match=rf"{re.escape(str(tmp_path))}/dangers\.md:\d+: "):
        merged_rules([tmp_path])


def _gz(raw: bytes) -> bytes:
    return gzip.compress(raw, mtime=0)


def _zip_without_a_name() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr("x", "content")
        packed.filelist[0].filename = ""
    return made.getvalue()


ARCHIVES: dict[str, bytes] = {
    "x.tar": b"x" * 2_000,
    "x.tar.xz": b"x" * 2_000,
    "x.tar.bz2": b"x" * 2_000,
    "cut.tar.gz": _gz(random.Random(1).randbytes(4_000))[:-300],
    "cut.tgz": _gz(b"")[:5],
    "nameless.zip": _zip_without_a_name(),
    "x.zip": b"PK\x03\x04" + b"x" * 100,
    "empty.tar": b"",
}


@pytest.mark.parametrize("action", ["list", "extract"])
def test_invalid_archive_fails_its_step(forgetful: Play, tmp_path: Path, action: str) -> None:
    for name, raw in ARCHIVES.items():
        (tmp_path / "work" / name).write_bytes(raw)
    steps = [{"tool": "archive", "args": {"action": action, "path": name}, "needs": []} for name in ARCHIVES]
    played = forgetful(
        lambda ask: {**ACCEPT, "decision": "ESCALATE"} if ask.phase == "check" else plan(*steps)
    )
    assert played.result.status == "escalated"
    for step in played.root.steps.values():
        assert step.state == "failed" or step.args["path"] == "empty.tar"
        assert step.state == "done" or str(step.args["path"]) in str(step.result), step.result


def test_pipes_do_not_block_a_run(forgetful: Play, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "work" / "pipe")
    (tmp_path / "work" / "a.txt").write_text("word\n")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": "pipe"}),
        ("grep", {"pattern": "word", "path": "pipe"}),
        ("grep", {"pattern": "word"}),
        ("count", {"what": "lines", "path": "pipe"}),
        ("count", {"what": "lines", "glob": "*"}),
        ("search", {"query": "word"}),
        ("checksum", {"path": "pipe"}),
        ("compare", {"a": "pipe", "b": "a.txt"}),
        ("csv", {"path": "pipe", "query": "count"}),
        ("json", {"path": "pipe", "query": "a"}),
        ("sort", {"path": "pipe"}),
        ("edit", {"path": "pipe", "old": "a", "new": "b"}),
        ("write", {"path": "pipe", "content": "x"}),
        ("copy", {"from": "pipe", "to": "b"}),
        ("archive", {"action": "create", "path": "p.zip", "files": ["pipe"]}),
        ("archive", {"action": "create", "path": "all.zip"}),
        ("archive", {"action": "list", "path": "pipe"}),
        ("database", {"action": "connect", "path": "pipe"}),
    ]
    steps = [{"tool": tool, "args": args, "needs": []} for tool, args in calls]
    with within(30):
        played = forgetful(
            lambda ask: ACCEPT if ask.phase == "check" else plan(*steps, success=[{"file": "pipe"}])
        )
    assert played.result.status in FINE
    states = {n: step.state for n, step in played.root.steps.items()}
    well = {n for n, state in states.items() if state == "done"}
    assert {calls[n - 1][0] for n in well} <= {"grep", "count", "search", "archive"}
    assert {3, 5, 16} <= well
