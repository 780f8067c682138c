"""Asked before each action: what would it really do, and which rules of danger does that fall under?"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from kernel import disk
from kernel.danger import Danger
from kernel.errors import ConfigurationError
from kernel.tools import Tool
from runtime.nervous.matching import Matcher, prepared
from runtime.nervous.options import Line
from runtime.nervous.places import Places
from runtime.nervous.rules import Rule, together
from runtime.nervous.values import Act, Found, TooMuch

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

FAULT = "reading it failed"
_ORDER = {"serious": 0, "danger": 1}
_ASKS = (("--help",), ("--version",))
"""Arguments by which a program only tells about itself."""


class Guard:
    """The rules of a workspace, held against the actions of a run in one folder. Cheap to make.

    The rules are read when the first action is looked at, and again when a person has changed them. A file
    of rules that is wrong lets nothing pass.
    """

    def __init__(
        self,
        systems: Sequence[Path],
        folder: Path,
        protected: Sequence[Path] = (),
        present: Callable[[str], bool] = os.path.lexists,
    ) -> None:
        self._systems = tuple(systems)
        self._places = Places(folder, protected, systems, present)
        self._marks: object = None
        self._index: dict[str, _Index] = {}
        self._fault: ConfigurationError | None = None
        self.rules: Mapping[str, Rule] = {}

    def __call__(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call, the serious ones first; raises `DangerRules` where the rules are wrong."""
        if tool.guided:
            return ()
        self.load()
        return self.judge(self.acts(tool, args))

    def command(self, line: str) -> Sequence[Danger]:
        """The dangers of a line of shell; raises `DangerRules`."""
        self.load()
        return self.judge(self._followed(lambda shell: shell.line(line)))

    def load(self) -> None:
        """Read the rules, where they were not read as they are now; raises `DangerRules`."""
        marks = tuple(disk.version(system / "dangers.md") for system in self._systems)
        if marks != self._marks:
            self._marks, self._fault = marks, None
            try:
                self.rules = together(self._systems)
                self._index = _indexed(self.rules.values())
            except ConfigurationError as error:
                self._fault = error
        if self._fault is not None:
            raise self._fault

    def acts(self, tool: Tool, args: Mapping[str, Any]) -> list[Act]:
        """What a call would do."""
        if tool.scheme == "python" and not tool.effects:  # sums and dates: nothing to look at
            return [Act("call", tool.name, shown=f"calls {tool.name}")]
        from runtime.nervous.calls import looked_at

        return self._followed(lambda shell: looked_at(tool, args, shell))

    def _followed(self, look: Callable[[Shell], object]) -> list[Act]:
        from runtime.nervous.shell import Shell

        found = Found()
        try:
            look(Shell(self._places.fresh(), found))
        except (TooMuch, RecursionError):
            shown = "it is too long or too deep to be looked through"
            found.add(Act("hidden", tags=frozenset({"too much"}), shown=shown))
        except Exception as error:  # a fault of the reading is no way past the rules, and no end of a run
            shown = f"{FAULT}: {type(error).__name__}"
            found.add(Act("hidden", tags=frozenset({"too much"}), shown=shown))
        return found.acts

    def judge(self, acts: Sequence[Act]) -> Sequence[Danger]:
        """The rules that these acts fall under, each once, with the first act that does."""
        dangers: dict[str, Danger] = {}
        for act in acts:
            index = self._index.get(act.does)
            if index is None or (act.does == "run" and act.words in _ASKS):
                continue
            line: Line | None = None
            for rule, matcher in index.of(act.program):
                if rule.name in dangers:
                    continue
                line = line or prepared(act)
                if matcher(act, line, self._places):
                    severity = cast(Literal["danger", "serious"], rule.severity)
                    dangers[rule.name] = Danger(rule.name, severity, f"{rule.why} Here: {act}.")
        return sorted(dangers.values(), key=lambda each: _ORDER[each.severity])


class _Index:
    """The entries of rules about one kind of act, by the names of programs."""

    def __init__(self) -> None:
        self.named: dict[str, list[tuple[Rule, Matcher]]] = {}
        self.globs: list[tuple[str, Rule, Matcher]] = []
        self.any: list[tuple[Rule, Matcher]] = []

    def put(self, rule: Rule, matcher: Matcher) -> None:
        """Keep an entry under each name that it has."""
        for name in matcher.programs:
            if "*" in name or "[" in name:
                self.globs.append((name, rule, matcher))
            else:
                self.named.setdefault(name, []).append((rule, matcher))
        if not matcher.programs:
            self.any.append((rule, matcher))

    def of(self, program: str) -> Iterable[tuple[Rule, Matcher]]:
        """The entries that may be about a program."""
        yield from self.named.get(program, ())
        for glob, rule, matcher in self.globs:
            if fnmatch.fnmatchcase(program, glob):
                yield rule, matcher
        yield from self.any


def _indexed(rules: Iterable[Rule]) -> dict[str, _Index]:
    index: dict[str, _Index] = {}
    for rule in rules:
        for matcher in rule.match:
            for does in matcher.does:
                index.setdefault(does, _Index()).put(rule, matcher)
    return index
