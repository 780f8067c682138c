"""The tool `build`: what it makes is tested, fixed, given up, and used again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playing import ACCEPT, Play, plan
from self_building import SYSTEM, by_loop, call, done, judged, settings, trials_of, write

from kernel.asking.conversation import INDEX_HEAD
from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.errors import Exit
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted

BUILD = Catalogue([shipped_system()]).tools["build"]
SLUG = """---
name: slug
description: a file name from a title
args: {title: {type: string}}
required: [title]
run: "command: ./tool.py"
effects: []
sample:
  task: a file name for Green Tea, 1931
  args: {title: "Green Tea, 1931"}
  shows: "^green-tea-1931$"
---
"""
PROGRAM = """import json, re, sys
title = json.load(sys.stdin)["title"].lower()
print(json.dumps({"result": re.sub("PATTERN", "-", title)}))
"""
WRONG, RIGHT = PROGRAM.replace("PATTERN", "[^a-z0-9]"), PROGRAM.replace("PATTERN", "[^a-z0-9]+")
TALLY = """---
name: tally
description: how many lines of each kind a text file has
effects: [read, shell]
sample:
  task: How often does each word stand in words.txt?
  shows: "tea 2"
---
Count with tools, never in the head.

## UNDERSTAND
Which file, what makes a kind.

## PLAN
One `bash` with sort and uniq.

## DO
One call.

