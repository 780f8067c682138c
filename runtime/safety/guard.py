"""Asked before each action: what would it do, and which danger rules does that match?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from kernel.tools.tool import Danger, Tool
from runtime import found_files
from runtime.safety.acts import INFORMATION, Act, Found, TooMuch
from runtime.safety.kinds import kind_of
from runtime.safety.places import Places
from runtime.safety.programs import Line, Table, sort_words
from runtime.safety.rules import Matcher, Rule, merged_rules

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

FAULT = "reading it failed"
_HELD = ("write", "network", "shell")
"""Effects that the sandbox without a network prevents; what is read there still reaches a model."""


class Guard:
    """The rules of a workspace for the actions of a run in one folder. Cheap to make.

    The rules are read at the first action, and again when their file changes. An invalid file lets nothing
    pass. `undoable`: whether losses inside the folder can be undone. `enclosed`: commands run in the sandbox
    without the network.
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
        self._entries = lru_cache(4_000)(self._about)
        self.rules: Mapping[str, Rule] = {}
        self.table = Table({})

    def __call__(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call, serious ones first; raises `DangerRules` if the rules are invalid."""
        if tool.guided:
            return ()
        self.load()
        bash = tool.scheme == "python" and tool.name == "bash"
        return self.judge(self.acts(tool, args), self.enclosed and (bash or tool.scheme == "command"))

    def command(self, line: str) -> Sequence[Danger]:
        """The dangers of a line of shell; raises `DangerRules`."""
        self.load()
        return self.judge(self._followed(lambda shell: shell.line(line)), self.enclosed)

    def program(self, path: Path) -> Sequence[Danger]:
        """The dangers of what a program plainly does; raises `DangerRules`.

        What depends on its arguments is judged with each call.
        """
        acts = [act for act in self._acts_of(path) if "unknown" not in act.places]
        return self.judge(acts, self.enclosed)

    def connects(self, path: Path) -> str:
        """How a program plainly uses the network; "" if it does not. Raises `DangerRules`."""
        return next((str(act) for act in self._acts_of(path) if act.does in ("connect", "request")), "")

    def _acts_of(self, path: Path) -> Iterable[Act]:
        from runtime.safety import code

        text = path.read_text("utf-8", "replace")

        def look(shell: Shell) -> None:
            shell.loose = True
            language = "python" if path.suffix == ".py" else "shell"
            code.follow(shell, code.language_of(text, language), text)

        self.load()
        return self._followed(look)

    def kind(self, tool: Tool, args: Mapping[str, Any]) -> str:
        """The kind of a call, for an approval of all of its kind; "" if it is of none."""
        self.load()
        return kind_of(tool, args, self.table)

    def load(self) -> None:
        """Read the rules if they have changed; raises `DangerRules`."""
        marks = tuple(found_files.version(system / "dangers.md") for system in self._systems)
        if marks != self._marks:
            found = merged_rules(self._systems)
            self.rules, self.table, self._marks = found.rules, found.table, marks
            self._entries.cache_clear()

    def acts(self, tool: Tool, args: Mapping[str, Any]) -> Iterable[Act]:
        """What a call would do."""
        if tool.scheme == "python" and not tool.effects:  # sums and dates have no effect
            return [Act("call", tool.name, shown=f"calls {tool.name}")]
        from runtime.safety.calls import follow_call

        return self._followed(lambda shell: follow_call(tool, args, shell))

    def _followed(self, look: Callable[[Shell], object]) -> Iterable[Act]:
        from runtime.safety.shell import Shell

        found = Found()
        why = ""
        try:
            look(Shell(self._places.fresh(), found, self.table))
        except (TooMuch, RecursionError):
            why = "it is too long or too deep to be looked through"
        except Exception as error:  # a defect here must neither let the action pass nor end the run
            why = f"{FAULT}: {type(error).__name__}"
        hidden = [Act("hidden", tags=frozenset({"too much"}), shown=why)] if why else []
        return [*found.acts, *hidden]

    def judge(self, acts: Iterable[Act], held: bool = False) -> Sequence[Danger]:
        """The rules that these acts match, each once, with the first act that matches.

        `held`: the sandbox prevents what they do, so that only reading is serious.
        """
        dangers: dict[str, Danger] = {}
        for act in acts:
            if act.does == "run" and act.words in INFORMATION:
                continue
            line: Line | None = None
            for rule, matcher in self._entries(act.does, act.program):
                undone = rule.when == "no undo" and self.undoable()
                if rule.name in dangers or undone or (rule.when == "open" and held):
                    continue
                line = line or sort_words(act.program, act.words, self.table.of(act.program))
                if matcher(act, line, self._places):
                    lowered = held and rule.effect in _HELD
                    severity = cast(Literal["danger", "serious"], "danger" if lowered else rule.severity)
                    dangers[rule.name] = Danger(rule.name, severity, f"{rule.why} Here: {act}.")
        return sorted(dangers.values(), key=lambda each: each.severity != "serious")

    def _about(self, does: str, program: str) -> Sequence[tuple[Rule, Matcher]]:
        """The entries of rules that such an act can match."""
        every = ((rule, each) for rule in self.rules.values() for each in rule.match)
        return [(rule, each) for rule, each in every if each.about(does, program)]
