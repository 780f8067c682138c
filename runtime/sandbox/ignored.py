"""Which files of a folder git ignores, read from its rules and its index: it needs no git, and runs none.

A file that is tracked is not ignored, whatever the rules say. The rules of a folder without a repository
hold as well. Rules of the user's own configuration are not read.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel import disk
from runtime.text.shown import shown_name

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

RULES, ALL_RULES = 50_000, 100_000
"""Maximum bytes of a .gitignore, and of all of them together."""
INDEX = 64_000_000
"""Maximum bytes of the index of a repository."""
STARS = 3
"""Maximum stars of a rule: to match more of them takes a time that grows with their power."""
STEPS = 500_000_000
"""Maximum steps of matching rules, as estimated for each path."""
NAMED = 5
"""Ignored files that a message names."""
_RULE = 50
"""Steps of a rule for any path."""


class Ignored:
    """What git ignores below a folder.

    The rules of a folder are read when something in it is asked about. `spent` is true once the rules have
    taken too many steps; then nothing more is ignored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._room, self._steps = ALL_RULES, STEPS
        places = [self.folder, *self.folder.parents]
        self._root = next((each for each in places if (each / ".git").exists()), self.folder)
        self._git = _git_folder(self._root / ".git")
        self._below = self.folder.relative_to(self._root).as_posix()
        self._below = "" if self._below == "." else f"{self._below}/"
        self._chains: dict[str, _Chain] = {}
        above = places[1 : places.index(self._root) + 1]
        found = [
            *self._read(self._common / "info" / "exclude", self._root),
            *(rules for each in reversed(above) for rules in self._read(each / ".gitignore", each)),
        ]
        out = any(each.below and each.rules.match_file(each.below) for each in found)
        self._above = (
            [] if out else found
        )  # in a folder that is ignored itself, only its own rules say something

    @property
    def spent(self) -> bool:
        """Whether the rules have taken more steps than they may."""
        return self._steps <= 0

    def ignores(self, path: str, above: bool = False) -> bool:
        """Whether a path below the folder is ignored; that of a folder ends with a slash.

        `above` says whether the folder that it is in is ignored.
        """
        return (above or self._by_rules(path)) and f"{self._below}{path}" not in self._tracked[0]

    def within(self, path: str) -> bool:
        """Whether a path is ignored, or is in a folder that is; `./` is the folder itself."""
        parts, above = path.rstrip("/").split("/"), False
        for at in range(1, len(parts)):
            above = self.ignores("/".join([*parts[:at], ""]), above)
        return path != "./" and self.ignores(path, above)

    def holds_tracked(self, folder: str) -> bool:
        """Whether there is a tracked file below an ignored folder, whose path ends with a slash."""
        return f"{self._below}{folder}" in self._tracked[1]

    @property
    def _common(self) -> Path:
        """The folder of the repository that its worktrees share."""
        with suppress(OSError, ValueError):
            said = disk.read(self._git / "commondir", RULES).decode().strip()
            return self._git / said
        return self._git

    @cached_property
    def _tracked(self) -> tuple[frozenset[str], frozenset[str]]:
        """The paths in the index, and the folders that they are in, from the root of the repository."""
        paths = frozenset[str]()
        with suppress(OSError, ValueError, IndexError, struct.error):
            paths = frozenset(_paths_of_index(disk.read(self._git / "index", INDEX)))
        folders = set[str]()
        for path in paths:
            at = path.rfind("/")
            while at > 0 and path[: at + 1] not in folders:
                folders.add(path[: at + 1])
                at = path.rfind("/", 0, at)
        return paths, frozenset(folders)

    def _by_rules(self, path: str) -> bool:
        """What the nearest rule for a path says."""
        at = path.rfind("/", 0, len(path) - 1) + 1
        for start, rules in self._chain(path[:at]):
            if (said := self._say(rules, path[start:])) is not None:
                return said
        for rules in reversed(self._above):
            if (said := self._say(rules, path)) is not None:
                return said
        return False

    def _chain(self, inside: str) -> _Chain:
        """The rules of a folder and of those above it, the nearest first, each with the length of its path.

        Those of the folder above are known in a walk, so that a deep folder costs no more than another one.
        """
        missing: list[str] = []
        place = inside
        while place not in self._chains:
            missing.append(place)
            if not place:
                break
            place = place[: place.rfind("/", 0, len(place) - 1) + 1]
        chain = self._chains.get(place, ())
        for each in reversed(missing):
            folder = self.folder / each
            own = tuple((len(each), rules) for rules in self._read(folder / ".gitignore", folder))
            self._chains[each] = chain = own + chain
        return chain

    def _say(self, rules: _Rules, path: str) -> bool | None:
        shown = rules.below + path
        cost = rules.steps(shown)
        if cost > self._steps:
            self._steps = 0
            return None
        self._steps -= cost
        return rules.rules.check_file(shown).include if rules.some.match(shown) else None

    def _read(self, path: Path, place: Path) -> Iterable[_Rules]:
        with suppress(OSError, ValueError, re.error):
            if path.is_symlink() or not path.is_file():
                return
            size = path.stat().st_size
            if size > min(RULES, self._room):
                return
            from pathspec import GitIgnoreSpec

            self._room -= size
            lines = [each for each in disk.read(path).decode().splitlines() if _stars(each) <= STARS]
            rules = GitIgnoreSpec.from_lines(lines)
            forms = [each.regex.pattern for each in rules.patterns if each.regex]
            some = re.compile("|".join(re.sub(r"\?P<\w+>", "?:", str(each)) for each in forms) or "(?!)")
            nearer = place != self.folder and self.folder in place.parents
            below = "" if nearer or place == self.folder else f"{self.folder.relative_to(place).as_posix()}/"
            weights = Counter((_stars(each), "**" in each) for each in lines if each.strip(" #"))
            yield _Rules(below, some, rules, weights)


