"""The danger rules held against a labelled list of commands: what they catch, what they stop, how fast.

The list is `dangers.tsv` beside this file: label, rule, form, command. A command that `leaves` has an
effect outside the folder or one that cannot be undone; an `undoable` one loses something inside the folder,
which `fractal undo` brings back; the others are harmless. The form of a command that leaves is plain,
disguised or call; a call is `@tool {arguments}`, of a tool of some server. Nothing of it is run.
"""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import percentiles, show
from bench.harness import table as markdown
from kernel.errors import UsageError
from kernel.tools.danger import Danger
from kernel.tools.tool import Tool
from runtime.api.fractal import shipped_system
from runtime.safety.guard import Guard

LIST = Path(__file__).with_name("dangers.tsv")
LABELS = ("leaves", "undoable", "harmless")
FOLDER = Path("/home/user/project")
"""Where the commands of the list would run."""
FILES = (
    *("important.txt", "data.csv", "notes.md", "app.db", "report.txt", "config.yaml", "package.json"),
    *("main.py", "README.md"),
)
"""What is there already."""
P50_GOAL = 1
"""Milliseconds for one command."""


@dataclass(frozen=True)
class Entry:
    """One line of the list; `rule` is "" where none is expected."""

    label: str
    command: str
    rule: str = ""
    form: str = "plain"


def entries(path: Path = LIST) -> list[Entry]:
    """The commands of a list, in its order: label, rule, form and command, or label and command alone."""
    found: list[Entry] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        label, *rest = line.rstrip("\r").split("\t")
        if label in LABELS and len(rest) in (1, 3):
            rule, form = (rest[0], rest[1]) if len(rest) == 3 else ("", "plain")
            found.append(Entry(label, _unescape(rest[-1]), rule, form))
        elif line.strip() and not line.startswith("#") and label != "label":
            raise UsageError(
                f"{path}:{number}: a line is a label ({', '.join(LABELS)}), a tab, and a command"
            )
    return found


def _unescape(command: str) -> str:
    if command.startswith("@"):
        return command
    marks = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    return re.sub(r"\\[nt\\]", lambda hit: marks[hit[0]], command)


def guarded() -> Guard:
    """The rules that ship, with undo and without a sandbox, for the folder of the list and its files."""

    def present(path: str) -> bool:
        return Path(path).name in FILES

    return Guard([shipped_system()], FOLDER, present=present, undoable=lambda: True)


def judged(guard: Guard, entry: Entry) -> Sequence[Danger]:
    """The dangers of one line of the list."""
    if not re.match(r"@[\w-]+ \{", entry.command):
        return guard.command(entry.command)
    name, _, args = entry.command[1:].partition(" ")
    tool = Tool(name, Path(".mcp.json"), run=f"mcp: server/{name}", effects=("write", "network"))
    return guard(tool, json.loads(args))


def measure(listed: Sequence[Entry] | None = None) -> dict[str, Any]:
    """The figures, by rule and together, and every command that was missed or stopped wrongly."""
    listed = entries() if listed is None else listed
    guard = guarded()
    guard.command("true")  # the grammar and the rules are loaded once, and are no cost of a command
    gc.collect()
    told: list[tuple[Entry, set[str], float]] = []
    for entry in listed:
        start = time.perf_counter()
        dangers = judged(guard, entry)
        told.append((entry, {each.rule for each in dangers}, (time.perf_counter() - start) * 1000))
    leaving = [(entry, rules) for entry, rules, _ in told if entry.label == "leaves"]
    rest = [(entry, rules) for entry, rules, _ in told if entry.label != "leaves"]
    names = sorted({entry.rule for entry, _ in leaving if entry.rule})
    return {
        "by_rule": {name: _counts([each for each in leaving if each[0].rule == name]) for name in names},
        **_counts(leaving),
        "disguised": sum(entry.form == "disguised" for entry, _ in leaving),
        "missed": [entry.command for entry, rules in leaving if not rules],
        **{label: sum(entry.label == label for entry, _ in rest) for label in LABELS[1:]},
        **{
            f"{label}_let_through": sum(entry.label == label and not rules for entry, rules in rest)
            for label in LABELS[1:]
        },
        "stopped": [entry.command for entry, rules in rest if rules],
        **percentiles(taken for _, _, taken in told),
    }


def _counts(judged: Sequence[tuple[Entry, set[str]]]) -> dict[str, int]:
    return {
        "entries": len(judged),
        "caught": sum(bool(rules) for _, rules in judged),
        "named": sum(entry.rule in rules for entry, rules in judged),
    }


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown: a line for each rule, then all together."""
    rows = [[name, *each.values()] for name, each in figures["by_rule"].items()]
    together = ["all", figures["entries"], figures["caught"], figures["named"]]
    return markdown(["rule", "commands", "caught", "named by this rule"], [*rows, together])


def summary(figures: Mapping[str, Any]) -> str:
    """The totals as markdown."""
    through = {label: f"{figures[f'{label}_let_through']} of {figures[label]}" for label in LABELS[1:]}
    rows = [
        ["commands that leave the folder, caught", "", f"{figures['caught']} of {figures['entries']}"],
        ["of them disguised or composed", "", figures["disguised"]],
        ["undoable commands let through", "", through["undoable"]],
        ["harmless commands let through", "≥ 99 %", through["harmless"]],
        [
            "a command read and judged: p50 · p95 ms",
            f"p50 ≤ {P50_GOAL}",
            f"{figures['p50_ms']} · {figures['p95_ms']}",
        ],
    ]
    return markdown(["figure", "goal", "here"], rows, left=3)


def missed(figures: Mapping[str, Any]) -> list[str]:
    """The goals that are missed: at most one command in a hundred may be judged wrongly."""
    found: list[str] = []
    if len(figures["missed"]) > 0.01 * figures["entries"]:
        found.append(f"{len(figures['missed'])} dangerous commands are not caught")
    if figures["harmless_let_through"] < 0.99 * figures["harmless"]:
        found.append(f"{figures['harmless'] - figures['harmless_let_through']} harmless commands are stopped")
    return found


def main(as_json: bool = False, path: Path | None = None) -> None:
    """Measure and print, with every command that is judged wrongly."""
    figures = measure(entries(path) if path else None)
    wrong = [f"{kind}: {command!r}" for kind in ("missed", "stopped") for command in figures[kind]]
    text = "\n".join([f"{table(figures)}\n\n{summary(figures)}", *wrong])
    show(figures, text, as_json, () if path else missed(figures))
