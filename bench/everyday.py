"""Everyday tasks in anybody's words on real files, with the reflexes alone: done, passed on, or done wrong.

The list is `everyday.jsonl` beside this file. A line is a task with what it should come to: `result` (a
pattern of the answer) and `files` (what is there afterwards that was not before; nothing else may change), or
`pass`: nothing safe covers it, so it is left to the next rung. A task with `pass` and a result may be either.
Half of the list was not looked at while the reflexes were made for the other half.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from bench.everyday_files import copy, make, members, taken
from bench.harness import show
from bench.harness import table as markdown
from kernel.asking.responder import Ladder
from runtime.api.fractal import Fractal, RunResult, shipped_system

LIST = Path(__file__).with_name("everyday.jsonl")
HALVES = ("build", "unseen")
KINDS = ("right", "passed rightly", "passed wrongly", "wrong")
"""How a task can go. Only `wrong` does harm: a wrong answer, or a file changed that should not have been."""

Files = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Task:
    """One line of the list."""

    text: str
    result: str = ""
    files: Mapping[str, Any] = field(default_factory=dict)
    passes: bool = False

    @property
    def half(self) -> str:
        """Told by the text alone, as if by lot."""
        return HALVES[hashlib.sha256(self.text.encode()).digest()[0] % 2]

    @property
    def may_be_done(self) -> bool:
        """Whether there is a result that would be right."""
        return not self.passes or bool(self.result or self.files)


@dataclass(frozen=True)
class Done:
    """How one task went."""

    task: Task
    kind: str
    why: str
    milliseconds: float


def tasks(path: Path = LIST) -> list[Task]:
    """The tasks of a list, in its order."""
    found: list[Task] = []
    for line in path.read_text("utf-8").splitlines():
        each = json.loads(line)
        found.append(
            Task(each["task"], each.get("result", ""), each.get("files", {}), each.get("pass", False))
        )
    return found


def play(listed: Sequence[Task]) -> list[Done]:
    """Do each task in a folder of its own."""
    from runtime.models.human import Human
    from runtime.reflexes.reflex import Reflex

    ladder = Ladder((Reflex([shipped_system()]), Human()))
    with tempfile.TemporaryDirectory() as place:
        template = Path(place) / "template"
        template.mkdir()
        make(template)
        return [
            _played(task, template, Path(place) / str(number), ladder) for number, task in enumerate(listed)
        ]


def _played(task: Task, template: Path, folder: Path, ladder: Ladder) -> Done:
    copy(template, folder)
    before = taken(folder)
    fractal = Fractal(folder, settings={"sandbox": "off", "fsync": False}, ladder=ladder)
    start = time.perf_counter()
    result = asyncio.run(fractal.run(task.text))
    milliseconds = (time.perf_counter() - start) * 1000
    return Done(task, *judged(task, result, before, taken(folder)), milliseconds)


def judged(task: Task, result: RunResult, before: Files, after: Files) -> tuple[str, str]:
    """How a task went, and why it is judged so."""
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name, 0) != after.get(name, 0)
    )
    if result.exit != 0:
        if changed:
            return "wrong", f"passed on, but changed {', '.join(changed)}"
        return ("passed rightly" if task.passes else "passed wrongly"), ""
    if not task.may_be_done:
        return "wrong", f"should have been passed on; said {result.output[:200]!r}, changed {changed}"
    for name in changed:
        above = name.endswith("/") and any(other.startswith(name) for other in task.files)
        if name not in task.files and not above:
            return "wrong", f"changed {name}"
    for name, what in task.files.items():
        if not _holds(what, after.get(name, 0), name, before):
            return "wrong", f"{name} is {after.get(name, 'missing')!r}"
    if task.result and not re.search(_filled(task.result, before), result.output):
        return "wrong", f"said {result.output[:300]!r}"
    return "right", ""


def _holds(what: Any, data: Any, name: str, before: Files) -> bool:
    """Whether what is there is what should be; text may lack the end of its last line."""
    if what is None:
        return data == 0
    if what is True:
        return data is None
    if not isinstance(data, bytes):
        return False
    if isinstance(what, Mapping) and "members" in what:
        return members(data) == set(what["members"])
    text = data.decode("utf-8", "replace")
    if isinstance(what, str):
        return text.rstrip("\n") == what
    (how, value), was = next(iter(what.items())), (before.get(name) or b"").decode()
    if how == "like":
        return data == before[value]
    if how == "has":
        return bool(re.search(value, text))
    if how == "json":
        return json.loads(text) == {**json.loads(was), value[0]: value[1]}
    expected = {
        "after": lambda: f"{was}{value}",
        "swap": lambda: was.replace(*value),
        "without": lambda: "\n".join(line for line in was.splitlines() if value not in line),
        "join": lambda: was + (before.get(value) or b"").decode(),
    }[how]()
    return text.rstrip("\n") == expected.rstrip("\n")


def _filled(pattern: str, before: Files) -> str:
    """A pattern with what only the folder or the day says: `{today}`, `{sha256:a.txt}`, `{words:a.txt}`."""

    def value(hole: re.Match[str]) -> str:
        data = before[hole[2]] or b""
        return str(len(data.split())) if hole[1] == "words" else hashlib.new(hole[1], data).hexdigest()

    pattern = pattern.replace("{today}", date.today().isoformat())
    return re.sub(r"\{(words|sha256|md5):([^{}]+)\}", value, pattern)


def measure(half: str = "all", listed: Sequence[Task] | None = None) -> dict[str, Any]:
    """The figures of a half, or of both, and every task that was passed on wrongly or done wrongly."""
    listed = tasks() if listed is None else listed
    asked = [task for task in listed if half in ("all", task.half)]
    done = play(asked)
    halves = {name: [each for each in done if each.task.half == name] for name in HALVES}
    return {
        "halves": {name: _counts(some) for name, some in halves.items() if some},
        **_counts(done),
        "passed_wrongly_tasks": [each.task.text for each in done if each.kind == "passed wrongly"],
        "wrong_tasks": {each.task.text: each.why for each in done if each.kind == "wrong"},
    }


def _counts(done: Sequence[Done]) -> dict[str, Any]:
    counts = {kind.replace(" ", "_"): sum(each.kind == kind for each in done) for kind in KINDS}
    took = {
        "done": [each.milliseconds for each in done if each.kind == "right"],
        "passed": [each.milliseconds for each in done if each.kind.startswith("passed")],
    }
    times = {f"{name}_p50_ms": round(statistics.median(some), 1) for name, some in took.items() if some}
    return {"tasks": len(done), **counts, **times}


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["half", "tasks", *KINDS, "ms done, p50", "ms passed on, p50"]
    rows: list[list[object]] = []
    for name, each in (*figures["halves"].items(), ("all", figures)):
        counted = (each[kind.replace(" ", "_")] for kind in KINDS)
        times = (each.get("done_p50_ms", "–"), each.get("passed_p50_ms", "–"))
        rows.append([name, each["tasks"], *counted, *times])
    return markdown(heads, rows)


def main(as_json: bool = False, half: str = "all") -> None:
    """Measure and print."""
    figures = measure(half)
    wrong = [f"\nwrong: {task}\n  {why}" for task, why in figures["wrong_tasks"].items()]
    missed = [f"{len(wrong)} wrong actions"] if wrong else []
    show(figures, "\n".join([table(figures), *wrong]), as_json, missed)
