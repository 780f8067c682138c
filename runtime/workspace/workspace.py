"""The paths of a workspace, its runs, and the lock of a run."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

from kernel import disk
from kernel.document.frontmatter import peek
from kernel.document.model import root_id
from kernel.errors import ConfigurationError, FractalError, RunLocked, StorageError, UsageError
from runtime import contained, locks, user_files
from runtime.workspace import ownership

_ALPHABET = (
    "23456789bcdfghjkmnpqrstvwxz"  # no vowels, no look-alikes: ids are read aloud and never spell a word
)
GLANCE = 0.2
"""Seconds to retry the lock: another process may only be checking whether it is held."""


@dataclass(frozen=True)
class Workspace:
    """A folder with `system/` (what it can do) and `state/` (what it did); tools act on `folder`."""

    folder: Path
    root: Path
    shipped: Path

    @staticmethod
    def find(folder: Path, shipped: Path) -> Workspace:
        """The workspace that `folder` belongs to; elsewhere `.fractal/`, made when a run starts.

        A `fractal.yaml` makes its folder a workspace only where there is no `.fractal/` yet: beside one it
        holds the settings of that workspace.
        """
        folder = folder.resolve()
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder")
        for place in (folder, *folder.parents):
            settings = (place / "fractal.yaml").is_file()
            system = (place / "system" / "pattern.md").is_file() and (place / "state").is_dir()
            own = system or (settings and (place / "state" / "runs").is_dir())
            if not own and (place / ".fractal" / "state").is_dir():
                return Workspace(folder, place / ".fractal", shipped)
            if own or settings:
                return Workspace(folder, place, shipped)
        return Workspace(folder, folder / ".fractal", shipped)

    @property
    def state(self) -> Path:
        """Documents of runs, memory, messages."""
        state = self.root / "state"
        return contained.keep(state, partial(ownership.may_change, state))

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.state / "runs"

    @property
    def snapshots(self) -> Path:
        """What folders held before and after the steps of runs: one repository a folder."""
        return self.state / "snapshots"

    @property
    def systems(self) -> tuple[Path, ...]:
        """The folders of instructions, the nearest first."""
        own = self.root / "system"
        return (own,) if own.resolve() == self.shipped.resolve() else (own, self.shipped)

    @property
    def protected(self) -> tuple[Path, ...]:
        """Absolute paths that no operation may write, wherever the workspace lies."""
        paths = (
            [self.root]
            if self.root.name == ".fractal"
            else [self.root / name for name in ("state", "system", "fractal.yaml")]
        )
        if self.root != self.folder:  # or it would be taken for a workspace itself
            paths.append(self.folder / "system" / "pattern.md")
        return tuple(path.resolve() for path in (*paths, *self._of_user))

    @property
    def _of_user(self) -> tuple[Path, ...]:
        """The user's own settings, servers, permissions and keys, where the folder has them below it."""
        own = user_files.user_folder().resolve()
        return (own,) if self.folder in own.parents else ()

    def has_folder(self, folder: Path) -> bool:
        """Whether runs of this workspace work in that folder: it lies in the workspace, behind no link."""
        return folder.is_relative_to(self.top) and Path(os.path.realpath(folder)) == folder

    def snapshots_home(self, folder: Path) -> Path:
        """Where a folder's snapshots are kept: named by its place in the workspace, so that they move along.

        Until 2026-11 the name came from the folder's whole path; what was kept under it is used.
        """
        folder = folder.resolve()
        earlier = self.snapshots / _digest(str(folder))
        return earlier if earlier.is_dir() else self.snapshots / _digest(os.path.relpath(folder, self.top))

    @property
    def top(self) -> Path:
        """The folder whose state this is."""
        return self.root.parent if self.root.name == ".fractal" else self.root

    @property
    def private(self) -> tuple[Path, ...]:
        """What operations and commands may not read: all of `state/`, with what is added to it later."""
        return (self.state.resolve(), *self._of_user)

    def make(self) -> None:
        """Create what is missing; `state/` is readable by its owner only."""
        try:
            if self.root.name == ".fractal" and not self.state.exists():
                self._make_gitignore(self.root)
            self.state.mkdir(parents=True, exist_ok=True)
            if self.root.name != ".fractal":
                self._make_gitignore(self.state)
            self.state.chmod(0o700)
            ownership.sign(self.state)
            self.runs.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{self.state}: cannot be written: {error.strerror}") from None

    def _make_gitignore(self, folder: Path) -> None:
        """Have git leave out all of a folder but the README that `fractal init` puts into `state/`."""
        path = folder / ".gitignore"
        for _ in range(100):  # a concurrent process that creates the workspace may remove ours
            if path.exists():
                break
            with suppress(FileNotFoundError):
                disk.put(path, b"*\n" if folder == self.root else b"*\n!/README.md\n")
        disk.sweep(folder, path.name)

    def new_run(self) -> str:
        """Claim the id of a new run by exclusive creation of its folder."""
        self.make()
        _remove_stillborn(self.runs)
        while True:
            run = "".join(secrets.choice(_ALPHABET) for _ in range(6))
            try:
                (self.runs / run).mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                raise ConfigurationError(f"{self.runs}: cannot be written: {error.strerror}") from None
            return run

    @contextmanager
    def claimed(self, run: str) -> Generator[Path]:
        """The folder of a new run, which does not stay when not even its root could be written."""
        folder = self.runs / run
        folder.mkdir(exist_ok=True)  # another process may have removed it as stillborn
        try:
            yield folder
        except BaseException:
            if not (folder / f"{root_id(run)}.md").exists():
                with suppress(OSError):
                    disk.remove_all(folder)
            raise

    def run_ids(self) -> list[str]:
        """All runs, newest first."""
        born: dict[str, float] = {}
        runs = self.runs
        for name in os.listdir(runs) if runs.is_dir() else ():  # noqa: PTH208 (thousands of them)
            with suppress(FileNotFoundError, NotADirectoryError):  # it is no run, or was archived meanwhile
                born[name] = born_and_status(f"{runs}/{name}/{root_id(name)}.md")[0]
        return sorted(born, key=born.__getitem__, reverse=True)

    def has(self, run: str) -> bool:
        """Whether that is the id of a run, without a look at the others."""
        return run.isalnum() and os.path.isfile(f"{self.runs}/{run}/{root_id(run)}.md")  # noqa: PTH113 (no error)

    def rootless(self) -> list[str]:
        """Runs that have documents, but not the root's."""
        folders = {name.partition(os.sep)[0] for name in disk.matching(self.runs, "*/*.md")}
        return sorted(folders.difference(self.run_ids()))


