"""Which rules a reading of a command falls under."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from runtime.nervous.places import UNKNOWN, Places, bare
from runtime.nervous.reading import Call, Reading
from runtime.nervous.rules import Rule

DATABASES = frozenset(
    [
        "sqlite3",
        "psql",
        "mysql",
        "mariadb",
        "mongo",
        "mongosh",
        "sqlcmd",
        "duckdb",
        "cqlsh",
        "clickhouse-client",
        "clickhouse",
        "cockroach",
        "usql",
        "pgcli",
        "mycli",
        "litecli",
        "bq",
        "snowsql",
        "influx",
        "redis-cli",
    ]
)
"""Programs whose words are looked at as SQL."""
_LITERAL = re.compile(r"'[^']*'")
_EXECUTES = re.compile(r"\b(?:execute|executescript|executemany|query|raw|exec_driver_sql)\(")
_SUBCOMMANDS = 3
"""Words among which a subcommand is looked for: options with values may stand before it."""


class Matchers:
    """The matchers of all rules, those of calls found by the program's name."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._named: dict[str, list[tuple[Rule, Mapping[str, Any]]]] = {}
        self._wild: list[tuple[Rule, Mapping[str, Any]]] = []
        self._other: list[tuple[Rule, Mapping[str, Any]]] = []
        for rule in rules:
            for matcher in rule.matchers:
                programs = {name.split()[0] for name in matcher.get("call", ())}
                if not programs:
                    self._other.append((rule, matcher))
                elif any("/" in name or set(name) & set("*?[") for name in programs):
                    self._wild.append((rule, matcher))
                else:
                    for name in programs:
                        self._named.setdefault(name, []).append((rule, matcher))

    def hits(self, reading: Reading, places: Places, line: str) -> dict[str, tuple[Rule, str]]:
        """The rules that a command falls under, with what of it each matches."""
        found: dict[str, tuple[Rule, str]] = {}
        for call in reading.calls:
            name = call.name.removesuffix(".exe")
            for rule, matcher in (*self._named.get(name, ()), *self._wild):
                if rule.name not in found and _is(matcher, call, places, line):
                    found[rule.name] = (rule, _shown(call))
        for rule, matcher in self._other:
            if rule.name not in found and (hit := _seen(matcher, reading, places, line)):
                found[rule.name] = (rule, hit.replace(UNKNOWN, "…"))
        return found


def _seen(matcher: Mapping[str, Any], reading: Reading, places: Places, line: str) -> str:
    """What a matcher that is of no single program finds, "" for nothing."""
    for kind in matcher.get("finding", ()):
        if kind in reading.findings:
            return reading.findings[kind]
    for key, writes in (("writes", True), ("reads", False)):
        for each in reading.files if key in matcher else ():
            if each.writes == writes and places.kinds(each.path, each.cwd) & set(matcher[key]):
                return f"{'>' if writes else '<'} {each.path}"
    if "text" in matcher and (hit := matcher["text"].search(line)):
        return hit[0]
    if "sql" in matcher:
        return _sql(matcher["sql"], reading)
    if "address" in matcher:
        words = [word for call in reading.calls for word in call.words[1:]]
        return next((each for each in (*reading.addresses, *words) if matcher["address"].search(each)), "")
    if "assigns" in matcher:
        return _assigned(matcher["assigns"], reading)
    return ""


