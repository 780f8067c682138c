"""Five hundred plausible tools in forty domains, and tasks whose best tool is known.

`toolbox.tsv` has a noun per line, with its domain, its meaning in other words and what can be done with it.
`toolbox_tasks.tsv` has tasks in ordinary words and the best tool of each. The choice of tools was tuned with
the set `tuned`; the set `fresh` was written afterwards, and nothing was changed because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.harness import read_tsv

ALL = 500
NOUNS = Path(__file__).with_suffix(".tsv")
TASKS_FILE = Path(__file__).with_name("toolbox_tasks.tsv")
VERBS: Mapping[str, tuple[str, str]] = {
    "list": ("list all {plural}", "limit page"),
    "get": ("show one {noun} with its details", "id"),
    "create": ("make a new {noun}", "title text"),
    "update": ("change a {noun}", "id changes"),
    "delete": ("remove a {noun} for good", "id"),
    "search": ("find {plural} by words", "query limit"),
    "export": ("write {plural} into a file", "path format"),
    "import": ("read {plural} from a file", "path"),
    "send": ("send a {noun} to somebody", "id to"),
    "share": ("let somebody else see a {noun}", "id with"),
    "move": ("put a {noun} somewhere else", "id to"),
    "close": ("close a {noun} that is done", "id reason"),
    "start": ("start a {noun}", "id"),
    "stop": ("stop a {noun} that is running", "id"),
    "convert": ("turn a {noun} into another format", "path format"),
    "compare": ("tell how two {plural} differ", "first second"),
}
"""The description of a verb's tools, and their arguments; those after the first are optional."""


@dataclass(frozen=True)
class GeneratedTool:
    """One generated tool."""

    name: str
    description: str
    args: tuple[str, ...]


def tasks() -> dict[str, dict[str, str]]:
    """The best tool by set (`tuned`, `fresh`) and task."""
    sets: dict[str, dict[str, str]] = {}
    for row in read_tsv(TASKS_FILE):
        sets.setdefault(row["set"], {})[row["task"]] = row["best tool"]
    return sets


def toolbox() -> list[GeneratedTool]:
    """All generated tools, those that the tasks need first."""
    tools: dict[str, GeneratedTool] = {}
    for row in read_tsv(NOUNS):
        words = {name: row[name].replace("-", " ") for name in ("noun", "plural")}
        for verb in row["verbs"].split():
            description, args = VERBS[verb]
            name = f"{row['domain']}-{verb}-{row['noun']}"
            description = f"{description.format(**words)}: {row['meaning']}"
            tools[name] = GeneratedTool(name, description, tuple(args.split()))
    needed = dict.fromkeys(tool for each in tasks().values() for tool in each.values())
    first = [tools[name] for name in needed]
    return [*first, *(tool for name, tool in tools.items() if name not in needed)][:ALL]


def write_tools(system: Path, count: int) -> list[GeneratedTool]:
    """Write the first `count` tools as operations into a system folder."""
    tools = toolbox()[:count]
    folder = system / "operations"
    folder.mkdir(parents=True, exist_ok=True)
    for tool in tools:
        meta = {
            "name": tool.name,
            "description": tool.description,
            "args": {name: {"type": "string"} for name in tool.args},
            "required": list(tool.args[:1]),
            "run": "command: ./tool.py",
            "effects": ["network"],
        }
        (folder / f"{tool.name}.md").write_text(f"---\n{yaml.safe_dump(meta)}---\n", "utf-8")
    return tools
