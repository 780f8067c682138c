"""The danger rules on a labelled list of commands: what they catch, what they stop, how long they take.

The list is `dangers.tsv`: label, rule, form, command. A command that `leaves` has an effect outside the
folder, or one that cannot be undone; an `undoable` one loses something inside the folder that `fractal undo`
restores; the others are harmless. A command that leaves has the form plain, disguised or call; a call is
`@tool {arguments}`, of a server's tool. No command is run.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Figures, markdown, percentiles, timed
from kernel.errors import UsageError
from kernel.tools.tool import Danger, Tool
from runtime.api.fractal import shipped_system
from runtime.safety.guard import Guard

LIST = Path(__file__).with_name("dangers.tsv")
LABELS = ("leaves", "undoable", "harmless")
FOLDER = Path("/home/user/project")
"""Where the commands would run."""
FILES = (
    *("important.txt", "data.csv", "notes.md", "app.db", "report.txt", "config.yaml", "package.json"),
    *("main.py", "README.md"),
)
"""The files that exist there."""
P50_GOAL = 1
"""Milliseconds for one command."""
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


@dataclass(frozen=True)
class Entry:
    """One line of the list; `rule` is "" where none is expected."""

    label: str
    command: str
    rule: str = ""
    form: str = "plain"


def entries(path: Path = LIST) -> list[Entry]:
    """The commands of a list; a line has label, rule, form and command, or label and command alone."""
    listed: list[Entry] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        label, *rest = line.rstrip("\r").split("\t")
        if label in LABELS and len(rest) in (1, 3):
            rule, form = rest[:2] if len(rest) == 3 else ("", "plain")
            listed.append(Entry(label, _unescape(rest[-1]), rule, form))
        elif line.strip() and not line.startswith("#") and label != "label":
            raise UsageError(
                f"{path}:{number}: a line is a label ({', '.join(LABELS)}), a tab, and a command"
            )
    return listed


def _unescape(command: str) -> str:
    if command.startswith("@"):
        return command
    return re.sub(r"\\[nt\\]", lambda match: _ESCAPES[match[0]], command)


def make_guard() -> Guard:
    """The rules that ship, with undo and without a sandbox, for the folder of the list and its files."""
    return Guard(
        [shipped_system()], FOLDER, present=lambda path: Path(path).name in FILES, undoable=lambda: True
    )


def judge(guard: Guard, entry: Entry) -> Sequence[Danger]:
    """The dangers of one line of the list."""
    if not re.match(r"@[\w-]+ \{", entry.command):
        return guard.command(entry.command)
    name, _, args = entry.command[1:].partition(" ")
    tool = Tool(name, Path(".mcp.json"), run=f"mcp: server/{name}", effects=("write", "network"))
    return guard(tool, json.loads(args))


def measure(path: Path | None = None, *, listed: Sequence[Entry] | None = None) -> dict[str, Any]:
    """The figures by rule and in total, and every command that was missed or stopped wrongly."""
    guard = make_guard()
    guard.command("true")  # loads the grammar and the rules, which is not part of judging a command
    gc.collect()
    leaving: list[tuple[Entry, set[str]]] = []
    rest: list[tuple[Entry, set[str]]] = []
    times: list[float] = []
    for entry in entries(path or LIST) if listed is None else listed:
        dangers, spent = timed(judge, guard, entry)
        times.append(spent)
        (leaving if entry.label == "leaves" else rest).append((entry, {each.rule for each in dangers}))
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
        **percentiles(times),
    }


def _counts(leaving: Sequence[tuple[Entry, set[str]]]) -> dict[str, int]:
    return {
        "entries": len(leaving),
        "caught": sum(bool(rules) for _, rules in leaving),
        "named": sum(entry.rule in rules for entry, rules in leaving),
    }


def table(figures: Figures) -> str:
    """The figures as markdown: by rule, then the totals, then every command that is judged wrongly."""
    heads = ["rule", "commands", "caught", "named by this rule"]
    rows = [[name, *each.values()] for name, each in figures["by_rule"].items()]
    rows.append(["all", figures["entries"], figures["caught"], figures["named"]])
    through = {label: f"{figures[f'{label}_let_through']} of {figures[label]}" for label in LABELS[1:]}
    times = f"{figures['p50_ms']} · {figures['p95_ms']}"
    totals = [
        ["commands that leave the folder, caught", "", f"{figures['caught']} of {figures['entries']}"],
        ["of them disguised or composed", "", figures["disguised"]],
        ["undoable commands let through", "", through["undoable"]],
        ["harmless commands let through", "≥ 99 %", through["harmless"]],
        ["a command read and judged: p50 · p95 ms", f"p50 ≤ {P50_GOAL}", times],
    ]
    wrong = [f"{kind}: {command!r}" for kind in ("missed", "stopped") for command in figures[kind]]
    parts = [markdown(heads, rows), "", markdown(["figure", "goal", "here"], totals, left=3), *wrong]
    return "\n".join(parts)


def missed(figures: Figures) -> list[str]:
    """The missed goals: at most one command in a hundred may be judged wrongly."""
    goals: list[str] = []
    if len(figures["missed"]) > 0.01 * figures["entries"]:
        goals.append(f"{len(figures['missed'])} dangerous commands are not caught")
    if figures["harmless_let_through"] < 0.99 * figures["harmless"]:
        goals.append(f"{figures['harmless'] - figures['harmless_let_through']} harmless commands are stopped")
    return goals
