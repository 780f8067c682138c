"""Commands on the folder as it was at the start of a run: whether a check fails without its work.

The copy is laid out from the snapshot, beside it, and mounted at the folder's own path: absolute paths,
editable installs and caches mean the copy. What no snapshot keeps and a command needs (installed packages,
`.git`) is the folder's own, read-only. Caches are empty. Without the sandbox the command runs in the copy
where that lies.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import stat
import subprocess
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernel import disk
from kernel.document.texts import cut
from kernel.errors import FractalError
from kernel.loop.criteria import Finding
from kernel.loop.hooks import FolderChanges
from runtime import locks
from runtime.sandbox.context import OperationContext
from runtime.sandbox.inside import above, make_folder, set_mode
from runtime.sandbox.process import CommandResult, run_to_end
from runtime.sandbox.sandbox import entries_inside
from runtime.sandbox.tests_by_name import is_test
from runtime.sandbox.trees import State, is_folder
from runtime.secrets.redaction import redact
from runtime.text.outcomes import outcome
from runtime.text.terminal import neutralise

if TYPE_CHECKING:
    from runtime.sandbox.snapshot import Snapshots

FILES = 20_000
"""Most files of a folder that is copied."""
BYTES = 500_000_000
"""Most bytes of a folder that is copied."""
OUTPUT = 2_500
"""Characters of a command's output that are kept, most of them its tail."""
PLAIN = "on a plain copy, without a sandbox"
CACHES = frozenset(
    {"__pycache__", ".cache", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis"}
    | {".ipynb_checkpoints"}
)
"""Folders that are empty in the copy: what lies in them may be made of today's files."""
_CACHE_TAG = "CACHEDIR.TAG"
_INSTALLED = ("node_modules", ".venv", "venv", ".tox", ".nox")
"""Folders with installed packages, which a plain copy links to."""
_NO_TEST = re.compile(r"(?m)^ *No tests? (?:files )?found, exiting with code 1|no test target named `")
"""What jest, vitest and cargo say."""
_NAME = re.compile(r"[0-9a-f]{8}")
"""The name of a copy."""
_MODULE = re.compile(r"No module named '?([\w.]+)")


Kind = Literal["start", "tests", "now"]
"""The folder as it was at the start, the same with today's test files, or as it is now."""


@dataclass(frozen=True)
class _Copy:
    """A copy of the folder at `place`; `lent` are the paths of the folder itself that it lacks."""

    place: Path
    lent: tuple[Path, ...] = ()


@dataclass(frozen=True)
class StartTrial:
    """What a command did on the folder as it was at the start of the run.

    `ran` is False where nothing is shown by it: it was not run (`exit` is None), or its exit code tells
    nothing about the folder. `note` says why, and where it ran if that was not the sandbox; "" otherwise.
    """

    exit: int | None
    ran: bool
    output: str = ""
    note: str = ""


class AtStart:
    """Tries commands on one copy for each kind of it, which later commands find as earlier ones left it."""

    def __init__(self, snapshots: Snapshots, stack: ExitStack, files: int = FILES, size: int = BYTES) -> None:
        self._snapshots, self._stack = snapshots, stack
        self._files, self._bytes = files, size
        self._copies: dict[tuple[str, Kind, bool], _Copy | str] = {}
        self._turn = asyncio.Lock()

    async def tried(
        self, run: str, finding: Finding, context: OperationContext, since: FolderChanges
    ) -> Finding:
        """The finding with what its command says of the copies.

        One that failed is tried again where it may write: a test run may fail for its cache alone. At the
        start one of `run` is tried with today's test files: else a new test could never be shown to fail
        before. One of another kind that failed there already is no fault of this run.
        """
        command, keeps = finding.command, "run" not in finding.criterion
        if finding.after is False:
            trial = await self.try_now(run, command, context, seconds=context.timeout)
            if trial.exit is not None:
                shown = trial.ran or not trial.note
                said = f"exit {trial.exit}" if shown else trial.note
                after = (trial.ran and trial.exit == 0) if shown else None
                printed = outcome(trial.output, passed=bool(after)) if trial.ran else trial.output
                finding = replace(finding, after=after, note=f"{said}: {printed}")
        if not finding.starts:
            return finding
        trial = await self.try_at_start(run, command, context, tests=not keeps, seconds=context.timeout)
        finding = replace(finding, note=f"{finding.note}; at the start: {trial.note or f'exit {trial.exit}'}")
        if not trial.ran:
            return finding
        before = trial.exit == 0
        excused = keeps and not before and finding.after is False
        if excused and "tests" in finding.criterion:  # a test that is new failed there for want of its file
            there = since.there()
            excused = not any(is_test(path) for path in since.moved if path not in there)
        return replace(finding, before=before, after=None if excused else finding.after)

    async def try_at_start(
        self, run: str, command: str, context: OperationContext, *, tests: bool, seconds: float
    ) -> StartTrial:
        """Run a line of bash on the copy, without the network, for `seconds` at most.

        `tests`: today's test files are laid over the copy; else it is as the run found it. Nothing is raised:
        `note` says why a command was not run, or why its exit code shows nothing (`ran` is False).
        """
        return await self._try("tests" if tests else "start", run, command, context, seconds)

    async def try_now(
        self, run: str, command: str, context: OperationContext, *, seconds: float
    ) -> StartTrial:
        """The same on a copy of the folder as it is now, in which a command may write, such as its cache."""
        return await self._try("now", run, command, context, seconds)

    async def _try(
        self, kind: Kind, run: str, command: str, context: OperationContext, seconds: float
    ) -> StartTrial:
        plain = context.sandbox.mode == "off"
        try:
            async with self._turn:
                if (key := (run, kind, plain)) not in self._copies:
                    self._copies[key] = await self._laid_out(run, kind, plain)
            copy = self._copies[key]
            if isinstance(copy, str):
                return StartTrial(None, False, "", copy)
            ran = await _run(command, context, copy, plain, seconds)
        except (FractalError, OSError, subprocess.SubprocessError) as error:
            return StartTrial(None, False, "", f"could not be run: {redact(neutralise(str(error)))}")
        nothing = shows_nothing(command, ran, seconds, self._snapshots.folder)
        notes = [PLAIN] if plain else []
        output = cut(redact(ran.shown).strip(), OUTPUT, "", head=0.1)
        return StartTrial(ran.exit, not nothing, output, "; ".join([*([nothing] if nothing else []), *notes]))

    async def _laid_out(self, run: str, kind: Kind, plain: bool) -> _Copy | str:
        """A new copy, or why there is none."""
        kept = self._snapshots
        first = kept.first(run)
        if why := kept.why_not() or ("" if first else "no step could have changed the folder yet"):
            return why
        async with kept.turn():
            last = first if kind == "start" else await kept.taken(run)
            return await run_to_end(partial(self._lay_out, last if kind == "now" else first, last, plain))

    def _lay_out(self, first: str, last: str, plain: bool) -> _Copy | str:
        trees, shadow = self._snapshots.trees, self._snapshots.shadow
        then = trees.states(first)
        for path, (_, now) in trees.changes(first, last).items():
            if is_test(path):
                then.pop(path, None)
                if now:
                    then[path] = now
        then = _reachable(then)
        files = {path: each for path, each in then.items() if each.kept and not is_folder(each)}
        if why := self._too_large(files):
            return why
        sweep(self._snapshots.home)
        place = self._place()
        shadow.check_out(((each.mode, each.oid, path) for path, each in files.items()), place)
        folders = {path: each.mode for path, each in then.items() if is_folder(each)}
        for path in folders:
            make_folder(place, path)
        for path, each in files.items():
            set_mode(place, path, stat.S_IMODE(each.mode) & ~disk.PRIVILEGED)
        for path, mode in folders.items():
            set_mode(place, path, stat.S_IMODE(mode) & ~disk.PRIVILEGED | stat.S_IRWXU)
        lent: list[Path] = []
        for path in self._lent(then, folders):
            own = place / path.relative_to(self._snapshots.folder)
            if path.is_symlink():
                own.symlink_to(path.readlink())
            elif not plain:
                lent.append(path)
            elif path.name in _INSTALLED:
                own.symlink_to(path)
        return _Copy(place, tuple(lent))

    def _too_large(self, files: dict[str, State]) -> str:
        sizes = self._snapshots.trees.sizes([each.oid for each in files.values()])
        size = sum(sizes.get(each.oid, 0) for each in files.values())
        if len(files) <= self._files and size <= self._bytes:
            return ""
        return (
            f"the folder is too large to be copied as it was at the start ({len(files)} files, "
            f"{size / 1e6:.0f} MB; at most {self._files} files and {self._bytes / 1e6:.0f} MB)"
        )

    def _place(self) -> Path:
        """An empty folder beside the snapshots, which goes with this object, or with the next `sweep`."""
        base = copies(self._snapshots.home) / secrets.token_hex(4)
        handle = self._stack.enter_context(locks.lock_file(base / "lock"))
        locks.try_lock(handle)
        self._stack.callback(_remove, base)
        place = base / self._snapshots.folder.name
        place.mkdir(mode=0o755)
        return place.resolve()

    def _lent(self, then: dict[str, State], folders: Collection[str]) -> Iterator[Path]:
        """The paths of the folder that no snapshot keeps and the copy lacks, except caches."""
        folder = self._snapshots.folder
        pending = [""]
        while pending:
            inside = pending.pop()
            try:
                with os.scandir(folder / inside) as found:
                    entries = list(found)
            except OSError:
                continue
            for entry in entries:
                path = inside + entry.name
                at = folder / path
                if self._snapshots.leaves_out(path):
                    if entry.name not in CACHES:
                        yield at
                elif path in folders and entry.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")
                elif _is_lent(at, then.get(path)):
                    yield at


@asynccontextmanager
async def at_start(snapshots: Snapshots, files: int = FILES, size: int = BYTES) -> AsyncGenerator[AtStart]:
    """Commands on the start of a run; their copies are made when they are needed, and gone afterwards."""
    with ExitStack() as stack:
        yield AtStart(snapshots, stack, files, size)


def copies(home: Path) -> Path:
    """The folder of the copies, in the home of snapshots."""
    return home / "start"


def sweep(home: Path) -> list[Path]:
    """Remove the copies of dead processes, and return what is none and stays; the caller holds the turn."""
    found: list[Path] = []
    with suppress(OSError):
        found = sorted(copies(home).iterdir())
    strange = [
        base for base in found if base.is_symlink() or not base.is_dir() or not _NAME.fullmatch(base.name)
    ]
    for base in found:
        if base not in strange:
            with suppress(OSError, FractalError), locks.lock_file(base / "lock") as handle:
                if locks.try_lock(handle):
                    _remove(base)
    return strange


def shows_nothing(command: str, ran: CommandResult, seconds: float, folder: Path) -> str:
    """Why the exit code of a command says nothing about the folder; "" if it does."""
    if ran.timed_out:
        return f"stopped after {seconds:g} s"
    if ran.exit in (126, 127):
        where = " in the sandbox" if ran.mode != "off" else ""
        return f"exit {ran.exit}: a program of the command is missing or cannot be started{where}"
    if ran.exit in (4, 5) and re.search(r"\b(?:pytest|py\.test|unittest)\b", command):
        return "there is no such test" if ran.exit == 4 else "no test was collected"
    if ran.exit and _NO_TEST.search(ran.shown):
        return "there is no such test"
    missing = _MODULE.search(ran.output) if ran.exit == 1 else None
    if missing and re.search(rf"-m\s*{re.escape(missing[1])}\b", command):
        top = missing[1].partition(".")[0]  # a module of the folder itself may be what is to be made
        own = (folder / each / name for each in ("", "src") for name in (top, f"{top}.py"))
        return "" if any(each.exists() for each in own) else f"{missing[1]} is not installed"
    return ""


async def _run(
    command: str, context: OperationContext, copy: _Copy, plain: bool, seconds: float
) -> CommandResult:
    if not plain:
        return await context.run(
            command, timeout=seconds, network=False, copy=copy.place, lent=copy.lent, output_chars=20_000
        )
    folder = context.folder.resolve()
    command = re.sub(rf"{re.escape(str(folder))}(?![\w.-])", lambda _: str(copy.place), command)
    own = [each.relative_to(folder) for each in entries_inside("PYTHONPATH", folder)]
    # an editable install would import the folder itself
    path = os.pathsep.join(str(copy.place / each) for each in (*own, "src", "."))
    return await replace(context, folder=copy.place).run(
        command, timeout=seconds, network=False, env={"PYTHONPATH": path}, output_chars=20_000
    )


def _reachable(states: dict[str, State]) -> dict[str, State]:
    """The states without those below a link or a file: what is a folder then may be none today."""
    others = {path for path, each in states.items() if not is_folder(each)}
    return {path: each for path, each in states.items() if others.isdisjoint(above(path))}


def _is_lent(path: Path, then: State | None) -> bool:
    """Whether that is a file too large for snapshots, the same as then, or a folder of installed packages."""
    try:
        info = path.lstat()
    except OSError:
        return False
    if stat.S_ISDIR(info.st_mode):
        return (path / _CACHE_TAG).exists() and (path / "pyvenv.cfg").exists()
    return bool(then and not then.kept and then.oid == f"{info.st_size} {info.st_mtime_ns}")


def _remove(base: Path) -> None:
    with suppress(OSError):
        disk.remove_all(base)
