"""Walks through the folder, globs, and the time limit of an operation."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel.errors import OperationFailed
from runtime.found_files import SKIPPED
from runtime.operations.texts import counted, existing, os_errors, regular, relative
from runtime.sandbox.context import OperationContext
from runtime.sandbox.ignored import Ignored, named
from runtime.text.shown import shown_name

SKIPPED_OF_WORKSPACE = "state"
"""Skipped only in a workspace; elsewhere the name belongs to the project."""
MOST_ENTRIES = 200_000
MOST_IGNORED = 20_000
"""Most entries that git ignores which a walk looks at."""
MOST_LEVELS = 200
"""Most levels of folders."""
_LONGEST_GLOB = 500
_MOST_ALTERNATIVES = 64


@dataclass(frozen=True)
class Entry:
    """A file or folder that a walk has found."""

    name: str  # relative to the folder, forward slashes
    parts: tuple[str, ...]  # relative to where the walk started
    path: Path
    folder: bool
    link: bool
    ignored: bool = False  # by git
    cut: bool = False  # beyond the ignored entries that a walk looks at


@dataclass(frozen=True)
class Below:
    """What was found below a folder: what a call asked for, and what else matches but is ignored by git."""

    kept: list[Entry]
    ignored: list[Entry]
    more: bool = False  # whether there may be more ignored ones


class Deadline:
    """The moment when an operation must stop; a thread cannot be stopped from outside."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds if seconds else float("inf")
        self.seconds = seconds

    @property
    def left(self) -> float:
        """Seconds left, never 0, so that it can be a timeout."""
        return max(0.01, min(self._end - time.monotonic(), 86_400.0))

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end

    def check(self) -> None:
        """Raise when the time is over."""
        if self.over:
            raise OperationFailed(
                f"stopped after {self.seconds:g} s; name a smaller folder or a narrower glob"
            )


def walk(
    ctx: OperationContext, start: Path, deadline: Deadline, git: Ignored | None = None
) -> Iterator[Entry]:
    """Everything below `start` by name, folders before their content; links to folders are not followed.

    With the rules for `git`, no more folders that it ignores are entered after `MOST_IGNORED` entries.
    """
    root, count, ignored = ctx.folder.resolve(), 0, 0
    left = set[Path]()  # folders that git ignores
    with os_errors(start.name):
        os.scandir(start).close()  # a folder below that may not be entered is skipped
    for where, folders, names in os.walk(start):
        deadline.check()
        here = Path(where)
        parts, base = here.relative_to(start).parts, ctx.shown(here)
        base = "" if base == "." else f"{base}/"
        if len(parts) > MOST_LEVELS:
            raise OperationFailed(f"more than {MOST_LEVELS} folders inside each other; name a smaller folder")
        inner = frozenset(folders)
        folders.clear()
        for name in sorted([*inner, *names]):
            path, folder = here / name, name in inner
            link = path.is_symlink()
            hidden = path in ctx.private or (name == SKIPPED_OF_WORKSPACE and path in ctx.protected)
            skipped = name == ".git" or (name in SKIPPED and folder and not link)
            if hidden or skipped or (link and not _leads_inside(path, root)):
                continue
            shown = relative(ctx, path) if link else shown_name(base + name)
            descends = folder and not link
            out = git is not None and git.ignores(f"{base}{name}{'/' if descends else ''}", here in left)
            count, ignored = count + (not out), ignored + out
            if count > MOST_ENTRIES:
                raise OperationFailed(f"more than {MOST_ENTRIES:,} files below; name a smaller folder")
            cut = out and ignored > MOST_IGNORED
            yield Entry(shown, (*parts, name), path, folder, link, out, cut)
            if descends and not cut:
                folders.append(name)
                left |= {path} if out else set()


def _leads_inside(path: Path, root: Path) -> bool:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return root in target.parents and ".git" not in target.relative_to(root).parts


def files_below(ctx: OperationContext, path: str, glob: str, deadline: Deadline) -> list[Entry]:
    """The file `path`, or the files below that folder that match the glob, sorted by path."""
    start = existing(ctx, path)
    if not start.is_dir():
        regular(ctx, path)
        return [Entry(relative(ctx, start), (start.name,), start, False, False)]
    pattern = Glob.of(glob)
    found = [
        each
        for each in walk(ctx, start, deadline)
        if not each.folder and pattern.matches(each.parts) and each.path.is_file()
    ]
    return sorted(found, key=lambda each: each.parts)


