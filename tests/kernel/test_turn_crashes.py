"""A run by turns that is killed at any write goes on with the same messages, and makes no call twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crashing import crashes
from lanes import NIGHT, every
from playing import player

from kernel.asking.responder import Ask
from kernel.errors import Exit
from runtime.models.scripted import Scripted


def call(tool: str, /, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def line(text: str) -> dict[str, Any]:
    return call("write", path="b.txt", content=text, append=True)


TURNS: list[list[dict[str, Any]]] = [
    [call("read", path="a.txt"), call("nope"), line("one\n")],
    [call("use", tool="calc"), call("use", tool="calc", args={"expression": "2 + 3"}), line("two\n")],
    [call("subtask", task="append three to b.txt")],
    [call("done", answer="all there")],
    [call("done", answer="all there", checks=["false"])],
    [
        call("plan", approach="give a check that holds"),
        line("four\n"),
        call("done", checks=["true"], why="wrong"),
    ],
    [call("done")],
]
CHILD = [[line("three\n"), call("done", answer="three")], [call("done")]]


def conversing(seen: Path) -> Scripted:
    """A model that decides by its place in the conversation alone; each conversation is written to `seen`."""

    def answer(ask: Ask) -> Any:
        turn = sum(each["role"] == "assistant" for each in ask.messages)
        with seen.open("a") as file:
            file.write(json.dumps([ask.loop, turn, ask.messages, ask.tools]) + "\n")
        return {"calls": (CHILD if ask.document.meta.parent else TURNS)[turn]}

    return Scripted(answer)


def survives(tmp_path: Path, after: Callable[[int], None] = lambda at: None) -> None:
    at, ended = -1, False
    while not ended:
        place = tmp_path / str(at)
        work, seen = place / "work", place / "seen.jsonl"
        work.mkdir(parents=True)
        (work / "a.txt").write_text("zero\n")
        at += 11 * every(6)
        run = player(work, memory=NIGHT)
        ended = not crashes(lambda: run([conversing(seen)], settings={"check": "auto"}), at, "after")  # noqa: B023
        runs = work / ".fractal" / "state" / "runs"
        if not list(runs.glob("*/system-*.md")):
            continue  # it had not started
        again = run([conversing(seen)], resume=next(runs.iterdir()).name, settings={"check": "auto"})
        assert again.result.exit == Exit.ACCEPTED, at
        assert (work / "b.txt").read_text() == "one\ntwo\nthree\nfour\n", at
        shown: dict[tuple[str, int], str] = {}
        for text in seen.read_text().splitlines():
            loop, turn, messages, tools = json.loads(text)
            now = json.dumps([messages, tools])
            assert shown.setdefault((loop, turn), now) == now, (at, loop, turn)
    assert at > 20


def test_a_crash_at_any_write_keeps_the_conversation_and_repeats_no_call(tmp_path: Path):
    survives(tmp_path)
