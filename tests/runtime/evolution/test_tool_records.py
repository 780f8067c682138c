"""Programs are used once their own sample has passed, and not after they have failed too often."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, plan
from workshop_place import SHOUT, Place, boxed, pattern

from kernel.asking.responder import Ladder
from kernel.document.model import Document
from runtime.api.fractal import Fractal, RunResult
from runtime.evolution.files import with_field
from runtime.models.scripted import Scripted

BROKEN = "import sys\nsys.exit('no voice')\n"
MOODY = """import json, sys
sys.exit("no") if json.load(sys.stdin)["text"] == "bad" else print("HELLO")
"""
STEP = {"tool": "shout", "args": {"text": "hello"}}


def run(place: Place, *steps: Any, **settings: Any) -> tuple[RunResult, Document]:
    model = Scripted({"plan": plan(*(steps or (STEP,))), "check": dict(ACCEPT)})
    fractal = Fractal(
        place.folder,
        settings={"sandbox": "off", "check": "always", "retries": 0, **settings},
        ladder=Ladder((model,)),
        on_event=place.events.append,
    )
    result = asyncio.run(fractal.run("shout hello"))
    return result, fractal.document(result.id)


def test_a_program_that_a_person_put_there_is_tested_before_its_first_use(place: Place):
    place.shout()
    _, root = run(place)
    assert root.steps[1].result == "HELLO"
    record = place.records.get(place.tool("shout"))
    assert (record.passed, record.run, record.failures) == (True, root.meta.run, 0)
    assert "its sample passed" in record.note


@boxed
def test_the_sample_runs_in_the_sandbox(place: Place):
    where = "import os\nprint('HELLO', os.path.exists('/proc/1/root') and os.getpid() < 50)\n"
    place.shout(program=where, sample={"task": "t", "args": {"text": "x"}, "shows": "HELLO True"})
    _, root = run(place, sandbox="bwrap")
    assert root.steps[1].result == "HELLO True"


def test_a_sample_is_run_once_for_each_version(place: Place, tmp_path: Path):
    log = tmp_path / "log"
    counting = f"open({str(log)!r}, 'a').write('x')\n"
    place.shout(program=counting + SHOUT)
    for _ in range(3):
        run(place)
    assert len(log.read_text()) == 4  # one sample, three calls
    place.put("tools/shout/tool.py", counting + "# changed\n" + SHOUT)
    run(place)
    assert len(log.read_text()) == 6


def test_a_changed_program_whose_sample_fails_is_refused_and_quarantined(place: Place):
    place.shout()
    run(place)
    place.put("tools/shout/tool.py", BROKEN)
    _, root = run(place)
    assert root.steps[1].state == "failed"
    for words in ("no voice", "quarantined", "fractal tools test shout"):
        assert words in str(root.steps[1].result)
    assert place.tool("shout").status == "quarantined"
    assert "shout" not in place.catalogue().tools
    assert place.entries[-1].author == "fractal"
    assert place.entries[-1].run == root.meta.run
    assert "no voice" in place.entries[-1].reason
    assert any("quarantined tool shout" in message for message in place.messages)


def test_a_program_without_a_sample_is_refused_and_left_as_it_is(place: Place):
    place.shout(sample=None)
    before = place.files()
    _, root = run(place)
    assert "a task and shows" in str(root.steps[1].result)
    assert place.files() == before


def test_where_the_sandbox_does_not_work_nothing_is_held_against_the_tool(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    only = tmp_path / "bin"
    only.mkdir()
    (only / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(only))
    place.shout()
    _, root = run(place, sandbox="bwrap")
    assert "bubblewrap" in str(root.steps[1].result)
    assert place.tool("shout").status == "active"
    assert place.records.get(place.tool("shout")).passed is None


def test_a_sample_that_may_fail_for_want_of_the_network_quarantines_nothing(place: Place):
    place.shout(program=BROKEN, effects=["network"])
    _, root = run(place)
    assert "network: true" in str(root.steps[1].result)
    assert place.tool("shout").status == "active"


def test_a_guided_tool_that_a_person_wrote_needs_no_test(place: Place):
    place.put("tools/calm/pattern.md", pattern("calm", run=None, args=None, required=None, sample=None))
    assert asyncio.run(place.records.admitted(None, place.tool("calm"))) == ""  # type: ignore[arg-type]


def test_a_tool_that_fails_three_times_in_a_row_is_quarantined(place: Place):
    place.shout(program=MOODY)
    bad = {"tool": "shout", "args": {"text": "bad"}}
    run(place, bad)
    run(place, STEP)  # a call that goes well: the row begins anew
    run(place, bad)
    run(place, bad)
    assert place.tool("shout").status == "active"
    run(place, bad)
    assert place.tool("shout").status == "quarantined"
    assert "failed 3 times in a row" in place.entries[-1].reason


def test_how_often_a_tool_may_fail_is_a_setting(place: Place):
    place.shout(program=MOODY)
    run(place, {"tool": "shout", "args": {"text": "bad"}}, quarantine_after=1)
    assert place.tool("shout").status == "quarantined"


def test_a_call_with_wrong_arguments_is_not_held_against_the_tool(place: Place):
    place.shout(args={"text": {"type": "string"}, "times": {"type": "integer"}})
    write = {"tool": "write", "args": {"path": "a.txt", "content": "a"}}
    _, root = run(place, write, {"tool": "shout", "args": {"text": "x", "times": "{{ steps[1].result }}"}})
    assert "times must be integer" in str(root.steps[2].result)
    assert place.records.get(place.tool("shout")).failures == 0


def test_a_tool_that_ships_is_never_quarantined_for_its_failures(place: Place):
    for _ in range(4):
        run(place, {"tool": "read", "args": {"path": "nothing.txt"}})
    assert place.catalogue().tools["read"].status == "active"
    assert not place.system.exists()


def test_a_broken_record_only_means_a_test_more(place: Place):
    place.shout()
    run(place)
    place.records.path.write_text("{broken")
    _, root = run(place)
    assert root.steps[1].result == "HELLO"
    assert place.records.get(place.tool("shout")).passed is True


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "---\nname: a\nstatus: active\n---\nstatus: active\n",
            "---\nname: a\nstatus: retired\n---\nstatus: active\n",
        ),
        ("---\nname: a\n---\n", "---\nname: a\nstatus: retired\n---\n"),
        ("---\r\nname: a\r\n---\r\nx", "---\r\nname: a\r\nstatus: retired\r\n---\r\nx"),
        ("---\nsample:\n  status: x\n---\n", "---\nsample:\n  status: x\nstatus: retired\n---\n"),
    ],
)
def test_a_field_is_set_and_nothing_else_is_touched(before: str, after: str):
    assert with_field(before, "status", "retired") == after
