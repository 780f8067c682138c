"""The guard that a world asks before each action: which danger rules a call falls under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel.danger import Danger
from kernel.tools import Tool
from runtime.nervous.calls import Line, lines_of, read_line, touched
from runtime.nervous.matching import Matchers
from runtime.nervous.places import Places, real
from runtime.nervous.reading import Reading
from runtime.nervous.rules import Rule, rules_of

_REMEMBERED = 512


class Guard:
    """The danger rules of some system folders, for calls that are made in one folder."""

    def __init__(self, systems: Sequence[Path], folder: Path, protected: Sequence[Path] = ()) -> None:
        self._systems = tuple(systems)
        self._folder = real(folder)
        self._protected = [real(each) for each in protected]
        self._stamp: tuple[int, ...] | None = None
        self._matchers, self._places = Matchers(()), Places(self._folder)
        self._known: dict[tuple[Line, bool], tuple[Danger, ...]] = {}

    def __call__(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call, none for a harmless one; raises `ConfigurationError` for broken rules."""
        self._refresh()
        found: dict[str, Danger] = {}
        shell = "shell" in tool.effects
        for line in lines_of(tool, args):
            found = {danger.rule: danger for danger in self._line(line, shell)} | found
        reading, text = touched(tool, args, self._folder)
        found = {danger.rule: danger for danger in self._judged(reading, text)} | found
        return tuple(found.values())

    def command(self, line: str, stdin: str = "") -> Sequence[Danger]:
        """The dangers of a line of shell, run by itself."""
        self._refresh()
        return self._line(Line(line, stdin), True)

    def _line(self, line: Line, shell: bool) -> tuple[Danger, ...]:
        key = (line, shell)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            reading = read_line(line, self._folder, shell=shell)
            self._known[key] = self._judged(
                reading, f"{line.text}\n{line.stdin}" if line.stdin else line.text
            )
        return self._known[key]

    def _judged(self, reading: Reading, text: str) -> tuple[Danger, ...]:
        hits = self._matchers.hits(reading, self._places, text)
        return tuple(_danger(rule, hit) for rule, hit in hits.values())

    def _refresh(self) -> None:
        """Read the rules when a file of them has changed."""
        stamp = tuple(_stamp(each / "dangers.md") for each in self._systems)
        if stamp == self._stamp:
            return
        rules = rules_of(self._systems)
        self._matchers, paths = Matchers(rules.rules.values()), rules.paths
        self._places = Places(
            self._folder,
            credentials=paths.get("credentials", ()),
            critical=paths.get("critical", ()),
            startup=paths.get("startup", ()),
            protected=self._protected,
        )
        self._known.clear()
        self._stamp = stamp


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _danger(rule: Rule, hit: str) -> Danger:
    shown = " ".join(hit.split())
    return Danger(rule.name, rule.severity, f"{rule.why} ({shown})" if shown else rule.why)
