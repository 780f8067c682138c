"""Reads `system/dangers.md`, rules as a person writes them; what is wrong is told with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import ConfigurationError, raised_as
from kernel.tools import EFFECTS
from runtime.nervous.matching import KEYS, Matcher, matcher
from runtime.nervous.programs import Program, Table, entry

SEVERITIES = ("danger", "serious", "off")
WHEN = ("always", "no undo", "open")
PROGRAMS = "programs"
"""The heading of the table of programs."""
_HEADING = re.compile(r"(#{2,6})[ \t]+(.*?)[ \t]*#*$")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class DangerRules(ConfigurationError):
    """A file of danger rules is wrong; the message begins with its place."""


@dataclass(frozen=True)
class Rule:
    """One rule: what it is called, how much it weighs, why, and what it matches."""

    name: str
    severity: str
    why: str
    effect: str = ""
    when: str = "always"
    match: tuple[Matcher, ...] = ()
    place: str = ""  # file and line


@dataclass
class _Part:
    """A heading with what stands below it, while the file is read."""

    name: str
    line: int
    prose: list[str]
    block: list[str]
    block_line: int = 0

    def wrong(self, path: Path, message: str, key: str = "") -> DangerRules:
        """The error that a key of the block is wrong, with its line."""
        line = self.block_line or self.line
        for at, each in enumerate(self.block, 1):
            if key and re.search(rf"(?:^|[\s{{,-]){re.escape(key)}[ \t]*:", each):
                line = self.block_line + at
                break
        return DangerRules(f"{path}:{line}: {self.name}: {message}")


@dataclass(frozen=True)
class Rules:
    """What files of rules say, together: the rules by name, and the table of programs."""

    rules: Mapping[str, Rule]
    programs: Mapping[str, Program]

    @property
    def table(self) -> Table:
        """The programs, ready to be asked for."""
        named = {name for rule in self.rules.values() for each in rule.match for name in each.programs}
        return Table(self.programs, frozenset(named))


def read(path: Path) -> Rules:
    """The rules of a file, in its order; raises `DangerRules`."""
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise DangerRules(f"{path}: cannot be read: {error.strerror}") from None


def together(systems: Sequence[Path]) -> Rules:
    """The rules of all systems, the nearest first: a nearer one replaces or switches off one behind it."""
    rules: dict[str, Rule] = {}
    programs: dict[str, Program] = {}
    for system in reversed(systems):
        path = system / "dangers.md"
        if path.exists():
            found = read(path)
            rules |= found.rules
            programs |= found.programs
    return Rules({name: rule for name, rule in rules.items() if rule.severity != "off"}, programs)


@lru_cache(maxsize=64)
def _read(path: Path, mtime_ns: int, size: int) -> Rules:
    try:
        text = disk.text_of(path)
    except ConfigurationError as error:
        raise DangerRules(str(error)) from None
    rules: dict[str, Rule] = {}
    programs: dict[str, Program] = {}
    for part in _parts(path, text):
        if part.name == PROGRAMS and part.block_line:
            programs |= _programs(path, part)
            continue
        if part.name in rules:
            raise DangerRules(
                f"{path}:{part.line}: {part.name} stands twice, first at {rules[part.name].place}"
            )
        with raised_as(DangerRules, f"{path}:{part.line}: {part.name}"):
            rules[part.name] = _rule(path, part)
    return Rules(rules, programs)


def _programs(path: Path, part: _Part) -> dict[str, Program]:
    found: dict[str, Program] = {}
    for names, data in _yaml(path, part).items():
        try:
            found |= entry(str(names), data)
        except ValueError as error:
            raise part.wrong(path, str(error), f"{names}") from None
    return found


def _parts(path: Path, text: str) -> list[_Part]:
    parts: list[_Part] = []
    part: _Part | None = None
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if line.strip() == fence:
                fence = ""
            elif part:
                part.block.append(line)
            continue
        opened = re.match(r"[ \t]*(`{3,}|~{3,})[ \t]*(\w*)", line)
        heading = _HEADING.match(line)
        if opened:
            fence = opened[1]
            if part is None:
                raise DangerRules(f"{path}:{number}: a block without a rule; a rule begins with `### name`")
            if opened[2] != "yaml" or part.block_line:
                raise DangerRules(f"{path}:{number}: {part.name}: a rule has one block, of yaml")
            part.block_line = number
        elif heading and len(heading[1]) == 2:
            part = None
        elif heading:
            part = _Part(heading[2], number, [], [])
            parts.append(part)
        elif part is not None and not part.block_line:
            part.prose.append(line)
    if fence:
        raise DangerRules(f"{path}:{parts[-1].block_line if parts else 1}: the block is never closed")
    return parts


def _rule(path: Path, part: _Part) -> Rule:
    def wrong(message: str, key: str = "") -> DangerRules:
        return part.wrong(path, message, key)

    if not _NAME.fullmatch(part.name):
        raise DangerRules(f"{path}:{part.line}: {part.name!r} is no name for a rule; use a-z, 0-9 and -")
    if not part.block_line:
        raise DangerRules(f"{path}:{part.line}: {part.name} has no block of yaml that says what it matches")
    fields = _yaml(path, part)
    for key in fields:
        if key not in ("severity", "effect", "when", "match"):
            raise wrong(f"there is no {key} in a rule; there are severity, effect, when and match", str(key))
    severity = fields.get("severity")
    severity = "off" if severity is False else severity  # YAML reads a bare off as false
    if severity not in SEVERITIES:
        raise wrong(f"severity is {severity!r}, and has to be danger, serious or off", "severity")
    why = " ".join(" ".join(part.prose).split())
    if severity == "off":
        return Rule(part.name, "off", why, place=f"{path}:{part.line}")
    effect = fields.get("effect")
    if effect not in EFFECTS:
        raise wrong(f"effect is {effect!r}, and has to be one of {', '.join(EFFECTS)}", "effect")
    if not why:
        raise DangerRules(
            f"{path}:{part.line}: {part.name} does not say why; a sentence stands below the heading"
        )
    when = fields.get("when", "always")
    if when not in WHEN:
        raise wrong(f"when is {when!r}, and has to be one of {', '.join(WHEN)}", "when")
    entries = fields.get("match")
    if not isinstance(entries, list) or not entries:
        raise wrong("match has to be a list of what is matched", "match")
    matchers = tuple(_matcher(entry, wrong) for entry in entries)
    return Rule(part.name, str(severity), why, str(effect), when, matchers, f"{path}:{part.line}")


def _matcher(entry: Any, wrong: Callable[[str, str], DangerRules]) -> Matcher:
    if not isinstance(entry, dict) or not entry:
        raise wrong(f"match: {entry!r} is no mapping of keys to what they have to be", "match")
    for key in entry:
        if key not in KEYS:
            raise wrong(f"match: there is no key {key}; there are {', '.join(KEYS)}", str(key))
    try:
        return matcher(entry)
    except Exception as error:
        key = getattr(error, "key", "")
        key = key if key in str(entry) else next(iter(entry))
        raise wrong(f"match: {error}", str(key)) from None


def _yaml(path: Path, part: _Part) -> dict[str, Any]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load("\n".join(part.block), Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = part.block_line + (mark.line + 1 if mark else 0)
        raise DangerRules(
            f"{path}:{line}: {part.name}: not YAML: {getattr(error, 'problem', None) or error}"
        ) from None
    if not isinstance(data, dict):
        raise DangerRules(
            f"{path}:{part.block_line}: {part.name}: the block has to be severity, effect and match"
        )
    return data
