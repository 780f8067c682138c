"""Trajectories: the tools of an attempt in order, the names of their arguments, and habits of writing.

No text of a task, a file or a result is stored. Paths are only compared; of written files only the form is
stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernel.document.model import Document, Fold, Step
from runtime.memory.turns import was_made

SUBTASK = "task"
"""The tool name of a step that is a child loop."""
FORMS: Mapping[str, Callable[[str], bool]] = {
    "ignores-case": lambda value: value.startswith("(?i)"),
    "absolute": lambda value: value.startswith(("/", "~/")),
    "inserted-result": lambda value: "{{" in value and "}}" in value,
}
"""Properties of an argument that do not quote it."""
_WORD = re.compile(r"[a-z][a-z0-9-]{0,23}")
_FOLDER = re.compile(r"[a-z0-9]{1,12}")
FEW = (1, 2, 3, 4, 6, 8)
"""Limits of steps that the rule `few` is tried with."""
LONGEST = 60
"""Steps of an attempt, at most."""
_TOOL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}")
_LINE = re.compile(r"(?m)^(\d+)\. (\S+) .*→ (\w+)")
_PATHS = frozenset(["path", "file", "source", "target", "from", "to", "folder"])
"""Arguments that name a file, whatever the tool."""
_PATHLIKE = re.compile(r"[\w./~-]*[/.][\w./-]+")


class Act(BaseModel):
    """One step, as planned or as done: names, and numbers for paths (equal numbers are equal paths)."""

    model_config = ConfigDict(frozen=True)

    tool: str
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # arguments set to true
    words: dict[str, str] = Field(default_factory=dict)  # arguments with one short word as value
    folders: tuple[str, ...] = ()  # first folders of its paths, plain names; `.` for none
    forms: tuple[tuple[str, str], ...] = ()  # argument, and one of `FORMS`
    paths: tuple[int, ...] = ()
    state: str = ""


Fact = tuple[str, tuple[str, ...]]
"""Something true of an attempt, as the kind and the names of a rule."""


@dataclass(frozen=True)
class Trajectory:
    """The acts of one attempt, and the kinds of its success criteria."""

    acts: tuple[Act, ...] = ()
    criteria: tuple[str, ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """Each tool once, in the order of first use."""
        return tuple(dict.fromkeys(act.tool for act in self.acts))

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """All that rules can say of the attempt and that is true."""
        facts = _facts(self.acts, self.tools) if self.acts else ()
        return frozenset([*facts, *(("checks", (kind,)) for kind in self.criteria)])


def _facts(acts: Sequence[Act], tools: Sequence[str]) -> Iterator[Fact]:
    yield "first", (acts[0].tool,)
    yield "last", (acts[-1].tool,)
    yield from (("few", (str(most),)) for most in FEW if len(acts) <= most)
    for tool in tools:
        at = [n for n, act in enumerate(acts) if act.tool == tool]
        yield "uses", (tool,)
        if len(at) == 1:
            yield "once", (tool,)
        yield from ((kind, (tool, *names)) for kind, names in _of_calls([acts[n] for n in at]))
        for other in tools:
            if other != tool:
                yield from ((kind, (tool, other)) for kind in _order(acts, at, other))


def _of_calls(calls: Sequence[Act]) -> Iterator[Fact]:
    """What all calls of a tool have in common; a call that failed early has no known arguments."""
    known = [act for act in calls if act.arguments]
    yield from (("argument", (name,)) for name in _common(act.arguments for act in known))
    yield from (("flag", (name,)) for name in _common(act.flags for act in known))
    yield from (("form", each) for each in _common(act.forms for act in known))
    yield from (("choice", each) for each in _common(act.words.items() for act in known))
    yield from (("folder", (name,)) for name in _common(act.folders for act in known if act.folders))
    yield from {("word", each) for act in known for each in act.words.items()}


def _common(several: Iterable[Iterable[Any]]) -> set[Any]:
    sets = [set(each) for each in several]
    return set[Any]().union(*sets[:1]).intersection(*sets)


def _order(acts: Sequence[Act], at: Sequence[int], other: str) -> Iterator[str]:
    """Which of the other tool's calls come before or after those at these places, and on the same files."""
    others = [n for n, act in enumerate(acts) if act.tool == other]
    if others[0] < at[0]:
        yield "before"
    if others[-1] > at[-1]:
        yield "after"
    placed = [n for n in at if acts[n].paths]
    for kind, side in (("before-same", -1), ("after-same", 1)):
        near = ({p for m in others if (m - n) * side > 0 for p in acts[m].paths} for n in placed)
        if placed and all(there & {*acts[n].paths} for n, there in zip(placed, near, strict=True)):
            yield kind