## CHECK
output: the counts.
"""


def builder(attempts: list[Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]) -> Scripted:
    """A model that delegates to `build` and replies in its loop; `others` are further loops."""
    root = {
        "plan": plan({"tool": "build", "what": "Write it and try it"}),
        "check": lambda ask: end(ask),
    }
    loop = {
        "plan": attempts,
        "check": lambda ask: judged(ask, "it is there, and its sample passed"),
    }
    return by_loop({"Write it": loop, **others, "": root})


def index(ask: Ask) -> list[str]:
    """The names of the tools that a turn reaches by `use`."""
    line = next(each for each in ask.messages[1]["content"].splitlines() if each.startswith(INDEX_HEAD))
    return line.removeprefix(INDEX_HEAD).split(", ")


def end(ask: Ask) -> dict[str, Any]:
    """The verdict of the root: the result of its step, or ESCALATE if it failed."""
    if ask.evidence["failed_steps"]:
        why = ask.document.steps[1].result or ""
        return {"validation": "fail", "issues": [why], "decision": "ESCALATE", "output": ""}
    return {**ACCEPT, "output": "{{ steps[1].result }}"}


def written(**files: str) -> dict[str, Any]:
    names = {"pattern": "tools/slug/pattern.md", "tool": "tools/slug/tool.py"}
    return plan(*(write(names[name], text, needs=[]) for name, text in files.items()))


def test_build_writes_tests_and_fixes_a_tool(play: Play, tmp_path: Path) -> None:
    model = builder([written(pattern=SLUG, tool=WRONG), written(tool=RIGHT)], {})
    played = play(model, BUILD.sample["task"], settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    assert "build" in index(model.asks[0])
    loop = f"tool-build-{played.result.run}-1"
    plans = [prompt_text(ask) for ask in model.asks if (ask.loop, ask.phase) == (loop, "turn")]
    assert all('run: "command: ./tool.py"' in each and "## About build" in each for each in plans)
    assert "does not show '^green-tea-1931$': green-tea--1931" in plans[1]  # learned by RETRY
    assert trials_of(played, loop) == trials_of(played) == {"tools/slug": "pass"}
    for name in BUILD.sample["leaves"]:
        assert (tmp_path / "work" / name).is_file()
    again = Scripted([plan({"tool": "slug", "args": {"title": "Tea & more"}}), ACCEPT])
    used = play(again, "a file name for Tea & more", settings=settings())
    assert "slug" in index(again.asks[0])
    assert used.root.steps[1].result == "tea-more"


def test_plan_may_call_a_tool_that_its_own_steps_write(play: Play) -> None:
    place = f"{SYSTEM}/tools/slug"
    whole = plan(
        {"tool": "bash", "args": {"command": "echo Green Tea"}, "needs": []},
        {"tool": "write", "what": f"{place}/pattern.md, by what step 1 shows", "needs": [1]},
        {"tool": "write", "what": f"{place}/tool.py", "needs": [1, 2]},
        {"tool": "slug", "args": {"title": "{{ steps[1].result }} - 2"}, "needs": [3]},
        success=[{"step": 4, "has": "^green-tea-2$"}],
    )
    texts = {2: ("pattern.md", SLUG), 3: ("tool.py", RIGHT)}

    def write(ask: Ask) -> Any:
        name, text = texts[ask.step]
        return {"tool": "write", "args": {"path": f"{place}/{name}", "content": text}}

    loop = {
        "plan": whole,
        "do": write,
        "check": lambda ask: judged(ask, "slug"),
    }
    root = {"plan": plan({"tool": "build", "what": "Write it"}), "check": end}
    model = by_loop({"Write it": loop, "": root})
    played = play(model, "Build slug", settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    asked = [prompt_text(ask) for ask in model.asks if ask.part == "do"]
    assert all('run: "command: ./tool.py"' in each for each in asked)  # the form of a tool
    assert "green-tea-1931" in asked[1]  # the file that the step before wrote
    built = played.documents[f"tool-build-{played.result.run}-1"]
    assert built.steps[4].result == "green-tea-2"
    assert not [each for each in played.events if each.kind == "ask_refused"]


def test_guidance_is_tested_by_a_subtask_before_it_is_accepted(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "words.txt").write_text("tea\nmilk\ntea\n", "utf-8")
    task = "How often does each word stand in words.txt?"
    first = plan(write("tools/tally/pattern.md", TALLY))
    count = "sort words.txt | uniq -c | sort -rn | awk '{print $2, $1}'"
    tally = {
        "plan": plan({"tool": "bash", "args": {"command": count}}),
        "check": {**ACCEPT, "output": "{{ steps[1].result }}"},
    }
    model = builder([first, plan({"tool": "tally", "what": task})], {"How often": tally})
    played = play(model, "Teach yourself to count kinds of lines", settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    loop = played.documents[f"tool-build-{played.result.run}-1"]
    assert "no step has tried it as it stands" in loop.section(2).folds[0].notes[1].text
    assert re.search(r"tea 2.* \(tool-build-\w+-1, step 2\)", loop.text(4, "evidence"))
    trial = next(ask for ask in model.asks if ask.phase == "turn" and ask.document.meta.type == "tally")
    assert "## About tally\nCount with tools" in trial.messages[1]["content"]
    assert "## PLAN\nOne `bash` with sort and uniq." in trial.messages[1]["content"]
    assert (
        "tally"
        in play(
            Scripted([plan({"tool": "bash", "args": {"command": "true"}}), ACCEPT]),
            "count kinds of lines",
            settings=settings(),
        )
        .fractal.catalogue()
        .tools
    )


def test_guidance_is_written_and_tried_by_turns(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "words.txt").write_text("tea\nmilk\ntea\n", "utf-8")
    task = "How often does each word stand in words.txt?"
    count = call("bash", command="sort words.txt | uniq -c | sort -rn | awk '{print $2, $1}'")
    loops = {
        "Teach": {
            "turns": [
                [call("subtask", task="Write it and try it", tool="build")],
                [done("tally is there")],
            ],
            "check": ACCEPT,
        },
        "Write it": {
            "turns": [
                [write("tools/tally/pattern.md", TALLY), done("tally is there")],
                [call("subtask", task=task, tool="tally"), done("tally is there")],
            ],
            "check": lambda ask: judged(ask, "it is there"),
        },
        "How often": {
            "turns": [[count], [done("tea 2, milk 1")]],
            "check": {**ACCEPT, "output": "{{ steps[1].result }}"},
        },
    }
    model = by_loop(loops)
    played = play(model, "Teach yourself to count kinds of lines", settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    builder = played.documents[f"tool-build-{played.result.run}-1"]
    assert "no step has tried it as it stands" in builder.text(3, "not yet")
    trial = next(ask for ask in model.asks if ask.phase == "turn" and ask.document.meta.type == "tally")
    assert "## About tally\nCount with tools" in trial.messages[1]["content"]
    assert trials_of(played) == {"tools/tally": "pass"}


def test_build_gives_up_after_three_attempts_with_a_reason(play: Play, tmp_path: Path) -> None:
    attempts = [written(pattern=SLUG, tool=WRONG), written(tool=WRONG + "\n"), written(tool=WRONG + "\n\n")]
    played = play(builder(attempts, {}), "Build a tool slug", settings=settings())
    assert (played.result.status, played.result.exit) == ("escalated", Exit.FAILED)
    loop = played.documents[f"tool-build-{played.result.run}-1"]
    assert (loop.meta.status, loop.meta.attempt) == ("escalated", 3)
    assert loop.text(5, "escalation") == "max retries exceeded"
    assert "green-tea--1931" in loop.text(4, "issues")
    assert "max retries exceeded" in played.root.text(5, "escalation")
    assert trials_of(played) == {"tools/slug": "FAIL"}
    assert not (tmp_path / "work" / ".fractal" / "system").exists()
    assert "slug" not in played.fractal.catalogue().tools


def test_change_of_a_shipped_tool_becomes_a_proposal(play: Play) -> None:
    mended = BUILD.path.parents[1].joinpath("code", "pattern.md").read_text("utf-8") + "\nShow the diff.\n"
    task = "Mend cart.py"
    code = {
        "plan": plan({"tool": "bash", "args": {"command": "printf 'cart.py\\n+    return 1\\n'"}}),
        "check": {**ACCEPT, "output": "{{ steps[1].result }}"},
    }
    attempts = [plan(write("tools/code/pattern.md", mended), {"tool": "code", "what": task})]
    played = play(builder(attempts, {task: code}), "Mend the tool code", settings=settings())
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    assert [each.unit for each in played.fractal.workshop.proposals.open()] == ["tools/code"]
    assert "Show the diff." not in played.fractal.catalogue().tools["code"].body


# ---- Day N -----------------------------------------------------------------------------------------------


TOP = """---
name: top-words
description: the words that a file has most often
args: {path: {type: string}}
required: [path]
run: "command: ./top-words.sh"
effects: [read]
sample:
  task: the most frequent word
  files: {a.txt: "b\\na\\nb\\n"}
  args: {path: a.txt}
  shows: "^2 b"