def found_below(
    ctx: OperationContext,
    start: Path,
    glob: str,
    deadline: Deadline,
    ignored: bool = False,
    fits: Callable[[Entry], bool] = lambda entry: True,
) -> Below:
    """What matches a glob below a folder, sorted by path, without what git ignores, which stands apart.

    With `ignored`, or where the folder itself is ignored, that is among the others. So it is where a glob
    names ignored files only: they are what was asked for.
    """
    git = Ignored(ctx.folder)
    if ignored or git.within(f"{ctx.shown(start)}/"):
        git = None
    pattern, apart, cut = Glob.of(glob), list[Entry](), False
    kept: list[Entry] = []
    for each in walk(ctx, start, deadline, git):
        cut = cut or each.cut
        if not each.cut and pattern.matches(each.parts) and fits(each):
            (apart if each.ignored else kept).append(each)
    kept.sort(key=lambda each: each.parts)
    apart.sort(key=lambda each: each.parts)
    if not kept and glob not in ("*", "**", "**/*"):
        return Below(apart, [])
    return Below(kept, apart, cut)


def files_found(ctx: OperationContext, path: str, glob: str, deadline: Deadline, ignored: bool) -> Below:
    """Like `found_below`, for the file `path` or the files below that folder."""
    start = existing(ctx, path)
    if not start.is_dir():
        return Below(files_below(ctx, path, glob, deadline), [])
    return found_below(
        ctx, start, glob, deadline, ignored, lambda each: not each.folder and each.path.is_file()
    )


def told(names: Sequence[str], one: str, several: str, more: bool = False) -> str:
    """A line that tells of ignored files: `(3 ignored files have hits: a.log, …; ask with ignored: true)`."""
    if not names:
        return "\n(not all ignored files were looked at; ask with ignored: true)" if more else ""
    count = f"{'at least ' if more else ''}{counted(len(names), 'ignored file')}"
    what = one if len(names) == 1 and not more else several
    return f"\n({count} {what}: {named(names, more)}; ask with ignored: true)"


@dataclass(frozen=True)
class Glob:
    """A pattern of names: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of folders.

    Without a slash it matches a name at any depth; with one, the path from where the search starts.
    """

    alternatives: tuple[tuple[re.Pattern[str] | None, ...], ...]  # None stands for **

    @classmethod
    def of(cls, pattern: str) -> Glob:
        """Compile a pattern; raises if it is empty, leads outside or is too complex."""
        if not pattern.strip():
            raise OperationFailed("the pattern is empty; * matches every name")
        if len(pattern) > _LONGEST_GLOB or "\0" in pattern:
            raise OperationFailed(f"the pattern is longer than {_LONGEST_GLOB} characters or contains NUL")
        alternatives: list[tuple[re.Pattern[str] | None, ...]] = []
        for alternative in _braces(pattern):
            plain = alternative.removeprefix("./").rstrip("/") or "*"
            parts = plain.split("/")
            if plain.startswith(("/", "~")) or ".." in parts:
                raise OperationFailed(
                    f"{alternative}: only names inside the folder can be matched; leave out / and .."
                )
            parts = ["**", *parts] if len(parts) == 1 else [part for part in parts if part not in ("", ".")]
            alternatives.append(
                tuple(None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts)
            )
        return cls(tuple(alternatives))

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether a path, given as its parts, matches."""
        return any(_match(each, parts) for each in self.alternatives)


def _match(pattern: tuple[re.Pattern[str] | None, ...], parts: tuple[str, ...]) -> bool:
    """Match part by part; `fits[n]` is whether the first n parts of the pattern match the parts so far."""
    fits = [all(each is None for each in pattern[:n]) for n in range(len(pattern) + 1)]
    for part in parts:
        row = [False]
        for n, each in enumerate(pattern):
            row.append(row[n] or fits[n + 1] if each is None else fits[n] and bool(each.match(part)))
        fits = row
    return fits[-1]


def _braces(pattern: str) -> list[str]:
    """`a.{py,md}` as `a.py` and `a.md`; braces that do not close are literal."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        each = pending.pop(0)
        hit = re.search(r"\{([^{}]*,[^{}]*)\}", each)
        if hit is None:
            done.append(each)
        else:
            pending.extend(each[: hit.start()] + word + each[hit.end() :] for word in hit[1].split(","))
        if len(done) + len(pending) > _MOST_ALTERNATIVES:
            raise OperationFailed(f"the pattern has more than {_MOST_ALTERNATIVES} alternatives")
    return done