def trajectories(document: Document) -> Mapping[int, Trajectory]:
    """Trajectories by attempt: the last one from plan and steps, earlier ones from their folds."""
    by_attempt = {fold.attempt: _folded(document, fold) for fold in document.section(2).folds}
    steps = [document.steps.get(n, step) for n, step in sorted(document.planned.items())]
    if steps or document.meta.attempt not in by_attempt:
        acts = tuple(_acts(steps, {}))
        by_attempt[document.meta.attempt] = Trajectory(acts, _criteria(document.text(2, "success criteria")))
    return by_attempt


def trajectory_of(steps: Sequence[Step]) -> Trajectory:
    """The trajectory of steps that no document has."""
    return Trajectory(tuple(_acts(steps, {})))


def _folded(document: Document, fold: Fold) -> Trajectory:
    """The trajectory of a fold, which has a line per step; §3 has the started steps."""
    listing = next((note.text for note in fold.notes if note.key == "steps then"), "")
    acts: list[Act] = []
    numbers: dict[str, int] = {}
    for hit in _LINE.finditer(listing):
        step = document.steps.get(int(hit[1]))
        if step is not None:
            acts += _acts([step], numbers)
        elif _TOOL.fullmatch(hit[2]):
            acts.append(Act(tool=SUBTASK if hit[2] == "subtask" else hit[2], state=hit[3]))
    return Trajectory(tuple(acts[:LONGEST]))


def _acts(steps: Sequence[Step], numbers: dict[str, int]) -> Iterator[Act]:
    """The steps as acts; `numbers` are those of the paths so far."""
    for step in list(filter(was_made, steps))[:LONGEST]:
        tool = step.tool or SUBTASK
        if _TOOL.fullmatch(tool):
            yield _act(tool, step.args or {}, step, numbers)


def _act(tool: str, args: Mapping[str, Any], step: Step, numbers: dict[str, int]) -> Act:
    named = {key: value for key, value in args.items() if _ARGUMENT.fullmatch(key)}
    texts = {key: value for key, value in named.items() if isinstance(value, str)}
    forms = ((key, form) for key, text in texts.items() for form, looks in FORMS.items() if looks(text))
    return Act(
        tool=tool,
        arguments=tuple(sorted(key for key, value in named.items() if value not in (None, "", [], {}))),
        flags=tuple(sorted(key for key, value in named.items() if value is True)),
        words={key: text for key, text in texts.items() if _WORD.fullmatch(text)},
        folders=tuple(sorted({*_folders(named)})),
        forms=tuple(sorted(forms)),
        paths=tuple(sorted({numbers.setdefault(path, len(numbers)) for path in _paths(named, step)})),
        state=step.state,
    )


def _paths(args: Mapping[str, Any], step: Step) -> Iterator[str]:
    """The files that a step names or has touched."""
    for key, value in args.items():
        if isinstance(value, str) and 0 < len(value) < 300 and "{{" not in value:
            if key in _PATHS or (key != "content" and _PATHLIKE.fullmatch(value)):
                yield value.removeprefix("./")
            elif key == "command":
                yield from (word.removeprefix("./") for word in _PATHLIKE.findall(value))
    for change in step.evidence.get("touched") or ():
        if isinstance(change, Mapping) and isinstance(path := change.get("path"), str):
            yield path