@cache
def _remove_stillborn(runs: Path) -> None:
    """Remove runs whose process died before it wrote a document; called once per process."""
    for folder in runs.iterdir():
        with suppress(OSError, FractalError):
            if _is_stillborn(folder) and (folder / "lock").stat().st_size:
                with run_lock(folder):  # free, and not empty: its process has ended
                    if _is_stillborn(folder):  # that process may have written its documents meanwhile
                        disk.remove_all(folder)


def _is_stillborn(folder: Path) -> bool:
    """Whether a run has a lock and no document."""
    names = {each.name for each in folder.iterdir() if each.name[0] != "."}
    return "lock" in names and names <= {"lock", "artifacts"}


def moment(text: str) -> datetime | None:
    """A time of a document; None where somebody's hand was at it."""
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return None


def born_and_status(root: str) -> tuple[float, str]:
    """When a run began, in seconds since 1970, and its status: from the head of its root, without its checks.

    Where there is no time, it is when the file was modified; where there is no status, it is `broken`.
    Raises `OSError` if there is no such file.
    """
    values = peek(root)
    time, status = moment(values.get("created", "")), values.get("status", "broken")
    if status == "complete" and values.get("unverified") == "true":
        status = "unverified"
    return (time.timestamp() if time else os.stat(root).st_mtime), status  # noqa: PTH116


def settings_files(root: Path) -> tuple[Path, ...]:
    """The files of settings of the workspace at `root`; where two name a setting, the later one holds."""
    places = (root, root.parent) if root.name == ".fractal" else (root,)
    return tuple(place / "fractal.yaml" for place in places)


@contextmanager
def run_lock(folder: Path) -> Generator[None]:
    """Hold the run for writing; the lock dies with its process. Raises `RunLocked`."""
    path, end = folder / "lock", time.monotonic() + GLANCE
    while True:
        handle = _opened(path, os.O_RDWR | os.O_CREAT)
        try:
            if not locks.try_lock(handle):
                if time.monotonic() > end:
                    raise _locked(folder.name, handle)
                time.sleep(GLANCE / 10)
            elif _is_at(path, handle):  # else it was removed, and another may hold a new one
                with suppress(OSError):  # the number is for people; the lock holds without it
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                yield
                return
        finally:
            os.close(handle)


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _locked(run: str, handle: int) -> RunLocked:
    owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
    return RunLocked(f"run {run} is held by process {owner}; wait for it, or `fractal cancel {run}`")


def _opened(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        raise UsageError(f"there is no run {path.parent.name} in {path.parent.parent}") from None
    except OSError as error:
        fix = "remove it" if path.is_dir() else "make it writable"
        raise StorageError(f"{path}: cannot be opened: {error.strerror}; {fix} and retry") from None


def is_locked(folder: Path) -> bool:
    """Whether a process is working on the run."""
    try:
        handle = _opened(folder / "lock", os.O_RDONLY)
    except UsageError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # two that only look do not see each other
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


_NAMES = {"sqlite": "brain.sqlite3", "files": "brain"}
POSTGRES = "postgres:"
"""How the setting `store` begins that names a store in PostgreSQL."""


DEFAULT = "default"
"""The agent and the space of who names none."""


def space_of(state: Path, space: str) -> Path:
    """The folder of a space's memory."""
    return state / "memory" if space == DEFAULT else state / "spaces" / space / "memory"


def state_of(memory: Path) -> Path:
    """The folder `state` that a space's memory lies in."""
    above = memory.parent
    return above.parent.parent if above.parent.name == "spaces" else above


def shipped_system() -> Path:
    """The folder of instructions: packed in the wheel, in the repository, or `FRACTAL_SYSTEM`."""
    top = Path(__file__).parent.parent
    for place in (top / "_system", top.parent / "system", Path(os.environ.get("FRACTAL_SYSTEM", "-"))):
        if (place / "pattern.md").is_file():
            return place
    raise FractalError("the instructions (system/) are missing; install again, or set FRACTAL_SYSTEM")


def brain_place(store: str, folder: Path) -> Path:
    """The file or folder of a store in `folder`; the one that lies in memory alone is never there.

    For one in PostgreSQL, the file with what this workspace is called there.
    """
    return folder / _NAMES.get(store, store.replace(":", "-") if store.startswith(POSTGRES) else "-")


def brain_exists(store: str, folder: Path) -> bool:
    """Whether there may be a store: of one in PostgreSQL only its server knows."""
    return store.startswith(POSTGRES) or brain_place(store, folder).exists()


def _digest(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
