"""Everyday tasks on real files, in ordinary words, by the reflexes alone: done, passed on, or done wrongly.

A line of a list has a task and its expected outcome: `result` (a pattern of the answer) and `files` (what it
creates or changes; nothing else may change), or `pass`: nothing safe covers it, so the next rung must get it.
A task with `pass` and a result may be either.

The list `own` is by the project. `seen` and `unseen` are by writers who did not know the reflexes. The tasks
of `seen` were read while reflexes were written; those of `unseen` were not, and must not be.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from shutil import copytree
from statistics import median
from typing import Any

from bench.everyday_files import archive_members, create, files_in
from bench.harness import Figures, cost, markdown, read_jsonl
from kernel.asking.responder import Ladder
from runtime.api.fractal import Fractal, RunResult, shipped_system
from runtime.models.human import Human
from runtime.reflexes.reflex import Reflex

LISTS = {
    "own": Path(__file__).with_name("everyday.jsonl"),
    "seen": Path(__file__).with_name("everyday_seen.jsonl"),
    "unseen": Path(__file__).with_name("everyday_unseen.jsonl"),
}
GOAL = 0.75
"""Of the unseen tasks that can be done, the share that is done."""
KINDS = ("right", "passed rightly", "passed wrongly", "wrong")
"""Outcomes of a task. Only `wrong` does harm: a wrong answer or an unwanted change to a file."""

Files = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Task:
    """One line of a list."""

    text: str
    result: str = ""
    files: Mapping[str, Any] = field(default_factory=dict)
    passes: bool = False

    @property
    def may_be_done(self) -> bool:
        """Whether some result is right."""
        return not self.passes or bool(self.result or self.files)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one task."""

    task: Task
    kind: str
    why: str
    milliseconds: float


def tasks(path: Path) -> list[Task]:
    """The tasks of a list."""

    def task(_: int, line: Mapping[str, Any]) -> Task:
        return Task(line["task"], line.get("result", ""), line.get("files", {}), line.get("pass", False))

    return read_jsonl(path, task, "a task with its result, files or pass")


