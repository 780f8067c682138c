"""A tool or an operation: its arguments, what runs it, and its effects."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

from kernel.document.references import references
from kernel.errors import ConfigurationError
from kernel.pinned import CACHE
from kernel.tools.state_machine import Machine

EFFECTS = ("read", "write", "network", "shell")
CHANGING = frozenset({"write", "shell"})
"""Effects that may change files of the folder: snapshots are taken before and after such calls."""
BUILTINS = ("read", "write", "bash")
"""The kernel's own operations, which are always in PLAN's index."""
DESCRIBED = 160
"""Maximum characters of a guided tool's description in the index; that of a skill may be much longer."""
NAMED = 8
"""Maximum arguments in a signature; tools of MCP servers may have many."""
BESIDE = 40
"""Maximum files of a skill that its loop sees by name."""
MOST_BESIDE = 1000
"""Maximum further files that are counted."""
DEEP = 4
"""Levels of folders in which skills are searched."""
PASSED_OVER = frozenset({"node_modules", "__pycache__"})
"""Folders in which no skills are looked for, and whose files a skill's loop does not see."""
_SHIPPED = ("kernel.", "runtime.")
"""Packages whose code may run in the kernel's process."""
_RENAMED = {
    "kernel.operations.bash:bash": "kernel.tools.builtin.bash:bash",
    "kernel.operations.read:read": "kernel.tools.builtin.read:read",
    "kernel.operations.write:write": "kernel.tools.builtin.write:write",
}
"""Old names of functions in workspaces of earlier versions."""
_PACKAGE = __name__.removesuffix("kernel.tools.tool")
"""The parent package of `kernel` and `runtime`: "" in a checkout, `fractal.` in an installed wheel."""


def _no_check(name: str, value: Any) -> str:
    return ""


