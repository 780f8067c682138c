"""The files of a folder: which of them count, their texts, and the listing that a model sees."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.disk import SKIPPED
from kernel.errors import OperationFailed
from runtime.sandbox.tests_by_name import is_test
from runtime.text.shown import shown_name

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILES, FOLDERS = 6_000, 2_000
"""Maximum files and folders that are looked at, the nearest first."""
LARGEST, RULES = 1_000_000, 50_000
"""Maximum bytes of a file that is read whole, and of a .gitignore."""
STARS = 3
"""Maximum stars of a rule for git: to match more of them takes a time that grows with their power."""
LISTED, LISTED_CHARACTERS = 120, 4_000
"""Maximum lines and characters of the listing."""
LARGE = 50_000
"""Bytes from which the listing tells the size of a file."""

_ASIDE = re.compile(r"^(docs?|examples?|samples?|bench\w*|vendor|third_party)/|\.pyi$")
ALL_RULES = 100_000
"""Maximum bytes of all .gitignore files together."""
STEPS = 500_000_000
"""Maximum steps of matching rules for git, as estimated for each path; after them no more files are noted."""
_RULE = 50
"""Steps of a rule for any path."""


def is_aside(path: str) -> bool:
    """Whether a file is a test, an example or a stub: definitions of the project itself come first."""
    return bool(_ASIDE.search(path)) or is_test(path)


class Files:
    """The files of a folder by path, without hidden files, what git ignores, and links that lead outside.

    `hidden` are absolute paths that are left out. `readable` is the guard of the run's operations: it returns
    the real path, or raises `OperationFailed`.
    """

    def __init__(
        self, folder: Path, hidden: Collection[Path] = (), readable: Callable[[str], Path] | None = None
    ) -> None:
        self.folder, self.readable = folder.resolve(), readable or self._inside
        self.hidden = {each.resolve() for each in hidden}
        self.sizes: dict[str, int] = {}
        self._rules: list[_Rules] = []
        self._room, self._steps = ALL_RULES, STEPS
        self._above()
        pending, looked = [""], 0
        while pending and looked < FOLDERS and len(self.sizes) < FILES and self._steps > 0:
            pending += self._look(pending.pop(0))
            looked += 1
        self.more = bool(pending) or len(self.sizes) >= FILES or self._steps <= 0

    def raw(self, path: str, most: int = 0) -> bytes | None:
        """The bytes of a text file; None if it may not be read, is no UTF-8 text, or is too large.

        With `most`, only the first lines of a file that is too large.
        """
        with suppress(OSError, ValueError, RuntimeError, OperationFailed):
            real = self.readable(path)
            if real.is_file() and (most or real.stat().st_size <= LARGEST):
                with real.open("rb") as file:
                    raw = file.read(most or LARGEST)
                raw = raw[: raw.rfind(b"\n")] if most else raw
                raw.decode("utf-8")
                return None if b"\0" in raw else raw
        return None

    def fitting(self, said: str) -> list[str]:
        """The files whose paths end with what was said, or with as much of an absolute path as any has."""
        parts = re.sub(r"^(\.{0,2}/|~/)+", "", said.replace("\\", "/")).split("/")
        places = self._by_name.get(parts[-1], [])
        for at in range(len(parts) if said.startswith(("/", "~", ".../")) or "\\" in said else 1):
            tail = "/".join(parts[at:])
            fits = [tail] if tail in places else [path for path in places if path.endswith(f"/{tail}")]
            if fits:
                return fits
        return []

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self.sizes:
            found.setdefault(path.rpartition("/")[-1], []).append(path)
        return found

    def _inside(self, path: str) -> Path:
        real = (self.folder / path).resolve(strict=True)
        if self.folder not in real.parents:
            raise OperationFailed(f"{path}: this is outside of the folder")
        return real

    def _look(self, inside: str) -> list[str]:
        """Note the files directly in a folder, and return its subfolders."""
        folders: list[str] = []
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(self.folder / inside) as found:
            entries = sorted(found, key=lambda each: each.name)
        self._read_rules(self.folder / inside, ".gitignore", inside)
        for entry in entries:
            path = f"{inside}{entry.name}"
            with suppress(OSError, RuntimeError, OperationFailed):
                folder = entry.is_dir(follow_symlinks=False)
                if self._steps <= 0:
                    break
                if entry.name.startswith(".") or (self.hidden and self.folder / path in self.hidden):
                    continue
                if (folder and entry.name in SKIPPED) or self._ignored(f"{path}/" if folder else path):
                    continue
                real = self.readable(path) if entry.is_symlink() else self.folder / path
                if folder:
                    folders.append(f"{path}/")
                elif real.is_file() and len(self.sizes) < FILES:
                    self.sizes[path] = real.stat().st_size
        return folders

    def _above(self) -> None:
        """The rules of the repository that the folder is in."""
        places = [self.folder, *self.folder.parents]
        root = next((each for each in places if (each / ".git").exists()), self.folder)
        self._read_rules(root, ".git/info/exclude")
        for each in reversed(places[1 : places.index(root) + 1]):
            self._read_rules(each, ".gitignore")

    def _read_rules(self, place: Path, name: str, inside: str = "") -> None:
        with suppress(OSError, ValueError, re.error):
            path = place / name
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= min(RULES, self._room):
                from pathspec import GitIgnoreSpec

                self._room -= path.stat().st_size
                lines = [each for each in path.read_text("utf-8").splitlines() if _stars(each) <= STARS]
                rules = GitIgnoreSpec.from_lines(lines)
                forms = [each.regex.pattern for each in rules.patterns if each.regex]
                some = re.compile("|".join(re.sub(r"\?P<\w+>", "?:", str(each)) for each in forms) or "(?!)")
                here = inside or place == self.folder
                below = "" if here else f"{self.folder.relative_to(place).as_posix()}/"
                weights = Counter((_stars(each), "**" in each) for each in lines if each.strip(" #"))
                self._rules.append(_Rules(inside, below, some, rules, weights))

    def _ignored(self, path: str) -> bool:
        """What the nearest rule for a path says."""
        for each in reversed(self._rules):
            if not path.startswith(each.inside):
                continue
            shown = each.below + path[len(each.inside) :]
            self._steps -= each.steps(shown)
            if each.some.match(shown):
                hit = each.rules.check_file(shown).include
                if hit is not None:
                    return hit
        return False


@dataclass(frozen=True)
class _Rules:
    inside: str  # where they hold
    below: str  # the path from the .gitignore to the folder
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


def _stars(rule: str) -> int:
    """The stars of a rule for git; some side by side count as one."""
    return len(re.findall(r"\*+", rule))


def listing(files: Files, beside: Iterable[str], characters: int) -> str:
    """The paths, one a line: `beside` and their siblings first, then tests; equal siblings are folded.

    `characters` is the budget of what is shown; the listing of a small one is shorter.
    """
    if not files.sizes:
        return "(the folder is empty)"
    most = min(LISTED, max(20, characters // 100)) - 1
    room = min(LISTED_CHARACTERS, max(800, characters // 3)) - 40
    first = set(beside)
    near = {os.path.dirname(path) for path in first}  # noqa: PTH120

    def rank(path: str) -> tuple[bool, bool, bool, int, str]:
        return path not in first, not is_test(path), os.path.dirname(path) not in near, path.count("/"), path  # noqa: PTH120

    paths, lines, rows = sorted(files.sizes, key=rank), list[str](), list[list[str]]()
    shapes = {path: _shapes(path) for path in paths if path not in first}
    counts = Counter(shape for each in shapes.values() for shape in each)
    for siblings in (40, 15, 6, 3):
        folded = _folded(paths, shapes, counts, siblings)
        rows = list(folded.values())
        lines = [_line(name, of, files) for name, of in folded.items()]
        if len(lines) <= most and sum(map(len, lines)) + len(lines) <= room:
            break
    while lines and (len(lines) > most or sum(map(len, lines)) + len(lines) > room):
        lines.pop()
    left = sum(map(len, rows[len(lines) :]))
    more = [f"… and {'more than ' if files.more else ''}{left} files more"] if left or files.more else []
    return "\n".join([*lines, *more])


def _line(name: str, of: list[str], files: Files) -> str:
    size = files.sizes[of[0]]
    more = f" … {len(of)} files" if len(of) > 1 else f" ({size:,} bytes)" if size >= LARGE else ""
    return f"{shown_name(name)}{more}"


def _folded(
    paths: list[str], shapes: dict[str, list[str]], counts: Counter[str], siblings: int
) -> dict[str, list[str]]:
    """Rows with their files: more than these siblings are one row, `locale/*/x.po` or `docs/*.md`."""
    rows: dict[str, list[str]] = {}
    for path in paths:
        common = [each for each in shapes.get(path, ()) if counts[each] > siblings]
        rows.setdefault(max(common, key=lambda each: counts[each], default=path), []).append(path)
    return {name if len(of) > 1 else of[0]: of for name, of in rows.items()}


def _shapes(path: str) -> list[str]:
    """What a path and its siblings have in common, with a star for one folder or for the name."""
    *folders, name = parts = path.split("/")
    stars = ["/".join([*parts[:at], "*", *parts[at + 1 :]]) for at in range(len(folders))]
    return [*stars, "/".join([*folders, f"*{os.path.splitext(name)[1]}"])]  # noqa: PTH122