---
"""
TOP_PROGRAM = """path=$(sed 's/.*"path": "\\([^"]*\\)".*/\\1/')
sort "$path" | uniq -c | sort -rn | sed 's/^ *//'
"""


def test_command_improvised_three_times_becomes_an_operation(play: Play, tmp_path: Path) -> None:
    files = plan(
        write("operations/top-words.md", TOP, needs=[]),
        write("operations/top-words.sh", TOP_PROGRAM, needs=[]),
    )
    build = {"plan": files}
    asked: list[str] = []

    def answer(ask: Ask) -> Any:
        if ask.document.meta.type == "build":
            asked.append(ask.document.text(1, "task"))
            return judged(ask, "top-words(path)") if ask.phase == "check" else build[ask.phase]
        name = ask.document.text(1, "task").split()[-1]
        command = f"sort {name} | uniq -c | sort -rn | head -3"
        step = plan({"tool": "bash", "args": {"command": command}})
        return {"plan": step, "check": {**ACCEPT, "output": "{{ steps[1].result }}"}}[ask.phase]

    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "work" / name).write_text("tea\nmilk\ntea\n", "utf-8")
        assert not asked
        played = play(answer, f"the most frequent words of {name}", settings=settings(build="auto"))
        assert played.result.exit == Exit.ACCEPTED, played.result.reason
    assert "sort a.txt | uniq -c | sort -rn" in asked[0]
    left = [each.unit for each in played.fractal.workshop.proposals.open()]
    assert left == ["reflexes/top-words.md"]  # building adopted the tool
    model = Scripted([plan({"tool": "top-words", "args": {"path": "a.txt"}}), ACCEPT])
    used = play(model, "the most frequent words of a.txt", settings=settings())
    assert "top-words" in index(model.asks[0])
    assert used.root.steps[1].result == "2 tea\n1 milk"