def _folders(args: Mapping[str, Any]) -> Iterator[str]:
    """The first folder of each path, if its name is one plain word."""
    for key in _PATHS & args.keys():
        value = args[key]
        if isinstance(value, str) and "{{" not in value and not value.startswith(("/", "~", "..")):
            first, slash, _ = value.removeprefix("./").partition("/")
            if not slash:
                yield "."
            elif _FOLDER.fullmatch(first):
                yield first


def _criteria(text: str) -> tuple[str, ...]:
    """The kinds of success criteria in a plan."""
    kinds: set[str] = set()
    for line in text.splitlines():
        try:
            criterion = json.loads(line)
        except ValueError:
            continue
        if isinstance(criterion, dict):
            kinds |= criterion.keys() & {"run", "file", "step", "same", "judge"}
    return tuple(sorted(kinds))


LOOKED_AT = 20_000
"""Characters of a written file that are read."""
ONE_LINE = 100
"""Characters of an answer that counts as one line."""
WORDS = 3
"""The least words of an answer that has a form."""
_ENDING = re.compile(r"\.[a-z0-9]{1,5}")
_STYLES = (
    ("words joined by underscores", re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")),
    ("words joined by hyphens", re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")),
    ("capitals at the words", re.compile(r"(?:[A-Z][a-z0-9]+){2,}")),
)
_INDENT = re.compile(r"(?m)^(\t| +)\S")


def habits_of(document: Document) -> list[tuple[str, ...]]:
    """The habits of a loop's last attempt, each as a kind and its words."""
    steps = [step for step in document.steps.values() if step.n in document.planned]
    return habits(steps, document.text(1, "task"), document.text(5, "result"))


def habits(steps: Iterable[Step], task: str, result: str) -> list[tuple[str, ...]]:
    """The habits in the files that steps wrote for a task, and in its result."""
    found: dict[tuple[str, ...], None] = {}
    for step in steps:
        if step.state == "done" and step.tool == "write":
            found |= dict.fromkeys(_of_file(step, task))
    result = result.strip()
    if len(result.split()) >= WORDS:
        short = "\n" not in result and len(result) <= ONE_LINE
        found["answer", "one line" if short else "several lines"] = None
    return list(found)


def _of_file(step: Step, task: str) -> Iterator[tuple[str, ...]]:
    """The habits in a written file, without what the task itself names."""
    args = step.args or {}
    path, text = args.get("path"), args.get("content")
    if not isinstance(path, str) or not path or path.startswith(("/", "..")):
        return
    place = PurePosixPath(path.removeprefix("./"))
    ending = place.suffix.lower()
    if not _ENDING.fullmatch(ending):
        return
    if len(place.parts) == 2 and f"{place.parts[0]}/" not in task and _FOLDER.fullmatch(place.parts[0]):
        yield "folder", ending, place.parts[0]
    for name, style in _STYLES:
        if style.fullmatch(place.stem) and place.name not in task:
            yield "naming", ending, name
    if isinstance(text, str) and text and "{{" not in text:
        yield from _of_text(ending, text[:LOOKED_AT])


def _of_text(ending: str, text: str) -> Iterator[tuple[str, ...]]:
    indents = [hit[1] for hit in _INDENT.finditer(text)]
    if len(indents) >= 3:
        width = min(len(each) for each in indents)
        indent = "tabs" if all(each[0] == "\t" for each in indents) else f"{width} blanks"
        if indent == "tabs" or width in (2, 4, 8):
            yield "indent", ending, indent
    if ending == ".py" and re.match(r"\s*(?:#[^\n]*\n)*\s*[ru]?(\"\"\"|''')", text):
        yield "docstring", ending, "a docstring"
    if ending == ".py" and re.search(r"(?m)^\s*def \w+\([^)]*:\s*\w+[^)]*\)|\) -> ", text):
        yield "docstring", ending, "type hints"
