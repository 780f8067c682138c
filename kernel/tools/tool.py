"""A tool or an operation: its arguments, what runs it, and its effects."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from kernel.document.references import references
from kernel.errors import ConfigurationError
from kernel.tools.state_machine import Machine

EFFECTS = ("read", "write", "network", "shell")
CHANGING = frozenset({"write", "shell"})
"""Effects that may change files of the folder: snapshots are taken before and after such calls."""
BUILTINS = ("read", "write", "bash")
"""Operations that are always in the index, and that no other tool may replace."""
DESCRIBED = 160
"""Maximum characters of a guided tool's description in the index; that of a skill may be much longer."""
NAMED = 8
"""Maximum arguments in a signature; tools of MCP servers may have many."""


def _no_check(name: str, value: Any) -> str:
    return ""


def _no_code() -> Callable[..., Any]:
    raise ConfigurationError("this tool is no function")


@dataclass(frozen=True)
class Tool:
    """One entry of the catalogue. The fields are those of its frontmatter, see docs/tools.md."""

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
    skill: bool = False  # an Agent Skill, whose files are read on demand
    resources: Callable[[], str] = field(default=str, compare=False, repr=False)
    """A line that lists the files of a skill, for reading or running on demand; "" for other tools."""
    check: Callable[[str, Any], str] = field(default=_no_check, compare=False, repr=False)
    """Returns what is wrong with the value of an argument."""
    code: Callable[[], Callable[..., Any]] = field(default=_no_code, compare=False, repr=False)
    """Loads the function that runs in this process; only the runtime sets it, never a file."""

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

    def in_order(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the tool's own order, others last: a document may hold them in another one."""
        order = list(self.args)
        return {name: args[name] for name in sorted(args, key=lambda name: (_place(name, order), name))}

    def typed(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with numbers converted from text, which references insert."""
        return {name: _number(value, self.args.get(name, {})) for name, value in args.items()}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function that runs in this process, loaded when it is first used."""
        return self.code()


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _within(args: Mapping[str, Any], allowed: Mapping[str, Sequence[Any]]) -> bool:
    """Whether each of these arguments is left out, or has one of the allowed values."""
    return all(name not in args or args[name] in values for name, values in allowed.items())


@dataclass(frozen=True)
class Danger:
    """A rule that matches a call, which requires approval; `--yes` never approves a `serious` one."""

    rule: str
    severity: Literal["danger", "serious"]
    why: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.rule}. {self.why}"


class Catalogue(Protocol):
    """The tools that a run can use, and the instruction files of the system."""

    tools: dict[str, Tool]

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

    def ranked(self, task: str, own: Tool | None = None) -> list[Tool]:
        """The tools that may be offered, those that suit the task best first; not `own`, the loop's own."""
        ...

    def text(self, relative: str, *, drafted: bool = False) -> str:
        """An instruction file; "" if there is none. With `drafted`, the run's own draft takes precedence."""
        ...

    def places(self, names: Iterable[str]) -> tuple[Path, ...]:
        """The folders of the skills among these names."""
        ...


def section(text: str, name: str) -> str:
    """The text under this heading; "" if there is none."""
    hit = re.search(rf"(?ims)^#+[ \t]+{re.escape(name)}\b[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


def preamble(text: str) -> str:
    """The text between the title and the first heading below it."""
    hit = re.search(r"(?ms)^#[ \t]+[^\n]*\n(.*?)(?=^#+[ \t]|\Z)", text)
    return hit[1].strip() if hit else ""


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