@dataclass(frozen=True)
class Tool:
    """One entry of the catalogue. The fields are those of its frontmatter, see kernel.md."""

    name: str
    path: Path
    description: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    required: tuple[str, ...] = ()
    returns: str = ""
    run: str = ""
    effects: tuple[str, ...] = ()
    idempotent: bool | Mapping[str, Sequence[Any]] = False  # or: only with these values of arguments
    only_reads: Mapping[str, Sequence[Any]] | None = None  # changes nothing with these values of arguments
    timeout: float = 60.0
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cases: tuple[Mapping[str, Any], ...] = ()  # more samples, without a task
    status: str = "active"
    origin: str = "shipped"
    body: str = ""
    operation: bool = True
    rank: int = 100  # in the index, among tools that suit a task equally: lower comes first
    states: Machine | None = None
    destructive: bool = False  # its MCP server declares that calls may destroy something
    draft: bool = False  # written by the current run and not adopted yet
    open: bool = False  # a guided tool whose loop decides its steps one turn at a time
    lifeforce: float | Mapping[str, float] = 0.0  # of a call; or by action, of a tool with states
    oversight: bool = False  # a guided tool whose loop the rungs of oversight answer, with all tools
    check: Callable[[str, Any], str] = field(default=_no_check, compare=False, repr=False)
    """Returns what is wrong with the value of an argument."""
    code: Callable[[], Callable[..., Any]] | None = field(default=None, compare=False, repr=False)
    """Loads the function of a `plugin:`; only the runtime sets it, never a file."""

    def repeatable(self, args: Mapping[str, Any]) -> bool:
        """Whether a call that may have happened can safely be made again."""
        if self.only_reads is not None and _within(args, self.only_reads):
            return True
        if isinstance(self.idempotent, Mapping):
            return _within(args, self.idempotent)
        return self.idempotent

    def effects_of(self, args: Mapping[str, Any] | None) -> frozenset[str]:
        """The effects of a call with these arguments, `shell` included if it runs a program."""
        return self._declared(args) | {"shell"} if self.scheme == "command" else self._declared(args)

    def changes(self, args: Mapping[str, Any] | None) -> bool:
        """Whether a call with these arguments may change files of the folder."""
        return self.guided or bool(CHANGING & self.effects_of(args))

    def looks(self, args: Mapping[str, Any] | None) -> bool:
        """Whether a call with these arguments is declared to only read."""
        return not self.guided and not self._declared(args) - {"read", "network"}

    def _declared(self, args: Mapping[str, Any] | None) -> frozenset[str]:
        reads = args is not None and self.only_reads is not None and _within(args, self.only_reads)
        return frozenset(each for each in self.effects if not (reads and each == "write"))

    def costs(self, args: Mapping[str, Any]) -> float:
        """The lifeforce of a call with these arguments."""
        if isinstance(self.lifeforce, Mapping):
            return self.lifeforce.get(str(args.get(self.states.by)), 0.0) if self.states else 0.0
        return self.lifeforce

    @property
    def guided(self) -> bool:
        """Whether this is a loop guided by its body, and not code."""
        return not self.run

    @property
    def scheme(self) -> str:
        """The scheme of `run`: `python`, `plugin`, `command`, `mcp`; "" for a guided tool."""
        return self.run.partition(":")[0]

    @property
    def in_process(self) -> bool:
        """Whether this is a function that runs in this process: one that ships, or one of a plugin."""
        return self.scheme in ("python", "plugin")

    @property
    def skill(self) -> bool:
        """Whether this is an Agent Skill, whose files are read on demand."""
        return is_skill(self.path.name)

    @property
    def signature(self) -> str:
        """One line for PLAN's index, such as `read(path, lines?)`; of many arguments the required ones."""
        if self.guided:
            return f"{self.name}(what): {_short(' '.join(self.description.split()))}"
        names = [name if name in self.required else f"{name}?" for name in self.args]
        if self.states:  # a plan needs to know the actions
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
        """The text under this heading in the body; "" if there is none.

        The headings of a skill do not name phases: `## Do not guess` is no section for DO.
        """
        return "" if self.skill else section(self.body, name)

    @property
    def preface(self) -> str:
        """The body without the sections of the four phases; for a skill the whole body."""
        return (self.body if self.skill else _PHASE_SECTION.sub("", self.body)).strip()

    @property
    def beside(self) -> str:
        """A line that lists the files of a skill, for reading or running on demand; "" for other tools."""
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
        """The hash of the names and bytes of its files, which detects changes since its test."""
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
        """The program of `run: "command: ./tool.py"`; raises `ConfigurationError` if it does not exist."""
        program = (self.path.parent / self.run.removeprefix("command:").strip()).resolve()
        beside = self.path.parent.resolve() in program.parents and CACHE not in program.parts
        if not (beside and program.is_file()):
            raise ConfigurationError(f"{self.path}: run: there is no program {program.name} beside it")
        return program

    def problem(self, args: Mapping[str, Any] | None, *, filled: bool = False) -> str:
        """What is wrong with the arguments; "" if nothing is.

        Arguments with references are checked only once they are `filled` in.
        """
        if args is None:
            return ""
        if unknown := [name for name in args if name not in self.args]:
            return f"{self.signature} has no argument {', '.join(unknown)}"
        if missing := [name for name in self.required if name not in args]:
            return f"{self.signature} needs {', '.join(missing)}"
        whole = {name: value for name, value in args.items() if filled or not references(value)}
        for name, value in whole.items():
            if problem := self.check(name, value):
                return f"{self.name}: {problem}"
        return ""

    def typed(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with numbers converted from text, which references insert."""
        return {name: _number(value, self.args.get(name, {})) for name, value in args.items()}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function behind `run: "python: module:function"`, or of a plugin."""
        if self.code:
            return self.code()
        target = self.run.removeprefix("python:").strip()
        module, _, name = _RENAMED.get(target, target).partition(":")
        if not self.run.startswith("python:") or not target.startswith(_SHIPPED):
            raise ConfigurationError(
                f"{self.path}: run: {self.run!r} is not a function that ships with Fractal"
            )
        try:
            return getattr(importlib.import_module(_PACKAGE + module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"{self.path}: run: {error}") from None


def _within(args: Mapping[str, Any], allowed: Mapping[str, Sequence[Any]]) -> bool:
    """Whether each of these arguments is left out, or has one of the allowed values."""
    return all(name not in args or args[name] in values for name, values in allowed.items())


Severity = Literal["danger", "serious"]


@dataclass(frozen=True)
class Danger:
    """A rule that matches a call, which requires approval; `--yes` never approves a `serious` one."""

    rule: str
    severity: Severity
    why: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.rule}. {self.why}"


Guard = Callable[[Tool, Mapping[str, Any]], Sequence[Danger]]
"""Returns the dangers of a call, before each call at every level. The rules are data of the runtime."""


@dataclass(frozen=True)
class Fault:
    """A file of the catalogue that was skipped, and why."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class Catalogue(Protocol):
    """The tools that a run can use, and the instruction files of the system."""

    tools: dict[str, Tool]
    faults: list[Fault]

    def refresh(self) -> bool:
        """Reload what changed on disk; true if anything did."""
        ...

    def without(self, names: Collection[str]) -> Catalogue:
        """The same catalogue as somebody sees it who does not know these tools."""
        ...

    def get(self, name: str) -> Tool:
        """The tool of that name; raises `OperationFailed`."""
        ...

    def unknown(self, name: str) -> str:
        """The error message for an unknown tool."""
        ...

    def problem(self, tool: str, args: Mapping[str, Any] | None) -> str:
        """What is wrong with a call; "" if nothing is."""
        ...

    def guided(self, tool: str) -> bool:
        """Whether this is the name of a guided tool."""
        ...

    def chosen(
        self,
        task: str,
        limit: int,
        count: Callable[[str], int],
        own: Tool | None = None,
        line: Callable[[Tool], str] = ...,
    ) -> list[Tool]:
        """The tools that suit the task best, whose lines together have at most `limit` tokens."""
        ...

    def index(self, task: str, limit: int, count: Callable[[str], int], own: Tool | None = None) -> str:
        """The signatures for PLAN within `limit` tokens; `own` is the guided tool of the loop itself."""
        ...

    def text(self, relative: str, *, drafted: bool = False) -> str:
        """An instruction file; "" if there is none. With `drafted`, the run's own draft takes precedence."""
        ...

    def places(self, names: Iterable[str]) -> tuple[Path, ...]:
        """The folders of the skills among these names."""
        ...


_PHASE_SECTION = re.compile(r"(?ims)^#+[ \t]+(?:understand|plan|do|check)\b[^\n]*\n.*?(?=^#+[ \t]|\Z)")


def section(text: str, name: str) -> str:
    """The text under this heading; "" if there is none."""
    hit = re.search(rf"(?ims)^#+[ \t]+{re.escape(name)}\b[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


def is_skill(name: str) -> bool:
    """Whether this is the file name of a skill."""
    return name.upper() == "SKILL.MD"


def skill_in(names: Sequence[str]) -> str:
    """The file of a skill among the names in a folder; "" if there is none."""
    return "SKILL.md" if "SKILL.md" in names else next(filter(is_skill, names), "")


def _entries_of(folder: str) -> Sequence[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 (strings, as below)
    except OSError:  # closed to us
        return ()


def skill_files(folder: str, entries_of: Callable[[str], Sequence[str]] = _entries_of) -> list[str]:
    """The files of the skills of a folder: it is one, or has some below it, also behind links.

    What lies in a skill's folder is its own. `entries_of` lists the sorted names in a folder. Each folder is
    entered once, by its shortest path: of two links to a skill that are equally deep the first counts.
    """
    entered: set[tuple[int, int]] = set()  # links may lead in circles
    found: list[tuple[str, ...]] = []
    level: list[tuple[str, ...]] = [()]
    for _ in range(DEEP + 1):  # level by level: a link deep down must not hide what lies below its target
        below: list[tuple[str, ...]] = []
        for inside in level:
            place = "/".join((folder, *inside))
            try:
                info = os.stat(place)  # noqa: PTH116 (a `Path` for each would take longer than the search)
            except OSError:  # no folder, or closed to us
                continue
            if not stat.S_ISDIR(info.st_mode) or (info.st_dev, info.st_ino) in entered:
                continue
            entered.add((info.st_dev, info.st_ino))
            names = entries_of(place)
            if name := skill_in(names):
                found.append((*inside, name))
            else:
                below += [(*inside, each) for each in names if each[0] != "." and each not in PASSED_OVER]
        level = below
    return ["/".join((folder, *inside)) for inside in sorted(found)]


def preamble(text: str) -> str:
    """The text between the title and the first heading below it."""
    hit = re.search(r"(?ms)^#[ \t]+[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


def files_in(folder: Path) -> list[Path]:
    """The files of a tool's folder in a stable order, without bytecode caches."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(found)


def _resources(folder: Path) -> Iterator[str]:
    """The files of a skill except its text: those of each folder before those of its subfolders."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in PASSED_OVER)
        inside = Path(where).relative_to(folder)
        yield from (
            (inside / name).as_posix()
            for name in sorted(files)
            if name[0] != "." and not (where == str(folder) and is_skill(name))
        )


def _short(text: str) -> str:
    """The beginning of a description, cut between words."""
    return text if len(text) <= DESCRIBED else f"{text[:DESCRIBED].rpartition(' ')[0] or text[:DESCRIBED]} …"


def _number(value: Any, schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("integer", "number"):
        try:
            return int(value) if kind == "integer" else float(value)
        except ValueError:
            return value
    return value
