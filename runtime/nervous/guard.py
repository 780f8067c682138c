"""The guard that a world asks before each action: which danger rules a call falls under."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from kernel.danger import Danger
from kernel.tools import Tool
from runtime.nervous.matching import Matchers
from runtime.nervous.places import Places, real
from runtime.nervous.reading import Access, Call, Reading
from runtime.nervous.rules import Rule, rules_of
from runtime.nervous.unwrapping import read

_COMMANDS = re.compile(r"^(?:command|cmd|script|shell|code|bash|line)s?$", re.I)
_PATHS = re.compile(
    r"(?:^|_)(?:path|paths|file|files|filename|folder|directory|dir|source|destination|target|to|from)$", re.I
)
_STATEMENTS = re.compile(r"^(?:sql|query|statement|statements)$", re.I)
_DELETES = re.compile(
    r"(?:^|[-_])(?:delete|remove|destroy|drop|purge|wipe|erase|truncate|unlink|rm)(?:[-_]|$)"
)
_REMEMBERED = 512


class Guard:
    """The danger rules of some system folders, for calls that are made in one folder."""

    def __init__(self, systems: Sequence[Path], folder: Path, protected: Sequence[Path] = ()) -> None:
        self._systems = tuple(systems)
        self._folder = real(folder)
        self._protected = [real(each) for each in protected]
        self._stamp: tuple[int, ...] | None = None
        self._matchers, self._places = Matchers(()), Places(self._folder)
        self._known: dict[str, tuple[Danger, ...]] = {}

    def __call__(self, tool: Tool, args: Mapping[str, Any]) -> Sequence[Danger]:
        """The dangers of a call, none for a harmless one; raises `ConfigurationError` for broken rules."""
        found: dict[str, Danger] = {}
        for line, reading in _readings(tool, args, self._folder):
            self._refresh()
            for danger in self._judged(line, reading):
                found.setdefault(danger.rule, danger)
        return tuple(found.values())

    def command(self, line: str) -> Sequence[Danger]:
        """The dangers of a line of shell."""
        self._refresh()
        return self._judged(line, None)

    def _refresh(self) -> None:
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

    def _judged(self, line: str, reading: Reading | None) -> tuple[Danger, ...]:
        key = line if reading is None else ""
        if key and key in self._known:
            return self._known[key]
        reading = reading or read(line, self._folder)
        hits = self._matchers.hits(reading, self._places, line)
        found = tuple(_danger(rule, hit) for rule, hit in hits.values())
        if key:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _danger(rule: Rule, hit: str) -> Danger:
    shown = " ".join(hit.split())
    return Danger(rule.name, rule.severity, f"{rule.why} ({shown})" if shown else rule.why)


def _readings(tool: Tool, args: Mapping[str, Any], folder: str) -> Iterator[tuple[str, Reading | None]]:
    """What a call does, as the rules see it: a line of shell, or the files and texts that it names."""
    seen = Reading()
    texts: list[str] = []
    for name, value in _flat(args):
        if _COMMANDS.match(name) and ("shell" in tool.effects or tool.scheme not in ("python", "")):
            yield value, None
        elif _STATEMENTS.match(name):
            seen.calls.append(Call(("sqlite3", value), folder))
        elif "://" in value:
            texts.append(value)
        elif _PATHS.search(name):
            writes = "write" in tool.effects and name not in ("from", "source")
            seen.files.append(Access(value, folder, writes=writes))
            if _DELETES.search(tool.name):
                seen.calls.append(Call(("rm", "-r", value), folder))
    if seen.calls or seen.files or texts:
        seen.addresses += texts
        yield "\n".join(texts), seen


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts in arguments, however deep, with the names that they have."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in cast(Mapping[str, Any], value).items():
            yield from _flat(each, str(key))
    elif isinstance(value, list | tuple):
        for each in cast(Sequence[Any], value):
            yield from _flat(each, name)
