"""The catalogue: what the system can do, read from the markdown under `system/`.

A tool is a folder `tools/<name>/` or `tools/specialists/<name>/` with a `pattern.md` or a `SKILL.md`; an
operation is a file `operations/<name>.md` or `kernel/<name>.md`. Several system folders overlay each other,
path by path.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.tool import BUILTINS, Tool
from runtime.catalogue.choosing import choice_of
from runtime.catalogue.finding import system_files
from runtime.catalogue.pattern import Fault, load
from runtime.found_files import version
from runtime.pinned import allowed, text_of
from runtime.skill_files import skill_files

_NAMED = re.compile(r"""`([a-z0-9-]+)`|"tool": "([a-z0-9-]+)\"""")
FOUND = 5
"""Tools that are named when somebody looks for one by words."""
NO_SKILLS = "skills: there is no such folder"

Source = Callable[[], Sequence[Tool | Fault]]
"""Where more tools come from than the system's folders: plugins and servers."""


def faults_of(catalogue: object) -> list[Fault]:
    """What is wrong with the files of the catalogue of a run; nothing of one of another class."""
    return catalogue.faults if isinstance(catalogue, Catalogue) else []


class Catalogue:
    """The tools of a list of system folders; the first folder wins where two have the same path.

    `drafts` is a run's own folder of drafts, before all others; `skills` are folders of Agent Skills, or
    skills themselves; `sources` give more tools; on a name conflict the other tool wins.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        drafts: Path | None = None,
        skills: Sequence[Path] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        self.folders = tuple(folders)
        self.drafts = drafts
        self.skills = tuple(skills)
        self.sources = tuple(sources)
        self.tools: dict[str, Tool] = {}
        self.idle: dict[str, Tool] = {}
        """Those that are read and not in use: drafts, quarantined, retired."""
        self.faults: list[Fault] = []
        self._last_stats: dict[str, tuple[int, int]] | None = None
        self._more: list[Tool | Fault] = []
        self.always: tuple[str, ...] = ()
        self.offers: Callable[[Tool], bool] = lambda tool: True
        """Whether an index may show a tool."""
        self.refresh()

    def refresh(self) -> bool:
        """Read again what changed on disk (by stat); True when anything did."""
        stats = {path: found for path in self._find() if (found := version(path))}
        more = [tool for source in self.sources for tool in source()]
        if stats == self._last_stats and more == self._more:
            return False
        self._last_stats, self._more = stats, more
        entries = [self._entry(Path(path), *stat) for path, stat in stats.items()]
        self.faults = [entry for entry in entries if isinstance(entry, Fault)]
        self.faults += [Fault(place, 1, NO_SKILLS) for place in self.skills if not place.is_dir()]
        self.tools, self.idle = {}, {}
        for entry in entries:
            if isinstance(entry, Tool) and (problem := self._add(entry)):
                self.faults.append(Fault(entry.path, 1, problem))
        for entry in more:
            if isinstance(entry, Fault):
                self.faults.append(entry)
            elif (problem := self._add(entry)) and entry.origin == "plugin":
                self.faults.append(Fault(entry.path, 1, problem))
        return True

    def _add(self, entry: Tool) -> str:
        """Put a tool among those in use, or the idle ones; says why it is neither."""
        if entry.name in BUILTINS and (entry.draft or entry.path.parent.name != "kernel"):
            return f"name: {entry.name!r} is one of the kernel's own; give it another name"
        if not (entry.status == "active" or (entry.draft and entry.status == "draft")):
            self.idle.setdefault(entry.name, entry)
            return ""
        other = self.tools.setdefault(entry.name, entry)
        if other is entry or other.path.resolve() == entry.path.resolve():  # by a link, or listed twice
            return ""
        return f"name: {entry.name!r} is taken by {other.path}; give it another name"

    def _entry(self, path: Path, mtime_ns: int, size: int) -> Tool | Fault:
        entry = load(path, mtime_ns, size, allowed(path))
        if isinstance(entry, Fault) or not self.drafts or self.drafts not in path.parents:
            return entry
        if entry.scheme not in ("", "command"):
            return Fault(path, 1, f"run: a draft is guidance or command:, never {entry.scheme}:")
        return replace(entry, draft=True, origin="designed")

    def _find(self) -> list[str]:
        paths = list(system_files((*([self.drafts] if self.drafts else []), *self.folders)))
        for folder in self.skills:
            paths += skill_files(str(folder))
        return paths

    def without(self, names: Collection[str]) -> Catalogue:
        """The same catalogue as somebody sees it who does not know these tools."""
        if not names:
            return self
        seen = copy(self)
        seen.tools = {name: tool for name, tool in self.tools.items() if name not in names}
        return seen

    def places(self, names: Iterable[str]) -> tuple[Path, ...]:
        """The folders of those that are skills; their files are read on demand."""
        skills = (self.tools[name] for name in names if name in self.tools and self.tools[name].skill)
        return tuple(tool.path.parent.resolve() for tool in skills)

    def text(self, relative: str, *, drafted: bool = False) -> str:
        """The instruction file `relative` of the first folder that has it; "" when none has.

        Raises `ConfigurationError` for one that cannot be read.

        `drafted`: also of the run's own drafts. The loop at the top, which may have written them, keeps to
        those that are admitted.
        """
        for folder in (*([self.drafts] if drafted and self.drafts else []), *self.folders):
            path = folder / relative
            if path.exists():
                return text_of(path).strip()
        return ""

    def get(self, name: str) -> Tool:
        """The tool of that name; raises `OperationFailed` that names the nearest ones."""
        if tool := self.tools.get(name):
            return tool
        raise OperationFailed(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The message for an unknown tool."""
        for fault in self.faults:
            if name in (fault.path.stem, fault.path.parent.name):
                return f"{name}: {fault.message}"
        if near := difflib.get_close_matches(name, self.tools, 3):
            return f"there is no tool {name!r}; there are {', '.join(near)}"
        suits = choice_of(list(self.tools.values())).suiting(re.sub(r"[-_.]", " ", name))
        found = [self.tools[each] for each in sorted(suits, key=lambda each: (-suits[each], each))]
        if lines := [f"- {tool.line}" for tool in found if self.offers(tool)][:FOUND]:
            return "\n".join([f"there is no tool {name!r}; by these words there are:", *lines])
        return f"there is no tool {name!r}; there are {', '.join(sorted(self.tools)[:12])}"

    def problem(self, tool: str, args: Mapping[str, Any] | None) -> str:
        """What is wrong with such a call; "" when nothing is."""
        return self.tools[tool].problem(args) if tool in self.tools else self.unknown(tool)

    def guided(self, tool: str) -> bool:
        """Whether the tool's loop is guided by its pattern."""
        return tool in self.tools and self.tools[tool].guided

    def ranked(self, task: str, own: Tool | None = None) -> list[Tool]:
        """The built-in tools, those that are `always` shown, then the others, the most suitable first.

        In the loop of a guided tool, `own`, what its pattern names comes first, and it itself is left out.
        Tools are ranked by the words they share with the task (see `choosing`).
        """
        hands = [self.tools[name] for name in BUILTINS if name in self.tools]
        listed = filter(self.offers, self.tools.values())
        others = [tool for tool in listed if tool.name not in BUILTINS and tool is not own]
        suits = choice_of(list(self.tools.values())).suiting(task)
        mentioned = {first or second for first, second in _NAMED.findall(own.body if own else "")}

        always = {*self.always, *(["fetch"] if "://" in task else [])}

        def place(tool: Tool) -> tuple[bool, bool, float, int, str]:
            first = tool.name not in always, tool.name not in mentioned
            return *first, -round(suits.get(tool.name, 0.0), 6), tool.rank, tool.name

        return [*hands, *sorted(others, key=place)]