def play(listed: Sequence[Task]) -> list[Outcome]:
    """Do each task in a folder of its own."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as place:
        template = Path(place) / "template"
        template.mkdir()
        create(template)
        for number, task in enumerate(listed):
            folder = Path(place) / str(number)
            copytree(template, folder, symlinks=True)
            before = files_in(folder)
            ladder = Ladder((Reflex([shipped_system()], place=folder), Human()))
            fractal = Fractal(folder, settings={"sandbox": "off", "fsync": False}, ladder=ladder)
            with cost() as spent:
                result = asyncio.run(fractal.run(task.text))
            outcomes.append(Outcome(task, *judge(task, result, before, files_in(folder)), spent.wall * 1000))
    return outcomes


def judge(task: Task, result: RunResult, before: Files, after: Files) -> tuple[str, str]:
    """The kind of the outcome, and the reason."""
    names = before.keys() | after.keys()
    changed = sorted(name for name in names if before.get(name, 0) != after.get(name, 0))
    if result.exit != 0:
        if changed:
            return "wrong", f"passed on, but changed {', '.join(changed)}"
        return ("passed rightly" if task.passes else "passed wrongly"), ""
    if not task.may_be_done:
        return "wrong", f"should have been passed on; said {result.output[:200]!r}, changed {changed}"
    for name in changed:
        parent = name.endswith("/") and any(other.startswith(name) for other in task.files)
        if name not in task.files and not parent:
            return "wrong", f"changed {name}"
    for name, expected in task.files.items():
        if not _is_as_expected(expected, after.get(name, 0), name, before):
            return "wrong", f"{name} is {after.get(name, 'missing')!r}"
    shown = (result.output, result.output.replace(",", ", "))  # a cell of CSV is apart from the next one
    if task.result and not any(re.search(_filled(task.result, before), each) for each in shown):
        return "wrong", f"said {result.output[:300]!r}"
    return "right", ""


def _is_as_expected(expected: Any, data: Any, name: str, before: Files) -> bool:
    """Whether a file (0: missing, None: a folder) is as expected; the last newline is optional."""
    if expected is None:
        return data == 0
    if expected is True:
        return data is None
    if not isinstance(data, bytes):
        return False
    if isinstance(expected, Mapping) and "members" in expected:
        return archive_members(data) == {Path(each).name for each in expected["members"]}
    text = data.decode("utf-8", "replace")
    if isinstance(expected, str):
        return text.rstrip("\n") == expected.rstrip("\n")
    (how, value), was = next(iter(expected.items())), (before.get(name) or b"").decode()
    if how == "like":
        return data == before[value]
    if how == "has":
        return bool(re.search(value, text))
    if how == "json":
        return json.loads(text) == {**json.loads(was), value[0]: value[1]}
    whole = {
        "after": lambda: f"{was}{value}",
        "swap": lambda: was.replace(*value),
        "without": lambda: "\n".join(line for line in was.splitlines() if value not in line),
        "join": lambda: was + (before.get(value) or b"").decode(),
    }[how]()
    return text.rstrip("\n") == whole.rstrip("\n")


def _filled(pattern: str, before: Files) -> str:
    """A pattern with the values of `{today}`, `{words:a.txt}`, `{sha256:a.txt}` and `{md5:a.txt}`."""

    def value(match: re.Match[str]) -> str:
        data = before[match[2]] or b""
        return str(len(data.split())) if match[1] == "words" else hashlib.new(match[1], data).hexdigest()

    pattern = pattern.replace("{today}", date.today().isoformat())
    return re.sub(r"\{(words|sha256|md5):([^{}]+)\}", value, pattern)


def measure(half: str = "all", *, lists: Mapping[str, Sequence[Task]] | None = None) -> dict[str, Any]:
    """The figures of a list, or of all, and the tasks that were passed on wrongly or done wrongly.

    Tasks of the list `unseen` are only counted.
    """
    chosen = lists or {each: tasks(path) for each, path in LISTS.items() if half in ("all", each)}
    played = {each: play(listed) for each, listed in chosen.items()}
    shown = [outcome for each, some in played.items() if each != "unseen" for outcome in some]
    return {
        "lists": {each: _counts(some) for each, some in played.items()},
        "passed_wrongly_tasks": [each.task.text for each in shown if each.kind == "passed wrongly"],
        "wrong_tasks": {each.task.text: each.why for each in shown if each.kind == "wrong"},
    }


def _counts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    counts = {kind.replace(" ", "_"): sum(each.kind == kind for each in outcomes) for kind in KINDS}
    times = {
        "done_p50_ms": [each.milliseconds for each in outcomes if each.kind == "right"],
        "passed_p50_ms": [each.milliseconds for each in outcomes if each.kind.startswith("passed")],
    }
    medians = {name: round(median(some), 1) for name, some in times.items() if some}
    doable = sum(not each.task.passes for each in outcomes)
    share = round(sum(each.kind == "right" and not each.task.passes for each in outcomes) / (doable or 1), 3)
    return {"tasks": len(outcomes), "doable": doable, "share": share, **counts, **medians}


def table(figures: Figures) -> str:
    """The figures as markdown, and every task that was done wrongly."""
    heads = ["list", "tasks", "doable", "of these done", *KINDS, "ms done, p50", "ms passed on, p50"]
    rows: list[list[object]] = []
    for name, each in figures["lists"].items():
        counts = (each[kind.replace(" ", "_")] for kind in KINDS)
        times = (each.get("done_p50_ms", "–"), each.get("passed_p50_ms", "–"))
        rows.append([name, each["tasks"], each["doable"], f"{each['share']:.1%}", *counts, *times])
    wrong = [f"\nwrong: {task}\n  {why}" for task, why in figures["wrong_tasks"].items()]
    return "\n".join([markdown(heads, rows), *wrong])


def missed(figures: Figures) -> list[str]:
    """Any wrong action, and too few unseen tasks done."""
    wrong = sum(each["wrong"] for each in figures["lists"].values())
    found = [f"{wrong} wrong actions"] if wrong else []
    unseen = figures["lists"].get("unseen")
    if unseen and unseen["share"] < GOAL:
        found.append(f"{unseen['share']:.1%} of the unseen tasks done; the goal is {GOAL:.0%}")
    return found