def _is(matcher: Mapping[str, Any], call: Call, places: Places, line: str) -> bool:
    rest = next((rest for name in matcher["call"] if (rest := _called(name, call)) is not None), None)
    if rest is None:
        return False
    options = _options(rest)
    if any(_has(options, rest, each) for each in matcher.get("none", ())):
        return False
    if "any" in matcher and not any(_has(options, rest, each) for each in matcher["any"]):
        return False
    if not all(_has(options, rest, each) for each in matcher.get("all", ())):
        return False
    if "argument" in matcher and not any(matcher["argument"].search(word) for word in rest):
        return False
    if matcher.get("more") and len(rest) < 2:
        return False
    if (
        matcher.get("expands")
        and not re.search(r"\$\{?!?(?i:\w*(?:secret|token|passw|key|credential))", line)
        and call.name != "printenv"
    ):
        return False
    if matcher.get("fed") and not (call.stdin.text is None or call.stdin.text):
        return False
    if matcher.get("secret") and not (
        "secret" in call.stdin.tags or re.search(r"\$\{?\w*(?:SECRET|TOKEN|PASSW|API_?KEY)", line)
    ):
        return False
    if matcher.get("hidden") and "hidden" not in call.stdin.tags:
        return False
    if "cwd" in matcher and not places.kinds(".", call.cwd) & set(matcher["cwd"]):
        return False
    return _places(matcher, call, rest, places)


def _places(matcher: Mapping[str, Any], call: Call, rest: Sequence[str], places: Places) -> bool:
    """Whether the arguments lead where the matcher says."""
    plain = [word for word in rest if not word.startswith("-")]
    if "path" in matcher and not places.among(tuple(rest), call.cwd) & set(matcher["path"]):
        return False
    if "last" in matcher and not (plain and places.kinds(bare(plain[-1]), call.cwd) & set(matcher["last"])):
        return False
    for option, kinds in matcher.get("option", {}).items():
        for at, word in enumerate(rest):
            value = word.partition("=")[2] if word.startswith(f"{option}=") else ""
            if value and places.kinds(value, call.cwd) & set(kinds):
                return True
            if word == option and rest[at + 1 :] and places.kinds(rest[at + 1], call.cwd) & set(kinds):
                return True
    return "option" not in matcher


def _called(name: str, call: Call) -> Sequence[str] | None:
    """The words behind program and subcommand; None when it is another program."""
    program, *subs = name.split()
    own = call.words[0] if "/" in program else call.name
    if not fnmatch(own, program) and not fnmatch(own.removesuffix(".exe"), program):
        return None
    rest = call.words[1:]
    if not subs:
        return rest
    plain = [at for at, word in enumerate(rest) if not word.startswith("-")]
    for first in range(min(_SUBCOMMANDS, len(plain))):
        found = [rest[at] for at in plain[first : first + len(subs)]]
        if found == subs:
            return rest[plain[first + len(subs) - 1] + 1 :]
    return None


def _options(rest: Sequence[str]) -> set[str]:
    """The options, those of one letter each for itself."""
    found: set[str] = set()
    for word in rest:
        if word == "--":
            break
        if word.startswith("--"):
            found.add(word.partition("=")[0])
        elif word.startswith("-") and len(word) > 1:
            found |= {word, *(f"-{letter}" for letter in word[1:] if letter.isalpha())}
    return found


def _has(options: set[str], rest: Sequence[str], wanted: str) -> bool:
    return wanted in (options if wanted.startswith("-") else rest)


def _shown(call: Call) -> str:
    return " ".join(call.words)[:160].replace(UNKNOWN, "…")


def _sql(pattern: re.Pattern[str], reading: Reading) -> str:
    for call in reading.calls:
        executes = any(_EXECUTES.search(word) for word in call.words[1:])
        if executes or call.name in DATABASES or any(word in DATABASES for word in call.words[1:]):
            texts = [*call.words[1:], " ".join(call.words[1:]), call.stdin.text or ""]
            for text in texts:
                text = text if executes else _LITERAL.sub("''", text)
                if hit := pattern.search(text):
                    return f"{call.name}: {hit[0]}"
    return ""


def _assigned(pattern: re.Pattern[str], reading: Reading) -> str:
    given = [
        word for call in reading.calls if call.name in ("export", "env", "setenv") for word in call.words[1:]
    ]
    return next((word for word in (*reading.assigned, *given) if pattern.search(word)), "")
