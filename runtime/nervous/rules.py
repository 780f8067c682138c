"""The danger rules, read from `dangers.md`: data that a person can read, add to, and switch off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kernel.danger import Severity
from kernel.errors import ConfigurationError
from runtime.nervous.places import KINDS
from runtime.nervous.reading import FINDINGS

KEYS = frozenset(
    [
        "call",
        "any",
        "all",
        "none",
        "argument",
        "more",
        "path",
        "last",
        "option",
        "writes",
        "reads",
        "finding",
        "text",
        "sql",
        "assigns",
        "cwd",
        "address",
        "expands",
        "fed",
        "secret",
        "hidden",
    ]
)
"""What a matcher may ask for."""
_HEADING = re.compile(r"## ([a-z][a-z0-9-]*) \((danger|serious|off)\)\s*")
SUBJECTS = frozenset(["call", "writes", "reads", "finding", "text", "sql", "assigns", "address"])
"""What a matcher is of: one of these, and what else it asks for narrows it."""
PATHS = frozenset(["credentials", "critical", "startup"])
"""The lists of paths that rules speak of."""
_LISTS = ("call", "path", "last", "cwd", "writes", "reads", "finding", "any", "all", "none")
_PATTERNS = ("argument", "text", "sql", "assigns", "address")


@dataclass(frozen=True)
class Rule:
    """One rule: what matches, and what is told of it."""

    name: str
    severity: Severity
    why: str
    matchers: tuple[Mapping[str, Any], ...]


@dataclass
class Rules:
    """The rules of some system folders, and what paths they speak of."""

    rules: dict[str, Rule] = field(default_factory=dict[str, Rule])
    paths: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def rules_of(systems: Sequence[Path]) -> Rules:
    """The rules of these folders; of two with one name the nearer folder's counts, `(off)` removes one.

    Raises `ConfigurationError` with file and line: a rule that cannot be read must not be passed over.
    """
    found = Rules()
    for folder in reversed(systems):
        path = folder / "dangers.md"
        if path.is_file():
            _read(path, found)
    return found


def _read(path: Path, found: Rules) -> None:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
    for start, heading, body in _sections(lines):
        where = f"{path}:{start}"
        if heading.strip() == "## Paths":
            for name, patterns in _yaml(body, where, start, dict).items():
                _known([str(name)], PATHS, f"{where}: Paths")
                if not isinstance(patterns, list):
                    raise ConfigurationError(f"{where}: {name}: a list of patterns is needed here")
                found.paths.setdefault(str(name), []).extend(map(str, cast(list[Any], patterns)))
            continue
        hit = _HEADING.fullmatch(heading)
        if hit is None:
            raise ConfigurationError(f"{where}: {heading!r} is no `## name (danger|serious|off)`")
        if hit[2] == "off":
            found.rules.pop(hit[1], None)
            continue
        why = next((line.strip() for line in body if line.strip()), "")
        matchers = tuple(_matcher(each, where) for each in _yaml(body, where, start, list))
        if not why or why.startswith("```") or not matchers:
            raise ConfigurationError(
                f"{where}: {hit[1]} needs a sentence that says why, and a list of what matches"
            )
        found.rules[hit[1]] = Rule(hit[1], cast(Severity, hit[2]), why.rstrip("."), matchers)


def _sections(lines: Sequence[str]) -> list[tuple[int, str, list[str]]]:
    found: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            found.append((number, line, []))
        elif found:
            found[-1][2].append(line)
    return found


def _yaml(body: Sequence[str], where: str, start: int, kind: type) -> Any:
    import yaml

    fences = [n for n, line in enumerate(body) if line.startswith("```")]
    if len(fences) < 2:
        return kind()
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it was built
        data = yaml.load("\n".join(body[fences[0] + 1 : fences[1]]), loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = start + fences[0] + 2 + (mark.line if mark else 0)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise ConfigurationError(f"{where.rpartition(':')[0]}:{line}: not YAML: {problem}") from None
    if data is None:
        return kind()
    if not isinstance(data, kind):
        raise ConfigurationError(f"{where}: a {'list' if kind is list else 'mapping'} is needed here")
    return data


def _known(values: Iterable[str], known: frozenset[str], where: str) -> None:
    """Raise `ConfigurationError` for a word that would never match."""
    if unknown := set(values) - known:
        raise ConfigurationError(
            f"{where}: {', '.join(sorted(unknown))} is none of {', '.join(sorted(known))}"
        )


def _matcher(data: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(data, dict) or not data:
        raise ConfigurationError(f"{where}: {data!r} is no mapping of what matches")
    matcher = cast(dict[str, Any], data)
    _known(matcher, KEYS, where)
    subjects = SUBJECTS & set(matcher)
    if len(subjects) != 1:
        raise ConfigurationError(
            f"{where}: {', '.join(matcher)} would match nothing: give one of {', '.join(sorted(SUBJECTS))}"
        )
    if subjects != {"call"} and len(matcher) > 1:
        raise ConfigurationError(f"{where}: {', '.join(matcher)}: only a call is narrowed by more")
    if not isinstance(matcher.get("option", {}), dict):
        raise ConfigurationError(f"{where}: option: a mapping of options to kinds of places is needed")
    for key in _PATTERNS:
        if key in matcher:
            try:
                matcher[key] = re.compile(str(matcher[key]))
            except re.error as error:
                raise ConfigurationError(f"{where}: {key}: {matcher[key]!r}: {error}") from None
    for key in _LISTS:
        if key in matcher:
            values = matcher[key]
            listed = cast(list[Any], values) if isinstance(values, list) else [values]
            matcher[key] = tuple(map(str, listed))
    for key in ("path", "last", "cwd", "writes", "reads"):
        _known(matcher.get(key, ()), KINDS, f"{where}: {key}")
    for option, kinds in matcher.get("option", {}).items():
        _known(kinds, KINDS, f"{where}: option {option}")
    _known(matcher.get("finding", ()), FINDINGS, f"{where}: finding")
    return matcher
