"""Reads `system/dangers.md`, rules as a person writes them; what is wrong is told with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError
from kernel.tools import EFFECTS
from runtime.nervous.matching import KEYS, Matcher, matcher

SEVERITIES = ("danger", "serious", "off")
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
    family: str = ""
    match: tuple[Matcher, ...] = ()
    place: str = ""  # file and line


@dataclass
class _Part:
    """A heading with what stands below it, while the file is read."""

    name: str
    line: int
    family: str
    prose: list[str]
    block: list[str]
    block_line: int = 0


def read(path: Path) -> dict[str, Rule]:
    """The rules of a file by name, in its order; raises `DangerRules`."""
    try:
        found = path.stat()
        return dict(_read(path, found.st_mtime_ns, found.st_size))
    except OSError as error:
        raise DangerRules(f"{path}: cannot be read: {error.strerror}") from None


def together(systems: Sequence[Path]) -> dict[str, Rule]:
    """The rules of all systems, the nearest first: a nearer one replaces or switches off one behind it."""
    rules: dict[str, Rule] = {}
    for system in reversed(systems):
        path = system / "dangers.md"
        if path.is_file():
            rules |= read(path)
    return {name: rule for name, rule in rules.items() if rule.severity != "off"}


@lru_cache(maxsize=64)
def _read(path: Path, mtime_ns: int, size: int) -> Mapping[str, Rule]:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise DangerRules(f"{path}:1: not UTF-8 text; save the file as UTF-8") from None
    rules: dict[str, Rule] = {}
    for part in _parts(path, text):
        if part.name in rules:
            raise DangerRules(
                f"{path}:{part.line}: {part.name} stands twice, first at {rules[part.name].place}"
            )
        rules[part.name] = _rule(path, part)
    return rules


def _parts(path: Path, text: str) -> list[_Part]:
    parts: list[_Part] = []
    part: _Part | None = None
    family, fence = "", ""
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
            family, part = heading[2], None
        elif heading:
            part = _Part(heading[2], number, family, [], [])
            parts.append(part)
        elif part is not None and not part.block_line:
            part.prose.append(line)
    if fence:
        raise DangerRules(f"{path}:{parts[-1].block_line if parts else 1}: the block is never closed")
    return parts


def _rule(path: Path, part: _Part) -> Rule:
    def wrong(message: str, key: str = "") -> DangerRules:
        line = part.block_line or part.line
        for at, each in enumerate(part.block, 1):
            if key and re.search(rf"(?:^|[\s{{,-]){re.escape(key)}[ \t]*:", each):
                line = part.block_line + at
                break
        return DangerRules(f"{path}:{line}: {part.name}: {message}")

    if not _NAME.fullmatch(part.name):
        raise DangerRules(f"{path}:{part.line}: {part.name!r} is no name for a rule; use a-z, 0-9 and -")
    if not part.block_line:
        raise DangerRules(f"{path}:{part.line}: {part.name} has no block of yaml that says what it matches")
    fields = _yaml(path, part)
    for key in fields:
        if key not in ("severity", "effect", "match"):
            raise wrong(f"there is no {key} in a rule; there are severity, effect and match", str(key))
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
    entries = fields.get("match")
    if not isinstance(entries, list) or not entries:
        raise wrong("match has to be a list of what is matched", "match")
    matchers = tuple(_matcher(entry, wrong) for entry in entries)
    return Rule(part.name, str(severity), why, str(effect), part.family, matchers, f"{path}:{part.line}")


def _matcher(entry: Any, wrong: Callable[[str, str], DangerRules]) -> Matcher:
    if not isinstance(entry, dict) or not entry:
        raise wrong(f"match: {entry!r} is no mapping of keys to what they have to be", "match")
    for key in entry:
        if key not in KEYS:
            raise wrong(f"match: there is no key {key}; there are {', '.join(KEYS)}", str(key))
    try:
        return matcher(entry)
    except (ValueError, re.error) as error:
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
