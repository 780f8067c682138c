"""The files of a folder: which of them count, their texts, and the listing that a model sees."""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from kernel.errors import OperationFailed
from runtime.found_files import SKIPPED
from runtime.sandbox.ignored import Ignored, named
from runtime.sandbox.tests_by_name import is_test
from runtime.text.shown import shown_name

FILES, FOLDERS = 6_000, 2_000
"""Maximum files and folders that are looked at, the nearest first."""
LARGEST = 1_000_000
"""Maximum bytes of a file that is read whole."""
LISTED, LISTED_CHARACTERS, BRIEF_CHARACTERS = 120, 4_000, 1_000
"""Maximum lines and characters of the listing, and of one beside files that are shown."""
NAMED, FEW, ALIKE = 12, 4, 3
"""Files of a folder that are named, and of one far away; equal folders that have lines of their own."""
LARGE = 50_000
"""Bytes from which the listing tells the size of a file."""

_ASIDE = re.compile(r"^(docs?|examples?|samples?|bench\w*|vendor|third_party)/|\.pyi$")


def is_aside(path: str) -> bool:
    """Whether a file is a test, an example or a stub: definitions of the project itself come first."""
    return bool(_ASIDE.search(path)) or is_test(path)


class Files:
    """The files of a folder by path, without hidden files, what git ignores, and links that lead outside.

    `hidden` are absolute paths that are left out. `readable` is the guard of the run's operations: it returns
    the real path, or raises `OperationFailed`. `ignored` names what git ignores, folders with a slash.
    Where the rules for git take too long, no more files are noted.
    """

    def __init__(
        self, folder: Path, hidden: Collection[Path] = (), readable: Callable[[str], Path] | None = None
    ) -> None:
        self.folder, self.readable = folder.resolve(), readable or self._inside
        self.hidden = {each.resolve() for each in hidden}
        self.sizes: dict[str, int] = {}
        self.ignored: list[str] = []
        self._git = Ignored(self.folder)
        pending, looked = deque([("", False)]), 0
        while pending and looked < FOLDERS and len(self.sizes) < FILES and not self._git.spent:
            pending += self._look(*pending.popleft())
            looked += 1
        self.more = bool(pending) or len(self.sizes) >= FILES or self._git.spent

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

    def _look(self, inside: str, ignored: bool) -> list[tuple[str, bool]]:
        """Note the files directly in a folder; return its subfolders, and whether git ignores each."""
        folders: list[tuple[str, bool]] = []
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(self.folder / inside) as found:
            entries = sorted(found, key=lambda each: each.name)
        for entry in entries:
            path = f"{inside}{entry.name}"
            with suppress(OSError, RuntimeError, OperationFailed):
                folder = entry.is_dir(follow_symlinks=False)
                if self._git.spent:
                    break
                if entry.name.startswith(".") or (self.hidden and self.folder / path in self.hidden):
                    continue
                if folder and entry.name in SKIPPED:
                    continue
                shown = f"{path}/" if folder else path
                left = self._git.ignores(shown, ignored)
                if left and not (folder and self._git.holds_tracked(shown)):
                    self.ignored += [] if ignored else [shown]
                    continue
                real = self.readable(path) if entry.is_symlink() else self.folder / path
                if folder:
                    folders.append((shown, left))
                elif real.is_file() and len(self.sizes) < FILES:
                    self.sizes[path] = real.stat().st_size
        return folders


def listing(files: Files, beside: Iterable[str], whole: Collection[str] = (), *, brief: bool = False) -> str:
    """The files, a line for each folder: that of `beside` first, then those of tests, then the nearest.

    Of a folder in `whole` all files are named. Of other folders some are, of a `brief` listing fewer, and
    equal folders are one line.
    """
    ignored = [f"(ignored by git: {named(files.ignored)})"] if files.ignored else []
    if not files.sizes:
        return ignored[0] if ignored else "(the folder is empty)"
    first = dict.fromkeys(beside)
    inside: dict[str, list[str]] = {}
    for path in sorted(files.sizes, key=lambda path: (path not in first, not is_test(path), path)):
        inside.setdefault(_folder(path), []).append(path)
    near = {_folder(path) for path in first}

    tests = {place for place, paths in inside.items() if is_test(paths[0])}

    def rank(place: str) -> tuple[bool, bool, bool, int, str]:
        return place not in whole, place not in near, place not in tests, place.count("/"), place

    lines, room = list[str](), (BRIEF_CHARACTERS if brief else LISTED_CHARACTERS) - 40
    shapes = Counter(shape for place in inside for shape in _shapes(place))
    told = set[str]()
    for place in sorted(inside, key=rank):
        own = place in whole or place in near
        alike = [each for each in _shapes(place) if shapes[each] > ALIKE and not own]
        shape = max(alike, key=lambda each: shapes[each], default=place)
        if shape in told or len(lines) >= LISTED - 1:
            continue
        of = [each for each in inside if shape in (each, *_shapes(each)) and each not in told]
        few = NAMED if not brief or not place or place in near | tests else FEW
        most = len(files.sizes) if place in whole else few
        line = _line(shape, [path for each in of for path in inside[each]], most, files)
        if len(line) > room:
            break
        room -= len(line) + 1
        lines.append(line)
        told.add(shape)
    shown = sum(len(inside[each]) for each in inside if told & {each, *_shapes(each)})
    left = len(files.sizes) - shown
    more = [f"… and {'more than ' if files.more else ''}{left} files more"] if left or files.more else []
    return "\n".join([*lines, *more, *ignored])


def _folder(path: str) -> str:
    return path[: path.rfind("/") + 1]


def _line(place: str, paths: list[str], most: int, files: Files) -> str:
    """A folder with the names of its first files, and how many more there are of each ending."""
    named = dict(reversed([(path.rpartition("/")[2], path) for path in paths]))  # of equal names the first
    names = sorted(named, key=lambda name: paths.index(named[name]))
    sizes = [files.sizes[named[name]] for name in names]
    shown = [
        f"{shown_name(name)} ({size:,} bytes)" if size >= LARGE else shown_name(name)
        for name, size in zip(names[:most], sizes, strict=False)
    ]
    more = Counter(os.path.splitext(name)[1] for name in names[most:])  # noqa: PTH122
    shown += [f"{count} more{f' *{ending}' if ending else ''}" for ending, count in more.items()]
    several = f"({len(paths)} files) " if "*" in place else ""
    return f"{shown_name(place)}{': ' if place else ''}{several}{', '.join(shown)}"


def _shapes(folder: str) -> list[str]:
    """What a folder and others have in common, with a star for one part: `locale/*/LC_MESSAGES/`."""
    parts = folder.split("/")[:-1]
    return ["/".join([*parts[:at], "*", *parts[at + 1 :], ""]) for at in range(len(parts)) if len(parts) > 1]
