"""Snapshots of a folder, stored so that it can be compared and restored.

A snapshot is a tree in a git repository of our own. What git's trees cannot say (modes, folders, files too
large to store) is in a note beside it. Without git a snapshot is a list of sizes and times.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.model import Document, Step
from kernel.errors import FractalError, RunLocked
from kernel.loop.hooks import FolderChanges
from kernel.loop.run_context import Session
from runtime import contained, locks
from runtime.found_files import SKIPPED
from runtime.own import own_places
from runtime.sandbox import at_start, restoring
from runtime.sandbox.bubblewrap import PROTECTED
from runtime.sandbox.changes import changes, deleted, deletion_note, files_of
from runtime.sandbox.inside import above, make_folder, set_mode
from runtime.sandbox.process import run_to_end
from runtime.sandbox.repository import Shadow
from runtime.sandbox.trees import FOLDER, LARGEST, Notes, NotKept, Trees
from runtime.text.shown import shown_name

FILES = 200_000
"""Most files in a folder that is stored."""
BYTES = 4_000_000_000
"""Most bytes in a folder that is stored."""
LARGE_FILES = 500
"""Most files above `LARGEST` in a folder; each is protected by itself."""
DEEPEST = 100
"""Most levels of folders that are stored."""
PACKED = 1_000
"""New files that are written into one pack: a file for each of them would take several times as long."""
CACHE_TAG = "CACHEDIR.TAG"
"""A folder with this file is a cache (bford.info/cachedir)."""
YOUNG = 3.0
"""Seconds for which a file counts as changed just now."""
PATIENCE = 30.0
"""Seconds that `undo` waits for a command that changes the folder."""


class Snapshots:
    """The snapshots of one folder, in `home`; `protected` paths are left out.

    Only who holds the `turn` may call `take` or `restore`: both work with one index.
    """

    def __init__(self, home: Path, folder: Path, protected: Sequence[Path] = ()) -> None:
        contained.refuse_links(home, 2)  # git follows them
        contained.refuse_links(home / "refs", 9)
        self.home = home
        self.folder = folder.resolve()
        self._left_out = {os.path.relpath(path, self.folder) for path in protected} | set(PROTECTED)
        self._turn = asyncio.Lock()
        self.shadow = Shadow(home, self.folder)
        self.trees = Trees(self.shadow)
        self.too_large = ""  # why this folder cannot be stored
        self.large: tuple[Path, ...] | None = None  # files that the last snapshot did not keep

    def why_not(self) -> str:
        """Why nothing in this folder can be restored; "" if it can."""
        if self.shadow.git is None:
            return "git is not installed, so nothing is kept for `fractal undo`; install git"
        return self.too_large

    @asynccontextmanager
    async def turn(self, waits: Callable[[], None] = lambda: None) -> AsyncGenerator[None]:
        """A context in which no other run changes the folder; `waits` is called once, before a wait."""
        async with self._turn:
            with locks.lock_file(self.home / "lock") as handle:
                if not locks.try_lock(handle):
                    waits()
                    while not locks.try_lock(handle):  # noqa: ASYNC110 (by another process)
                        await asyncio.sleep(0.02)
                self.shadow.held = (handle,)
                try:
                    yield
                finally:
                    self.shadow.held = ()

    @contextmanager
    def alone(self, patience: float = PATIENCE) -> Generator[None]:
        """As `turn`, outside an event loop. Raises `RunLocked` after `patience` seconds."""

        def busy() -> RunLocked:
            return RunLocked(f"a run is changing {self.folder}; wait until its command has ended")

        with locks.lock(self.home / "lock", patience, busy):
            yield

    def sweep(self) -> list[Path]:
        """Remove what a dead process left, unless another one is working here; returns what is strange."""
        if (self.home / "lock").exists():
            with locks.lock_file(self.home / "lock") as handle:
                if locks.try_lock(handle):
                    self.shadow.sweep()
                    return at_start.sweep(self.home)
        return []

    async def taken(self, run: str) -> str:
        """`take` in a thread; a cancellation waits for it to end."""
        return await run_to_end(partial(self.take, run))

    def take(self, run: str) -> str:
        """Store the folder as it is now for a run; returns the snapshot's id, "" where that cannot be.

        Raises `NotKept` when a file or git refuses, and `StorageError` when there is no room on the disk.
        """
        if self.too_large:
            return ""
        if not self.folder.is_dir():
            raise NotKept(f"{self.folder} is gone")
        try:
            tree = self._take() if self.shadow.git else self._listed()
            # a git reference for each, so that `prune` spares what runs need
            for name in (tree, "first"):
                path = self.home / "refs" / "runs" / run / name
                if not path.exists():
                    disk.put(path, f"{tree}\n".encode(), fsync=False)
        except _TooLarge as error:
            self.too_large = str(error)
            return ""
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            message = _message(error)
            if reason := next((each for each in disk.FULL if each in message), ""):
                raise disk.storage_error(self.home, reason) from None
            first = message.partition("\n")[0]
            raise NotKept(f"{self.folder} cannot be kept for `fractal undo`: {first}") from None
        return tree

    def lay_out(self, source: Snapshots, tree: str, wanted: Callable[[str], bool]) -> None:
        """Fill the empty folder with what a snapshot of another one has; the caller holds both turns.

        The next `take` looks only at what has changed since. Files that are not kept are left out.
        """
        self.shadow.create()
        objects = self.home / "objects"  # links, as git's own clones have: they take no room
        shutil.copytree(source.home / "objects", objects, copy_function=os.link, dirs_exist_ok=True)
        self.shadow.run("read-tree", f"{tree}:files")
        files = [path for path, each in self.trees.states(tree).items() if each.oid and each.kept]
        unwanted = [path for path in files if not wanted(path)]
        self.shadow.run("update-index", "-z", "--force-remove", "--stdin", paths=unwanted)
        notes = self.trees.notes(tree)
        notes.young = files
        notes.modes = {path: mode for path, mode in notes.modes.items() if wanted(path)}
        notes.folders = {path: mode for path, mode in notes.folders.items() if wanted(path)}
        self.shadow.run("checkout-index", "-a", "-u", "-q", umask=0o777 & ~notes.mode("", True))
        for path in notes.folders:
            make_folder(self.folder, path)
        for path, mode in [*notes.modes.items(), *sorted(notes.folders.items(), reverse=True)]:
            set_mode(self.folder, path, mode)
        self._remember("", notes)

    def first(self, run: str) -> str:
        """The snapshot at the start of a run: before its first step that could change anything."""
        try:
            return (self.home / "refs" / "runs" / run / "first").read_text("ascii").strip()
        except (OSError, ValueError):
            return ""

    async def evidence(self, run: str, step: int, before: str) -> dict[str, Any]:
        """What a step has changed since the snapshot `before`; `step` is the root's, for the hint to undo.

        A file that it has made or changed does not stay setuid or setgid: whoever starts it would act as you.
        """
        after = await self.taken(run)
        moved = await run_to_end(partial(self.trees.changes, before, after))
        privileged = [path for path, (_, now) in moved.items() if now and _is_privileged(now.mode)]
        if privileged:
            await run_to_end(partial(self._unprivilege, privileged))
            after = await self.taken(run)
            moved = await run_to_end(partial(self.trees.changes, before, after))
        found: dict[str, Any] = {"tree_after": after}
        if files := files_of(moved):
            found["files"] = files
        if summary := deletion_note(run, step, deleted(moved)):
            found["deleted"] = summary
        return found

    def _unprivilege(self, paths: Iterable[str]) -> None:
        def without(mode: int) -> int:
            return mode & ~disk.PRIVILEGED if _is_privileged(mode) else mode

        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                set_mode(self.folder, path, without)

    async def since_start(self, run: str) -> FolderChanges | None:
        """Changes in the folder since the run's first step that could change it; None without one."""
        first = self.first(run)
        if not first:
            return FolderChanges(unknown=self.too_large) if self.too_large else None
        async with self.turn():
            last = await self.taken(run)
            moved = await run_to_end(partial(self.trees.changes, first, last))
        shown = await run_to_end(partial(changes, self.trees, moved))

        def there() -> Collection[str]:
            return [path for path, state in self.trees.states(first).items() if not stat.S_ISDIR(state.mode)]

        def before(path: str) -> str:
            state = self.trees.states(first, [path]).get(path)
            raw = self.trees.bytes_of([state.oid]).get(state.oid, b"") if state and state.kept else b""
            return raw.decode("utf-8", "replace")

        sizes = ["" if each.kind == "removed" else f" {each.size} bytes" for each in shown]
        lines = [f"{e.kind} {shown_name(e.path)}{size}" for e, size in zip(shown, sizes, strict=True)]
        diffs = [(shown_name(each.path), each.diff) for each in shown if each.diff]
        return FolderChanges(list(moved), there, before, lines=lines, diffs=diffs)

    def at_start(self) -> AbstractAsyncContextManager[at_start.AtStart]:
        """Commands on the folder as it was at the start of a run; see `runtime/sandbox/at_start.py`."""
        return at_start.at_start(self)

    async def take_back(self, session: Session) -> list[str]:
        """Undo what an attempt of a loop changed, the newest first; one line a file. Raises `UsageError`."""
        async with self.turn():
            pairs = restoring.pairs_of([*newest_first(session, session.doc)], "")
            return list((await run_to_end(partial(restoring.undo_pairs, self, session.run.id, pairs))).lines)

    def has(self, tree: str, paths: Collection[str]) -> bool:
        """Whether all of these paths can be restored from a snapshot."""
        with suppress(FractalError):
            states = self.trees.states(tree, paths) if tree else {}
            return all(path in states and states[path].kept for path in paths)
        return False

    def restore(self, tree: str, paths: Collection[str], absent: Collection[str] = ()) -> None:
        """Restore these paths from a snapshot, and remove the `absent` ones."""
        states = self.trees.states(tree, paths) if paths else {}
        restoring.restore(self.trees, {**dict.fromkeys(absent), **states})

    def unkept(self, since: float) -> dict[str, list[str]]:
        """What changed since a time in folders that are left out, by their name; a folder ends in a slash.

        No command can set the time that this goes by. Who changed it is not known.
        """
        found: dict[str, list[str]] = {}
        own = {os.path.relpath(path, self.folder) for path in own_places(self.folder)}
        pending = [("", "")]
        while pending:
            inside, kind = pending.pop()
            try:
                with os.scandir(self.folder / inside) as listed:
                    entries = list(listed)
                tagged = inside and not kind and any(entry.name == CACHE_TAG for entry in entries)
            except OSError:
                continue
            if tagged:
                kind = CACHE_TAG
            for entry in entries:
                path = inside + entry.name
                if path in self._left_out or path in own or entry.name in PROTECTED:
                    continue
                of = kind or (entry.name if entry.name in SKIPPED else "")
                folder = entry.is_dir(follow_symlinks=False)
                with suppress(OSError):
                    if of and entry.stat(follow_symlinks=False).st_ctime >= since:
                        found.setdefault(of, []).append(f"{path}/" if folder else path)
                if folder:
                    pending.append((f"{path}/", of))
        return {kind: _innermost(paths) for kind, paths in sorted(found.items())}

    def _take(self) -> str:
        (self.home / "index.lock").unlink(missing_ok=True)  # of a process that died
        try:
            return self._changed_since_last()
        except (subprocess.SubprocessError, ValueError, KeyError):
            for name in ("index", "last.json"):  # may be damaged: rebuilt
                (self.home / name).unlink(missing_ok=True)
            return self._changed_since_last()

    def _changed_since_last(self) -> str:
        tree, notes = self._last()
        old_folders, young = notes.as_json(), notes.young
        put: dict[str, None] = {}
        gone: dict[str, None] = {}
        tracked, others = self.shadow.suspects() if tree is not None else ([], [""])
        others = [path for path in others if not self.leaves_out(path.rstrip("/"))]
        notes.large.clear()
        notes.young = []
        lost = self._folders_again(notes)
        for path in [*tracked, *self._other_modes(young, notes)]:
            if lost.isdisjoint(above(path)):
                self._sort_in(path, notes, put, gone, known=True)
            else:
                notes.modes.pop(path, None)
                gone[path] = None
            if path in gone and os.path.isdir(os.path.join(self.folder, path)):  # noqa: PTH112, PTH118
                others.append(f"{path}/")
        total = 0
        for path in self._within(others, notes):
            total += self._sort_in(path, notes, put, gone)
            if len(put) > FILES or total > BYTES or len(notes.large) > LARGE_FILES:
                raise _TooLarge(
                    f"{self.folder} is too large to be kept for `fractal undo` (more than {FILES} files, "
                    f"{BYTES // 10**9} GB, or {LARGE_FILES} files above {LARGEST // 10**6} MB)"
                )
        self.large = tuple(self.folder / path for path in notes.large)
        new_folders = notes.as_json()
        if tree and new_folders == old_folders and not put and not gone:
            if notes.young != young:
                self._remember(tree, notes)
            return tree
        if put or gone:
            self._remember("", notes)  # first: what git has taken in is not looked at again
            self.shadow.run("update-index", "-z", "--force-remove", "--stdin", paths=gone)
            packed = ["-c", "core.bigFileThreshold=1"] if len(put) > PACKED and self.shadow.packs() else []
            self.shadow.run(
                *packed, "update-index", "-z", "--add", "--remove", "--replace", "--stdin", paths=put
            )
        files = self.shadow.run("write-tree").decode().strip()
        tree = self.trees.store(files, new_folders)
        self._remember(tree, notes)
        return tree

    def _last(self) -> tuple[str | None, Notes]:
        """The last snapshot ("" where it was interrupted, None where there is none) and its notes."""
        try:
            stored = json.loads((self.home / "last.json").read_bytes())
            if (self.home / "index").is_file() or not stored["tree"]:
                return stored.pop("tree"), Notes(**stored)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.shadow.create()
        umask = os.umask(0o22)
        os.umask(umask)
        return None, Notes(0o666 & ~umask)

    def _remember(self, tree: str, notes: Notes) -> None:
        disk.put(self.home / "last.json", json.dumps({"tree": tree, **vars(notes)}).encode(), fsync=False)

    def leaves_out(self, path: str) -> bool:
        """Whether snapshots leave out what is at this path in the folder."""
        return path in self._left_out or os.path.basename(path) in SKIPPED  # noqa: PTH119

    def _within(self, paths: Iterable[str], notes: Notes) -> Generator[str]:
        """These files, and all in these folders ("" or with a slash at the end), except caches."""
        folders: list[str] = []
        for path in paths:
            if path and not path.endswith("/"):
                yield path
            else:
                folders.append(path)
        while folders:
            inside = folders.pop()
            try:
                with os.scandir(self.folder / inside) as found:
                    entries = list(found)
            except OSError:
                continue
            if inside and any(entry.name == CACHE_TAG for entry in entries):
                continue
            if inside:
                self._folder(inside.rstrip("/"), notes, new=True)
            for entry in entries:
                path = inside + entry.name
                if self.leaves_out(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if path.count("/") < DEEPEST:
                        folders.append(f"{path}/")
                else:
                    yield path

    def _other_modes(self, young: Iterable[str], notes: Notes) -> list[str]:
        """Of files that were young the last time, those with another mode: git compares whole seconds."""
        found: list[str] = []
        for path in young:
            with suppress(OSError):
                info = os.lstat(os.path.join(self.folder, path))  # noqa: PTH118
                if stat.S_ISREG(info.st_mode) and not notes.has(path, stat.S_IMODE(info.st_mode)):
                    found.append(path)
                elif info.st_ctime > time.time() - YOUNG:
                    notes.young.append(path)
        return found

    def _folders_again(self, notes: Notes) -> set[str]:
        """Record the modes of the folders of before; returns those that are gone, or are links now.

        What such a link leads to has files and folders of its own, which are none of this folder.
        """
        lost = set[str]()
        for path in sorted(notes.folders):  # the outer ones first
            if lost.isdisjoint(above(path)):
                self._folder(path, notes)
            else:
                del notes.folders[path]
            if path not in notes.folders:
                lost.add(path)
        return lost

    def _folder(self, path: str, notes: Notes, *, new: bool = False) -> None:
        """Record a folder's mode; the folder may have been deleted."""
        try:
            mode = os.lstat(os.path.join(self.folder, path)).st_mode  # noqa: PTH118 (20,000 of them)
        except OSError:
            mode = 0
        if stat.S_ISDIR(mode):
            notes.folders[path] = stat.S_IMODE(mode)
        elif not new:
            del notes.folders[path]

    def _sort_in(
        self, path: str, notes: Notes, put: dict[str, None], gone: dict[str, None], *, known: bool = False
    ) -> int:
        """Sort a path into additions or removals; returns the bytes to add."""
        notes.modes.pop(path, None)
        full = os.path.join(self.folder, path)  # noqa: PTH118
        try:
            info = os.lstat(full)
        except OSError:
            info = None
        ordinary = info is not None and stat.S_ISREG(info.st_mode)
        if info and ordinary and info.st_size > LARGEST:
            notes.large[path] = [info.st_mode, info.st_size, info.st_mtime_ns]
        elif info and ((ordinary and os.access(full, os.R_OK)) or stat.S_ISLNK(info.st_mode)):
            put[path] = None
            mode = stat.S_IMODE(info.st_mode)
            if ordinary and not notes.has(path, mode):
                notes.modes[path] = mode
            if info.st_ctime > time.time() - YOUNG:
                notes.young.append(path)
            return info.st_size
        if known:
            gone[path] = None
        return 0

    def _listed(self) -> str:
        notes, found = Notes(), dict[str, list[int]]()
        for path in self._within([""], notes):
            with suppress(OSError):
                info = os.lstat(os.path.join(self.folder, path))  # noqa: PTH118
                found[path] = [info.st_mode, info.st_size, info.st_mtime_ns]
            if len(found) > FILES:
                raise _TooLarge(f"{self.folder} holds more than {FILES} files: its changes are not followed")
        raw = json.dumps({**found, **{p: [FOLDER | m, 0, 0] for p, m in notes.folders.items()}}).encode()
        name = f"list-{hashlib.sha256(raw).hexdigest()[:16]}"
        disk.put(self.home / f"{name}.json", raw, mode=0o600, fsync=False)
        return name


def _innermost(paths: Iterable[str]) -> list[str]:
    """These paths in order, without the folders that have another one of them inside."""
    ordered = sorted(paths)
    return [
        path
        for path, following in zip(ordered, [*ordered[1:], ""], strict=True)
        if not (path.endswith("/") and following.startswith(path))
    ]


def _is_privileged(mode: int) -> bool:
    """Whether that is a file which runs as its owner or group, whoever starts it."""
    return stat.S_ISREG(mode) and bool(mode & disk.PRIVILEGED)


class _TooLarge(Exception):
    """The folder is too large to store."""


def _message(error: Exception) -> str:
    errors = getattr(error, "stderr", None)
    message = errors.decode("utf-8", "replace").strip() if errors else str(error)
    return message.replace("Out of diskspace", disk.FULL[0])  # git's own words for it


def newest_first(session: Session, document: Document) -> Iterator[Step]:
    """The steps of this attempt of a loop with those of the loops below them."""
    for step in sorted(document.attempted, key=lambda step: step.n, reverse=True):
        yield step
        child = session.run.store.ended(step.child) if step.share is not None else None
        if child:
            yield from newest_first(session, child)
