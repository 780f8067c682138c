"""What an attempt did, as far as learning looks at it: its tools in order, and the names of their arguments.

No text of a task, a file or a result is in a trajectory. A path is only told to be the same as another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.document import Document, Fold, Step

SUBTASK = "task"
"""What a step that is a loop of its own is called."""
FORMS: Mapping[str, Callable[[str], bool]] = {
    "ignores-case": lambda value: value.startswith("(?i)"),
    "absolute": lambda value: value.startswith(("/", "~/")),
    "inserted-result": lambda value: "{{" in value and "}}" in value,
}
"""What can be told of an argument's text without telling the text."""
_WORD = re.compile(r"[a-z][a-z0-9-]{0,23}")
_FOLDER = re.compile(r"[a-z0-9]{1,12}")
LONGEST = 60
"""Steps of an attempt that are looked at."""
_TOOL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}")
_LINE = re.compile(r"(?m)^(\d+)\. (\S+) .*→ (\w+)")
_PATHS = frozenset(["path", "file", "source", "target", "from", "to", "folder"])
"""Arguments that name a file, whatever the tool."""
_PATHLIKE = re.compile(r"[\w./~-]*[/.][\w./-]+")


@dataclass(frozen=True)
class Act:
    """One step, as planned or as done."""

    tool: str
    arguments: frozenset[str] = frozenset()  # names
    flags: Mapping[str, bool] | None = None  # of those that are true or false
    words: Mapping[str, str] | None = None  # of those that are one short word, such as a choice
    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = (
        frozenset()
    )  # plain names of the folders that its paths begin with; `.` for none
    forms: frozenset[tuple[str, str]] = frozenset()  # argument, and one of `FORMS`
    state: str = "planned"


@dataclass(frozen=True)
class Trajectory:
    """The acts of one attempt, and the kinds of criteria that it was to be judged by."""

    acts: tuple[Act, ...] = ()
    criteria: frozenset[str] = frozenset()

    @property
    def tools(self) -> tuple[str, ...]:
        """Each once, in the order of their first use."""
        return tuple(dict.fromkeys(act.tool for act in self.acts))


def trajectories(document: Document) -> Mapping[int, Trajectory]:
    """By attempt: the last one from its plan and its steps, earlier ones from what was folded of them."""
    found = {fold.attempt: _folded(document, fold) for fold in document.section(2).folds}
    steps = [document.steps.get(n, step) for n, step in sorted(document.planned.items())]
    if steps or document.meta.attempt not in found:
        acts = tuple(_acts(steps))
        found[document.meta.attempt] = Trajectory(acts, _criteria(document.text(2, "success criteria")))
    return found


def _folded(document: Document, fold: Fold) -> Trajectory:
    """The fold has a line for each step; those that were begun stand whole in §3."""
    told = next((note.text for note in fold.notes if note.key == "steps then"), "")
    acts: list[Act] = []
    for hit in _LINE.finditer(told):
        step = document.steps.get(int(hit[1]))
        if step is not None:
            acts += _acts([step])
        elif _TOOL.fullmatch(hit[2]):
            acts.append(Act(SUBTASK if hit[2] == "subtask" else hit[2], state=hit[3]))
    return Trajectory(tuple(acts[:LONGEST]))


def _acts(steps: Sequence[Step]) -> Iterator[Act]:
    for step in steps[:LONGEST]:
        tool = step.tool or SUBTASK
        if _TOOL.fullmatch(tool):
            yield _act(tool, step.args or {}, step)


def _act(tool: str, args: Mapping[str, Any], step: Step) -> Act:
    named = {key: value for key, value in args.items() if _ARGUMENT.fullmatch(key)}
    return Act(
        tool,
        frozenset(key for key, value in named.items() if value not in (None, "", [], {})),
        {key: value for key, value in named.items() if isinstance(value, bool)},
        {key: value for key, value in named.items() if isinstance(value, str) and _WORD.fullmatch(value)},
        frozenset(_paths(named, step)),
        frozenset(_folders(named)),
        frozenset(
            (key, form)
            for key, value in named.items()
            for form, looks in FORMS.items()
            if isinstance(value, str) and looks(value)
        ),
        step.state,
    )


def _paths(args: Mapping[str, Any], step: Step) -> Iterator[str]:
    """The files that a step names or has touched."""
    for key, value in args.items():
        if isinstance(value, str) and 0 < len(value) < 300 and "{{" not in value:
            if key in _PATHS or (key != "content" and _PATHLIKE.fullmatch(value)):
                yield value.removeprefix("./")
            elif key == "command":
                yield from (word.removeprefix("./") for word in _PATHLIKE.findall(value))
    for each in step.evidence.get("touched") or ():
        if isinstance(each, Mapping) and isinstance(path := each.get("path"), str):
            yield path


def _folders(args: Mapping[str, Any]) -> Iterator[str]:
    """The folders that paths begin with, where their names are plain words: they hold no sentence."""
    for key in _PATHS & args.keys():
        value = args[key]
        if isinstance(value, str) and "{{" not in value and not value.startswith(("/", "~", "..")):
            first, slash, _ = value.removeprefix("./").partition("/")
            if not slash:
                yield "."
            elif _FOLDER.fullmatch(first):
                yield first


def _criteria(text: str) -> frozenset[str]:
    """The kinds of success criteria of a plan: run, file, step, same, judge."""
    kinds: set[str] = set()
    for line in text.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict):
            kinds |= told.keys() & {"run", "file", "step", "same", "judge"}
    return frozenset(kinds)
