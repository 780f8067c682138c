"""A tool or an operation: what it is called with, what runs it, and what its call may do."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError
from kernel.references import references
from kernel.schemas import check
from kernel.skills import is_skill
from kernel.states import Machine

EFFECTS = ("read", "write", "network", "shell")
CHANGING = frozenset({"write", "shell"})
"""Those that may change files of the folder: it is kept before them, and looked at after them."""
HANDS = ("read", "write", "bash")
"""The kernel's own operations: always in PLAN's index."""
DESCRIBED = 160
"""Characters of a guided tool's description in the index: skills may have a thousand."""
NAMED = 8
"""Arguments that a signature names: those of other people's servers have many."""
BESIDE = 40
"""Files of a skill that its loop is told by name."""
MOST_BESIDE = 1000
"""Further ones that are counted."""
_NOT_SHOWN = frozenset({"node_modules", "__pycache__"})
_SHIPPED = ("kernel.", "runtime.")
"""Where code that runs inside the kernel's process may come from: what ships in the package."""


@dataclass(frozen=True)
class Tool:
    """One entry of the catalogue; frontmatter as kernel.md's table has it."""

    name: str
    path: Path
    description: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    required: tuple[str, ...] = ()
    returns: str = ""
    run: str = ""
    effects: tuple[str, ...] = ()
    idempotent: bool | Mapping[str, Sequence[str]] = False  # or: with which values of an argument
    timeout: float = 60.0
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = "active"
    origin: str = "shipped"
    body: str = ""
    operation: bool = True
    rank: int = 100  # among tools that suit a task equally, the smaller comes first in the index
    states: Machine | None = None
    destructive: bool = False  # its server says that its calls may destroy something
    draft: bool = False  # made by the run that sees it, and not admitted yet

    def repeatable(self, args: Mapping[str, Any]) -> bool:
        """Whether a call that may have happened can simply be made again."""
        if isinstance(self.idempotent, Mapping):
            return all(name not in args or args[name] in values for name, values in self.idempotent.items())
        return self.idempotent

    @property
    def guided(self) -> bool:
        """Whether its loop is guided by its body instead of run by code."""
        return not self.run

    @property
    def scheme(self) -> str:
        """What runs it: `python`, `command`, `mcp`; "" for a loop guided by its body."""
        return self.run.partition(":")[0]

    @property
    def skill(self) -> bool:
        """Whether it is an Agent Skill, whose files are read when they are needed."""
        return is_skill(self.path.name)

    @property
    def signature(self) -> str:
        """One line for PLAN's index, such as `read(path, lines?)`; of many arguments the needed ones."""
        if self.guided:
            return f"{self.name}(what): {_short(' '.join(self.description.split()))}"
        names = [name if name in self.required else f"{name}?" for name in self.args]
        if self.states:  # without its actions nobody could plan with it
            actions = "|".join(self.states.actions)
            names = [f"{self.states.by}={actions}" if name == self.states.by else name for name in names]
        if len(names) > NAMED:
            names = [*self.required[:NAMED], "…"]
        return f"{self.name}({', '.join(names)})"

    @property
    def line(self) -> str:
        """The signature with the description."""
        return self.signature if self.guided else f"{self.signature}: {self.description}"

    def section(self, name: str) -> str:
        """The text under the heading of that name in the body, "" when there is none.

        A skill's headings are its author's own: `## Do not guess` is no text for the phase DO.
        """
        return "" if self.skill else section(self.body, name)

    @property
    def preface(self) -> str:
        """Its loop's work context: the body without the sections of the four phases; of a skill all of it."""
        return (self.body if self.skill else _PHASE_SECTION.sub("", self.body)).strip()

    @property
    def beside(self) -> str:
        """Of a skill, which files lie beside its text, to be read or run when they are needed."""
        if not self.skill:
            return ""
        found = list(islice(_resources(self.path.parent), BESIDE + MOST_BESIDE))
        if not found:
            return ""
        more = len(found) - BESIDE
        count = f" and {'more than ' if more == MOST_BESIDE else ''}{more} more"
        named = ", ".join(found[:BESIDE]) + (count if more > 0 else "")
        return f"Files of {self.name}, in {self.path.parent.absolute()} (only to read or run): {named}"

    def fingerprint(self) -> str:
        """The hash of its files' names and bytes, by which a change since its test is told."""
        whole = hashlib.sha256()
        beside = self.path.parent.name in ("operations", "kernel")
        program = self.program if self.scheme == "command" else None
        paths = [self.path, *([program] if program else [])] if beside else files_in(self.path.parent)
        for path in paths:
            raw = path.read_bytes() if path.is_file() else b""
            whole.update(f"{path.name}\0{len(raw)}\0".encode("utf-8", "surrogateescape") + raw)
        return whole.hexdigest()[:16]

    @property
    def program(self) -> Path:
        """The program of `run: "command: ./tool.py"`; raises `ConfigurationError` where there is none."""
        program = (self.path.parent / self.run.removeprefix("command:").strip()).resolve()
        if self.path.parent.resolve() not in program.parents or not program.is_file():
            raise ConfigurationError(f"{self.path}: run: there is no program {program.name} beside it")
        return program

    def problem(self, args: Mapping[str, Any] | None, *, filled: bool = False) -> str:
        """What is wrong with the arguments, in words; "" when nothing is.

        Until they are `filled` in, those with references are not looked at.
        """
        if args is None:
            return ""
        if unknown := [name for name in args if name not in self.args]:
            return f"{self.signature} has no argument {', '.join(unknown)}"
        if missing := [name for name in self.required if name not in args]:
            return f"{self.signature} needs {', '.join(missing)}"
        whole = {name: value for name, value in args.items() if filled or not references(value)}
        for name, value in whole.items():
            if problem := self._checks[name](value):
                return f"{self.name}: {problem}"
        return ""

    @cached_property
    def _checks(self) -> Mapping[str, Callable[[Any], str]]:
        return {name: check(name, schema) for name, schema in self.args.items()}

    def typed(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for the call: a number that came out of a reference as text becomes a number."""
        return {name: _number(value, self.args.get(name, {})) for name, value in args.items()}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function behind `run: "python: module:function"`."""
        target = self.run.removeprefix("python:").strip()
        module, _, name = target.partition(":")
        if not self.run.startswith("python:") or not target.startswith(_SHIPPED):
            raise ConfigurationError(
                f"{self.path}: run: {self.run!r} is not a function that ships with Fractal"
            )
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"{self.path}: run: {error}") from None


