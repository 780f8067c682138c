"""Asked before each action: what would it really do, and which rules of danger does that fall under?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from kernel import disk
from kernel.danger import Danger
from kernel.errors import ConfigurationError
from kernel.tools import Tool
from runtime.nervous.matching import Matcher, prepared
from runtime.nervous.places import Places
from runtime.nervous.programs import Line, Table
from runtime.nervous.rules import Rule, together
from runtime.nervous.values import TELLS, Act, Found, TooMuch

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

FAULT = "reading it failed"
_ORDER = {"serious": 0, "danger": 1}
_HELD = ("write", "network", "shell")
"""Effects that the sandbox without a network holds; what is read there is still shown to a model."""


class Guard:
    """The rules of a workspace, held against the actions of a run in one folder. Cheap to make.

    The rules are read when the first action is looked at, and again when a person has changed them. A file
    of rules that is wrong lets nothing pass. `undoable`: whether what a command loses inside the folder is
    kept. `enclosed`: commands run in the sandbox, without the network.
    """

    def __init__(
        self,
        systems: Sequence[Path],
        folder: Path,
        protected: Sequence[Path] = (),
        present: Callable[[str], bool] = os.path.lexists,
        *,
        undoable: Callable[[], bool] = lambda: False,
        enclosed: bool = False,
    ) -> None:
        self.undoable = undoable
        self.enclosed = enclosed
        self._systems = tuple(systems)
        self._places = Places(folder, protected, systems, present)
        self._marks: object = None
        self._about: dict[tuple[str, str], list[tuple[Rule, Matcher]]] = {}
        self._fault: ConfigurationError | None = None
        self.rules: Mapping[str, Rule] = {}
        self.table = Table({})

    def __call__(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call, the serious ones first; raises `DangerRules` where the rules are wrong."""
        if tool.guided:
            return ()
        self.load()
        held = self.enclosed and (
            tool.scheme == "command" or (tool.scheme == "python" and tool.name == "bash")
        )
        return self.judge(self.acts(tool, args), held)

    def command(self, line: str) -> Sequence[Danger]:
        """The dangers of a line of shell; raises `DangerRules`."""
        self.load()
        return self.judge(self._followed(lambda shell: shell.line(line)), self.enclosed)

    def load(self) -> None:
        """Read the rules, where they were not read as they are now; raises `DangerRules`."""
        marks = tuple(disk.version(system / "dangers.md") for system in self._systems)
        if marks != self._marks:
            self._marks, self._fault = marks, None
            try:
                found = together(self._systems)
                self.rules, self.table = found.rules, found.table
                self._about.clear()
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
            look(Shell(self._places.fresh(), found, self.table))
        except (TooMuch, RecursionError):
            shown = "it is too long or too deep to be looked through"
            found.add(Act("hidden", tags=frozenset({"too much"}), shown=shown))
        except Exception as error:  # a fault of the reading is no way past the rules, and no end of a run
            shown = f"{FAULT}: {type(error).__name__}"
            found.add(Act("hidden", tags=frozenset({"too much"}), shown=shown))
        return found.acts

    def judge(self, acts: Sequence[Act], held: bool = False) -> Sequence[Danger]:
        """The rules that these acts fall under, each once, with the first act that does.

        `held`: the sandbox holds what they do, so that only reading is serious.
        """
        dangers: dict[str, Danger] = {}
        for act in acts:
            if act.does == "run" and act.words in TELLS:
                continue
            line: Line | None = None
            for rule, matcher in self._entries(act.does, act.program):
                if rule.name in dangers or not self._asks(rule, held):
                    continue
                line = line or prepared(act, self.table)
                if matcher(act, line, self._places):
                    lowered = held and rule.effect in _HELD
                    severity = cast(Literal["danger", "serious"], "danger" if lowered else rule.severity)
                    dangers[rule.name] = Danger(rule.name, severity, f"{rule.why} Here: {act}.")
        return sorted(dangers.values(), key=lambda each: _ORDER[each.severity])

    def _entries(self, does: str, program: str) -> Sequence[tuple[Rule, Matcher]]:
        """The entries of rules that may be about such an act, looked up once."""
        if len(self._about) > 4_000:
            self._about.clear()
        if (found := self._about.get((does, program))) is None:
            every = ((rule, each) for rule in self.rules.values() for each in rule.match)
            found = [(rule, each) for rule, each in every if each.about(does, program)]
            self._about[does, program] = found
        return found

    def _asks(self, rule: Rule, held: bool) -> bool:
        return not ((rule.when == "no undo" and self.undoable()) or (rule.when == "open" and held))
