"""Danger rules: reads `system/dangers.md` and decides whether an act matches a rule.

A mistake in the file is reported with its path and line.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError, raised_as
from kernel.tools.tool import EFFECTS as TOOL_EFFECTS
from runtime import pinned
from runtime.safety.acts import Act
from runtime.safety.places import Places, host_of, matches
from runtime.safety.programs import EFFECTS, Line, Program, Table

SEVERITIES = ("danger", "serious", "off")
WHEN = ("always", "no undo", "open")
PROGRAMS = "programs"
"""The heading of the table of programs."""
DOES = (
    *("run", "read", "write", "empty", "delete", "change", "use", "mount", "send", "connect", "listen"),
    *("request", "code", "sql", "set", "secret", "secret-text", "call", "hidden"),
)
PLACES = (
    *("inside", "folder", "outside", "above", "root", "home", "system", "device", "scratch", "protected"),
    *("unknown", "tame", "all", "glob"),
)
_WORD = ("runs", "language", "how")
_SETS = ("values", "script", "edits", "lists", "verbs", "eval", "base", "prints", "plain", "starts")
PROGRAM_KEYS = (*EFFECTS, *_WORD, *_SETS, "long", "code")
_PIECE = re.compile(
    r"[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<kind>\w*).*\n"
    r"(?P<block>(?:.*\n)*?)(?:[ \t]*(?P<closed>(?P=fence))[ \t]*$|\Z)"
    r"|(?P<level>#{2,6})[ \t]+(?P<name>.*?)[ \t]*#*$|(?P<prose>.+)$",
    re.MULTILINE,
)
"""A block, a heading or a line of prose."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
KEYS = (
    *("does", "program", "words", "option", "all", "argument", "text", "place", "places", "tag", "path"),
    *("host", "tool", "unless"),
)
"""The keys of an entry of a rule."""


class DangerRules(ConfigurationError):
    """A file of danger rules is wrong; the message begins with its place."""