_PHASE_SECTION = re.compile(r"(?ims)^#+[ \t]+(?:understand|plan|do|check)\b[^\n]*\n.*?(?=^#+[ \t]|\Z)")


def section(text: str, name: str) -> str:
    """The text under the heading of that name, "" when there is none."""
    hit = re.search(rf"(?ims)^#+[ \t]+{re.escape(name)}\b[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


def preamble(text: str) -> str:
    """The text between the title and the first heading below it."""
    hit = re.search(r"(?ms)^#[ \t]+[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


def files_in(folder: Path) -> list[Path]:
    """The files of a tool's folder in a steady order, without what interpreters leave there."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(found)


def _resources(folder: Path) -> Iterator[str]:
    """The files of a skill but for its text: those of each folder before those further down."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in _NOT_SHOWN)
        inside = Path(where).relative_to(folder)
        yield from (
            (inside / name).as_posix()
            for name in sorted(files)
            if name[0] != "." and not (where == str(folder) and is_skill(name))
        )


def _short(text: str) -> str:
    """The beginning of a description, in whole words."""
    return text if len(text) <= DESCRIBED else f"{text[:DESCRIBED].rpartition(' ')[0] or text[:DESCRIBED]} …"


def _number(value: Any, schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("integer", "number"):
        try:
            return int(value) if kind == "integer" else float(value)
        except ValueError:
            return value
    return value