@dataclass(frozen=True)
class _Rules:
    below: str  # the path from the .gitignore to the folder, if it is above
    some: re.Pattern[str]  # what one of them is about, which is found faster
    rules: GitIgnoreSpec
    weights: Mapping[tuple[int, bool], int]  # how many have so many stars, those with two side by side apart

    def steps(self, path: str) -> int:
        """About how many steps it takes at most to match a path: a star may stand for each part of a name."""
        names, whole = [len(each) for each in path.split("/")], [len(path)]
        steps = 0
        for (stars, deep), count in self.weights.items():
            tried = sum(size**stars for size in (whole if deep else names)) // factorial(stars)
            steps += count * (_RULE + tried)
        return steps


_Chain = tuple[tuple[int, _Rules], ...]


def named(names: Iterable[str], more: bool = False) -> str:
    """The first ignored files for a message: `a.log, b.log, …`."""
    listed = list(names)
    shown = [shown_name(each) for each in listed[:NAMED]]
    return ", ".join([*shown, *(["…"] if more or len(listed) > NAMED else [])])


def _stars(rule: str) -> int:
    """The stars of a rule; some side by side count as one."""
    return len(re.findall(r"\*+", rule))


def _git_folder(path: Path) -> Path:
    """The folder of a worktree's or submodule's repository, which a file `.git` names."""
    with suppress(OSError, ValueError):
        if path.is_file():
            said = disk.read(path, RULES).decode().strip()
            return path.parent / said.removeprefix("gitdir:").strip()
    return path


def _paths_of_index(raw: bytes) -> Iterable[str]:
    """The paths of git's index, version 2 to 4; see gitformat-index in git's documentation."""
    kind, version, count = struct.unpack_from(">4sII", raw)
    if kind != b"DIRC" or version not in (2, 3, 4):
        return
    at, last = 12, b""
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", raw, at + 60)
        start = at + (64 if flags & 0x4000 else 62)
        if version < 4:
            end = raw.index(b"\0", start)
            last = raw[start:end]
            at += (end - at) // 8 * 8 + 8
        else:
            cut, shift = raw[start] & 127, start
            while raw[shift] & 128:
                shift += 1
                cut = ((cut + 1) << 7) | (raw[shift] & 127)
            end = raw.index(b"\0", shift + 1)
            last = last[: len(last) - cut] + raw[shift + 1 : end]
            at = end + 1
        yield last.decode("utf-8", "surrogateescape")