class Wrong(ValueError):
    """An invalid entry of a rule or of the table; `key` is the key it is under."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Matcher:
    """One entry of a rule: every check has to hold."""

    does: frozenset[str]
    programs: frozenset[str]
    checks: tuple[tuple[str, Any], ...]  # a key, and what it has to be

    def about(self, does: str, program: str) -> bool:
        """Whether the entry can match what is done, and by which program."""
        if self.does and does not in self.does:
            return False
        return not self.programs or any(_name_matches(program, each) for each in self.programs)

    def __call__(self, act: Act, line: Line, places: Places) -> bool:
        """Whether the act matches."""
        about = self.about(act.does, act.program)
        return about and all(_matches(key, expected, act, line, places) for key, expected in self.checks)


@dataclass(frozen=True)
class Rule:
    """One rule: its name, its severity, why it exists, and what it matches."""

    name: str
    severity: str
    why: str
    effect: str = ""
    when: str = "always"
    match: tuple[Matcher, ...] = ()
    place: str = ""  # file and line


@dataclass(frozen=True)
class Rules:
    """The rules by name, and the table of programs."""

    rules: Mapping[str, Rule]
    programs: Mapping[str, Program]

    @property
    def table(self) -> Table:
        """The table of programs, which also knows the programs that rules name."""
        named = {name for rule in self.rules.values() for each in rule.match for name in each.programs}
        return Table(self.programs, frozenset(named))


def merged_rules(systems: Sequence[Path]) -> Rules:
    """The rules of all systems, nearest first: a nearer rule replaces or switches off a farther one."""
    rules: dict[str, Rule] = {}
    programs: dict[str, Program] = {}
    for system in reversed(systems):
        path = system / "dangers.md"
        if path.exists():  # also what is no file, which is refused
            version = path.stat()
            found = _read(path, version.st_mtime_ns, version.st_size)
            rules |= found.rules
            programs |= found.programs
    return Rules({name: rule for name, rule in rules.items() if rule.severity != "off"}, programs)


@lru_cache(maxsize=64)
def _read(path: Path, mtime_ns: int, size: int) -> Rules:
    """The rules of a file; raises `DangerRules`."""
    try:
        text = pinned.text_of(path)
    except ConfigurationError as error:
        raise DangerRules(str(error)) from None
    rules: dict[str, Rule] = {}
    programs: dict[str, Program] = {}
    for part in _parts(path, text):
        if part.name == PROGRAMS and part.block_line:
            for names, data in part.yaml().items():
                try:
                    programs |= dict.fromkeys(str(names).split(), _program(str(names), data))
                except ValueError as error:
                    raise part.wrong(str(error), str(names)) from None
            continue
        if part.name in rules:
            first = rules[part.name].place
            raise DangerRules(f"{path}:{part.line}: {part.name} stands twice, first at {first}")
        with raised_as(DangerRules, f"{path}:{part.line}: {part.name}"):
            rules[part.name] = _rule(part)
    return Rules(rules, programs)


class _Part:
    """A heading of the file with its prose and its block."""

    def __init__(self, path: Path, name: str, line: int) -> None:
        self.path, self.name, self.line = path, name, line
        self.prose: list[str] = []
        self.block: list[str] = []
        self.block_line = 0

    def wrong(self, message: str, key: str = "") -> DangerRules:
        """An error about a key of the block, with its line."""
        line = self.block_line or self.line
        for at, row in enumerate(self.block, 1):
            if key and re.search(rf"(?:^|[\s{{,-]){re.escape(key)}[ \t]*:", row):
                line = self.block_line + at
                break
        return DangerRules(f"{self.path}:{line}: {self.name}: {message}")

    def yaml(self) -> dict[str, Any]:
        """The data of the block."""
        import yaml

        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            data = yaml.load("\n".join(self.block), Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = self.block_line + (mark.line + 1 if mark else 0)
            problem = getattr(error, "problem", None) or error
            raise DangerRules(f"{self.path}:{line}: {self.name}: not YAML: {problem}") from None
        if not isinstance(data, dict):
            raise self.wrong("the block has to be severity, effect and match")
        return data


def _parts(path: Path, text: str) -> list[_Part]:
    parts: list[_Part] = []
    part: _Part | None = None
    number, at = 1, 0
    for hit in _PIECE.finditer(text):
        number, at = number + text.count("\n", at, hit.start()), hit.start()
        if hit["fence"]:
            if part is None:
                raise DangerRules(f"{path}:{number}: a block without a rule; a rule begins with `### name`")
            if hit["kind"] != "yaml" or part.block_line:
                raise DangerRules(f"{path}:{number}: {part.name}: a rule has one block, of yaml")
            if not hit["closed"]:
                raise DangerRules(f"{path}:{number}: the block is never closed")
            part.block, part.block_line = hit["block"].splitlines(), number
        elif hit["level"]:
            part = None if hit["level"] == "##" else _Part(path, hit["name"], number)
            parts += [part] if part else []
        elif part is not None and not part.block_line:
            part.prose.append(hit["prose"])
    return parts


def _rule(part: _Part) -> Rule:
    place = f"{part.path}:{part.line}"
    if not _NAME.fullmatch(part.name):
        raise DangerRules(f"{place}: {part.name!r} is no name for a rule; use a-z, 0-9 and -")
    if not part.block_line:
        raise DangerRules(f"{place}: {part.name} has no block of yaml that says what it matches")
    fields = part.yaml()
    for key in fields:
        if key not in ("severity", "effect", "when", "match"):
            message = f"there is no {key} in a rule; there are severity, effect, when and match"
            raise part.wrong(message, str(key))
    if fields.get("severity") is False:
        fields["severity"] = "off"  # YAML reads a bare off as false
    severity = _one_of(part, fields, "severity", SEVERITIES)
    why = " ".join(" ".join(part.prose).split())
    if severity == "off":
        return Rule(part.name, "off", why, place=place)
    effect = _one_of(part, fields, "effect", TOOL_EFFECTS)
    if not why:
        raise DangerRules(f"{place}: {part.name} does not say why; a sentence stands below the heading")
    when = _one_of(part, {"when": "always"} | fields, "when", WHEN)
    entries = fields.get("match")
    if not isinstance(entries, list) or not entries:
        raise part.wrong("match has to be a list of what is matched", "match")
    found: list[Matcher] = []
    for entry in entries:
        try:
            found.append(_matcher(entry, "match"))
        except Exception as error:
            key = getattr(error, "key", "")
            key = key if key == "match" or key in str(entry) else next(iter(entry))
            raise part.wrong(f"match: {error}", str(key)) from None
    return Rule(part.name, severity, why, effect, when, tuple(found), place)


def _one_of(part: _Part, fields: Mapping[str, Any], key: str, choices: Sequence[str]) -> str:
    value = str(fields.get(key))
    if value not in choices:
        raise part.wrong(f"{key} is {value!r}, and has to be one of {', '.join(choices)}", key)
    return value


def _program(names: str, data: Any) -> Program:
    """An entry of the table; raises `Wrong`."""
    from runtime.safety.grammars import GRAMMARS

    if not isinstance(data, dict):
        raise Wrong(names, f"{names}: {data!r} is no mapping of keys to words")
    for key in data:
        if key not in PROGRAM_KEYS:
            raise Wrong(str(key), f"there is no key {key} for a program; there are {', '.join(PROGRAM_KEYS)}")
    texts = {key: str(value) for key, value in data.items() if key != "code"}
    code = data.get("code", {})
    if not isinstance(code, dict):
        raise Wrong("code", f"code: {code!r} is no mapping of options to languages")
    if texts.get("how", "") not in ("", *GRAMMARS):
        raise Wrong("how", f"how: {texts['how']!r} is none of {', '.join(GRAMMARS)}")
    fields: dict[str, Any] = {key: text for key, text in texts.items() if key in _WORD}
    fields |= {key: frozenset(text.split()) for key, text in texts.items() if key in _SETS}
    return Program(
        effects={key: tuple(texts[key].split()) for key in EFFECTS if key in texts},
        code=tuple((tuple(str(where).split()), str(language)) for where, language in code.items()),
        long=texts.get("long") == "True",
        **{"values": frozenset[str](), **fields},
    )


def _matcher(entry: Any, parent: str) -> Matcher:
    """An entry of `match` or `unless`; raises `Wrong`."""
    if not isinstance(entry, dict) or not entry:
        raise Wrong(parent, f"{entry!r} is no mapping of keys to what they have to be")
    for key in entry:
        if key not in KEYS:
            raise Wrong(str(key), f"there is no key {key}; there are {', '.join(KEYS)}")
    does = _texts("does", entry.get("does", []), DOES)
    if parent == "match" and not does:
        raise Wrong("does", f"does is missing; it is one of {', '.join(DOES)}")
    pairs = ((key, value) for key, value in entry.items() if key not in ("does", "program"))
    checks = tuple((key, _expected(key, value, parent)) for key, value in pairs)
    return Matcher(does, _texts("program", entry.get("program", [])), checks)


def _name_matches(name: str, pattern: str) -> bool:
    return name == pattern or (("*" in pattern or "[" in pattern) and fnmatch.fnmatchcase(name, pattern))


def _texts(key: str, value: Any, choices: Sequence[str] = ()) -> Any:
    values = value if isinstance(value, list) else [value]
    for text in values:
        if not isinstance(text, str) or not text:
            raise Wrong(key, f"{key}: {text!r} is no text; write it in quotes")
        if choices and text not in choices:
            raise Wrong(key, f"{key}: {text!r} is none of {', '.join(choices)}")
    return frozenset(values)


def _pattern(key: str, value: Any) -> re.Pattern[str]:
    found = sorted(_texts(key, value))
    try:
        return re.compile(found[0] if len(found) == 1 else "|".join(f"(?:{each})" for each in found))
    except re.error as error:
        raise Wrong(key, f"{key}: {value!r} is no regular expression: {error}") from None


def _expected(key: str, value: Any, parent: str) -> Any:
    """What an act is compared with for a key; raises `Wrong`."""
    values = value if isinstance(value, list) else [value]
    match key:
        case "unless":
            return [_matcher(each, "unless") for each in values]
        case "argument" | "text":
            return _pattern(key, value)
        case "place" | "places":
            return _texts(key, value, PLACES)
        case "words":
            _texts(key, value)
            return [each.split("|") for each in values]
        case "path":  # in `unless` a path with globs has to match as a whole: `*.pem` is no `*cert*.pem`
            return tuple(sorted(_texts(key, value))), parent == "unless"
        case _:
            return _texts(key, value)


def _matches(key: str, expected: Any, act: Act, line: Line, places: Places) -> bool:
    """Whether an act is as a key of an entry says."""
    match key:
        case "words":
            pairs = zip(line.operands, expected, strict=False)
            return len(line.operands) >= len(expected) and all(
                any(_name_matches(word, each) for each in choices) for word, choices in pairs
            )
        case "option" | "all":
            some = all if key == "all" else any
            return some(_has_option(each, line) for each in expected)
        case "argument":
            return any(map(expected.search, act.words))
        case "text":
            return bool(expected.search(act.text or " ".join([act.program, *act.words])))
        case "place":
            return not expected.isdisjoint(act.places)
        case "places":
            return expected <= act.places
        case "tag":
            return not expected.isdisjoint(act.tags)
        case "path":
            paths, surely = expected
            return bool(act.path) and matches(act.path, paths, places.folder, places.home, surely=surely)
        case "host" | "tool":
            name = host_of(act.text) if key == "host" else act.program
            return any(_name_matches(name, each) for each in expected)
        case _:
            return not any(each(act, line, places) for each in expected)


def _has_option(form: str, line: Line) -> bool:
    """Whether an option is given: as it is, with a value behind `=`, or by an unambiguous beginning."""
    name, equals, value = form.partition("=")
    for option in line.options:
        if _name_matches(option, form) or (not equals and option.partition("=")[0] == form):
            return True
        abbreviable = form.startswith("--") and not equals and option.startswith("--") and len(option) > 4
        if abbreviable and len(option) < len(form) and form.startswith(option.partition("=")[0]):
            return True  # programs take `--forc` for `--force`
    return bool(equals) and any(fnmatch.fnmatchcase(given, value) for given in line.all(name))
