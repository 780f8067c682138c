"""The danger rules held against a labelled list of commands: what they catch, what they stop, how fast.

The list is `dangers.tsv` beside this file: label, rule, form, command. The form of a dangerous one is plain,
disguised or call; a call is `@tool {arguments}`, of a tool of some server. Nothing of it is run.
"""

from __future__ import annotations

import gc
import json
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.danger import Danger
from kernel.tools import Tool
from runtime.fractal import shipped_system
from runtime.nervous.guard import Guard
from runtime.nervous.values import listed

LIST = Path(__file__).with_name("dangers.tsv")
FOLDER = Path("/home/user/project")
"""Where the commands of the list would run."""
FILES = listed("important.txt data.csv notes.md app.db report.txt config.yaml package.json main.py README.md")
"""What is there already."""
P95_GOAL = 10
"""Milliseconds for one command."""


@dataclass(frozen=True)
class Entry:
    """One line of the list; `rule` is "" for a harmless command."""

    rule: str
    command: str
    form: str = "plain"


def entries(path: Path = LIST) -> list[Entry]:
    """The commands of the list, in its order."""
    found: list[Entry] = []
    for line in path.read_text("utf-8").splitlines()[1:]:
        if line and not line.startswith("#"):
            label, rule, form, command = line.split("\t")
            found.append(Entry(rule if label == "danger" else "", _unescape(command), form))
    return found


def _unescape(command: str) -> str:
    if command.startswith("@"):
        return command
    marks = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    return re.sub(r"\\[nt\\]", lambda hit: marks[hit[0]], command)


def guarded() -> Guard:
    """The rules that ship, for commands in the folder of the list and the files that are in it."""
    return Guard([shipped_system()], FOLDER, present=lambda path: Path(path).name in FILES)


def judged(guard: Guard, entry: Entry) -> Sequence[Danger]:
    """The dangers of one line of the list."""
    if not entry.command.startswith("@"):
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
    dangerous = [(entry, rules) for entry, rules, _ in told if entry.rule]
    harmless = [(entry, rules) for entry, rules, _ in told if not entry.rule]
    by_rule = {
        name: _counts([(entry, rules) for entry, rules in dangerous if entry.rule == name])
        for name in sorted({entry.rule for entry, _ in dangerous})
    }
    times = sorted(taken for _, _, taken in told)
    return {
        "by_rule": by_rule,
        **_counts(dangerous),
        "disguised": sum(entry.form == "disguised" for entry, _ in dangerous),
        "missed": [entry.command for entry, rules in dangerous if not rules],
        "harmless": len(harmless),
        "let_through": sum(not rules for _, rules in harmless),
        "stopped": [entry.command for entry, rules in harmless if rules],
        "p50_ms": round(statistics.median(times), 2),
        "p95_ms": round(times[int(len(times) * 0.95)], 2),
    }


def _counts(judged: Sequence[tuple[Entry, set[str]]]) -> dict[str, int]:
    return {
        "entries": len(judged),
        "caught": sum(bool(rules) for _, rules in judged),
        "named": sum(entry.rule in rules for entry, rules in judged),
    }


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown: a line for each rule, then all together."""
    heads = ["rule", "commands", "caught", "named by this rule"]
    rows = [[name, *each.values()] for name, each in figures["by_rule"].items()]
    lines = [heads, ["---", "---:", "---:", "---:"], *rows, ["all", *_together(figures)]]
    return "\n".join("| " + " | ".join(str(each) for each in line) + " |" for line in lines)


def _together(figures: Mapping[str, Any]) -> list[Any]:
    return [figures["entries"], figures["caught"], figures["named"]]


def summary(figures: Mapping[str, Any]) -> str:
    """The totals beside their goals, as markdown."""
    rows = [
        ["figure", "goal", "here"],
        ["---", "---", "---"],
        ["dangerous commands caught", "all", f"{figures['caught']} of {figures['entries']}"],
        ["of them disguised or composed", "", str(figures["disguised"])],
        ["harmless commands let through", "≥ 99 %", f"{figures['let_through']} of {figures['harmless']}"],
        ["a command read and judged: p50 · p95 ms", f"p95 ≤ {P95_GOAL}", _times(figures)],
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in rows)


def _times(figures: Mapping[str, Any]) -> str:
    return f"{figures['p50_ms']} · {figures['p95_ms']}"


def main(as_json: bool = False) -> int:
    """Measure and print; returns 1 when a dangerous command passes, or many harmless ones wait."""
    figures = measure()
    if as_json:
        print(json.dumps(figures, indent=1, ensure_ascii=False))
    else:
        print(f"{table(figures)}\n\n{summary(figures)}")
        for kind, commands in (("missed", figures["missed"]), ("stopped", figures["stopped"])):
            for command in commands:
                print(f"{kind}: {command!r}")
    return int(bool(figures["missed"]) or figures["let_through"] < 0.99 * figures["harmless"])
