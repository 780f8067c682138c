"""Whether an act falls under an entry of a rule: the keys that rules are written with."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from runtime.nervous.hosts import host_of
from runtime.nervous.places import Places, matches
from runtime.nervous.programs import Line, Table, Wrong, sort_words
from runtime.nervous.values import Act

DOES = (
    *("run", "read", "write", "empty", "delete", "change", "use", "mount", "send", "connect", "listen"),
    *("request", "code", "sql", "set", "secret", "secret-text", "call", "hidden"),
)
PLACES = (
    *("inside", "folder", "outside", "above", "root", "home", "system", "device", "scratch", "protected"),
    *("unknown", "tame", "all", "glob"),
)
KEYS = (
    *("does", "program", "words", "option", "all", "argument", "text", "place", "places", "tag", "path"),
    *("host", "tool", "unless"),
)

Check = Callable[[Act, Line, Places], bool]


@dataclass(frozen=True)
class Matcher:
    """One entry of a rule: every check has to hold."""

    does: frozenset[str]
    programs: frozenset[str]
    globs: tuple[str, ...]  # those of the programs that are patterns
    checks: tuple[Check, ...]

    def about(self, does: str, program: str) -> bool:
        """Whether it can be about what is done, and by which program."""
        if self.does and does not in self.does:
            return False
        if not self.programs or program in self.programs:
            return True
        return bool(self.globs) and any(fnmatch.fnmatchcase(program, each) for each in self.globs)

    def __call__(self, act: Act, line: Line, places: Places) -> bool:
        """Whether the act falls under it."""
        return self.about(act.does, act.program) and all(check(act, line, places) for check in self.checks)


def matcher(entry: Mapping[str, Any], *, inner: bool = False) -> Matcher:
    """An entry made ready; raises `Wrong`."""
    does = _texts("does", entry.get("does", []))
    for each in does:
        if each not in DOES:
            raise Wrong("does", f"does: {each!r} is none of {', '.join(DOES)}")
    if not inner and not does:
        raise Wrong("does", f"does is missing; it is one of {', '.join(DOES)}")
    known = _CHECKS | {"path": partial(_path, surely=True)} if inner else _CHECKS
    checks = tuple(known[key](key, value) for key, value in entry.items() if key in known)
    programs = frozenset(_texts("program", entry.get("program", [])))
    globs = tuple(each for each in programs if "*" in each or "[" in each)
    return Matcher(frozenset(does), programs, globs, checks)


def prepared(act: Act, table: Table) -> Line:
    """The words of an act sorted, for rules about options."""
    return sort_words(act.program, act.words, table.of(act.program))


def _named(program: str, pattern: str) -> bool:
    return program == pattern or (
        ("*" in pattern or "[" in pattern) and fnmatch.fnmatchcase(program, pattern)
    )


def _texts(key: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    for each in values:
        if not isinstance(each, str) or not each:
            raise Wrong(key, f"{key}: {each!r} is no text; write it in quotes")
    return values


def _pattern(key: str, value: Any) -> re.Pattern[str]:
    found = _texts(key, value)
    try:
        return re.compile(found[0] if len(found) == 1 else "|".join(f"(?:{each})" for each in found))
    except re.error as error:
        raise Wrong(key, f"{key}: {value!r} is no regular expression: {error}") from None


# ---- the keys --------------------------------------------------------------------------------------------


def _words(key: str, value: Any) -> Check:
    wanted = [each.split("|") for each in _texts(key, value)]

    def check(act: Act, line: Line, places: Places) -> bool:
        pairs = zip(line.operands, wanted, strict=False)
        return len(line.operands) >= len(wanted) and all(
            any(_named(word, each) for each in choices) for word, choices in pairs
        )

    return check


def _option(key: str, value: Any) -> Check:
    wanted = _texts(key, value)
    some = all if key == "all" else any
    return lambda act, line, places: some(_given(each, line) for each in wanted)


def _given(wanted: str, line: Line) -> bool:
    """Whether an option is there: as it stands, with a value behind `=`, or as an unmistakable beginning."""
    name, equals, worth = wanted.partition("=")
    for each in line.options:
        if _named(each, wanted):
            return True
        if not equals and each.partition("=")[0] == wanted:
            return True
        long = wanted.startswith("--") and not equals and each.startswith("--") and len(each) > 4
        if long and len(each) < len(wanted) and wanted.startswith(each.partition("=")[0]):
            return True  # programs take `--forc` for `--force`
    return bool(equals) and any(
        option == name and fnmatch.fnmatchcase(given, worth) for option, given in line.values
    )


def _argument(key: str, value: Any) -> Check:
    form = _pattern(key, value)
    return lambda act, line, places: any(form.search(word) for word in act.words)


def _text(key: str, value: Any) -> Check:
    form = _pattern(key, value)
    return lambda act, line, places: bool(form.search(act.text or " ".join([act.program, *act.words])))


def _place(key: str, value: Any) -> Check:
    wanted = _known(key, value)
    if key == "places":
        return lambda act, line, places: wanted <= act.places
    return lambda act, line, places: not wanted.isdisjoint(act.places)


def _known(key: str, value: Any) -> frozenset[str]:
    wanted = _texts(key, value)
    for each in wanted:
        if each not in PLACES:
            raise Wrong(key, f"{key}: {each!r} is none of {', '.join(PLACES)}")
    return frozenset(wanted)


def _tag(key: str, value: Any) -> Check:
    wanted = frozenset(_texts(key, value))
    return lambda act, line, places: not wanted.isdisjoint(act.tags)


def _path(key: str, value: Any, surely: bool = False) -> Check:
    """Behind `unless` `surely`: a path with globs has to be meant as a whole, `*.pem` is no `*cert*.pem`."""
    wanted = tuple(_texts(key, value))
    return lambda act, line, places: (
        bool(act.path) and matches(act.path, wanted, places.folder, places.home, surely=surely)
    )


def _host(key: str, value: Any) -> Check:
    wanted = _texts(key, value)
    return lambda act, line, places: any(_named(host_of(act.text), each) for each in wanted)


def _tool(key: str, value: Any) -> Check:
    wanted = _texts(key, value)
    return lambda act, line, places: any(_named(act.program, each) for each in wanted)


def _unless(key: str, value: Any) -> Check:
    entries = value if isinstance(value, list) else [value]
    inner: list[Matcher] = []
    for each in entries:
        if not isinstance(each, dict) or not each:
            raise Wrong(key, f"unless: {each!r} is no mapping")
        if stray := [name for name in each if name not in KEYS]:
            raise Wrong(key, f"unless: there is no key {stray[0]}; there are {', '.join(KEYS)}")
        inner.append(matcher(each, inner=True))
    return lambda act, line, places: not any(each(act, line, places) for each in inner)


_CHECKS: dict[str, Callable[[str, Any], Check]] = {
    "words": _words,
    "option": _option,
    "all": _option,
    "argument": _argument,
    "text": _text,
    "place": _place,
    "places": _place,
    "tag": _tag,
    "path": _path,
    "host": _host,
    "tool": _tool,
    "unless": _unless,
}
