"""The documents of runs. Forgetting keeps them, unless a person wants them removed too."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kernel import disk
from kernel.errors import RunLocked, StorageError, UsageError
from runtime.memory.episodes import pending
from runtime.workspace.workspace import DEFAULT, run_lock

LARGEST = 20_000_000
"""Bytes up to which a file is searched."""
Predicate = Callable[[str], bool]


def runs_containing(state: Path, candidates: Iterable[str], contains: Predicate, *, words: bool) -> list[str]:
    """The runs whose documents contain it: the named ones that exist; with `words`, all that match."""
    runs = dict.fromkeys(
        run for run in candidates if (state / "runs" / run).is_dir() or _packed(state, run).is_file()
    )
    if words:
        for folder in sorted(each for each in _entries(state / "runs") if each.is_dir()):
            if folder.name not in runs and any(contains(_text(path)) for path in _files(folder)):
                runs[folder.name] = None
        for path in sorted(each for each in _entries(state / "archive") if each.name.endswith(".tar.gz")):
            run = path.name.removesuffix(".tar.gz")
            if run not in runs and any(contains(text) for text in _unpacked(path)):
                runs[run] = None
    return list(runs)


def remove(state: Path, runs: Iterable[str]) -> list[str]:
    """Remove whole runs, archived ones too; returns those that are locked by a process."""
    locked: list[str] = []
    for run in runs:
        folder = state / "runs" / run
        try:
            if folder.is_dir():
                with run_lock(folder):
                    removed = folder.with_name(f".{run}.removed")
                    folder.rename(removed)  # atomic: readers find all of it or nothing
                disk.remove_all(removed)
            with disk.writing_state(folder):
                _packed(state, run).unlink(missing_ok=True)
                for memory in (state / "memory", *(each / "memory" for each in _entries(state / "spaces"))):
                    pending.forget(memory, run)
        except (RunLocked, UsageError):
            locked.append(run)
        except OSError as error:
            raise StorageError(
                f"{folder}: cannot be removed: {error.strerror}; fix the cause and retry"
            ) from error
    return locked


def elsewhere(state: Path, contains: Predicate) -> list[Path]:
    """Files of the state outside of memory and runs that contain it: messages, notes on tools."""
    others = [each for each in _entries(state) if each.name not in ("memory", "runs", "archive", "spaces")]
    paths = (path for each in others for path in (_files(each) if each.is_dir() else [each]))
    return [path for path in sorted(paths) if path.is_file() and contains(_text(path))]


def unsearched(state: Path) -> list[Path]:
    """What there is in the state that nobody can search: compressed copies of files, and very large files."""
    snapshots = [state / "snapshots"] if _entries(state / "snapshots") else []
    large = (path for path in state.rglob("*") if path.is_file() and not path.is_symlink())
    return [*snapshots, *sorted(path for path in large if path.stat().st_size > LARGEST)]


def spaces(state: Path, memory: Path, contains: Predicate) -> list[str]:
    """The other spaces whose memory contains it; each one forgets separately."""
    others = {
        DEFAULT: state / "memory",
        **{each.name: each / "memory" for each in _entries(state / "spaces")},
    }
    return [
        name
        for name, folder in sorted(others.items())
        if folder != memory and folder.is_dir() and any(contains(_text(path)) for path in _files(folder))
    ]


def _packed(state: Path, run: str) -> Path:
    return state / "archive" / f"{run}.tar.gz"


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
            yield path


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""  # it is gone, or not readable


def _unpacked(path: Path) -> Iterator[str]:
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() and member.size <= LARGEST else None
                if file:
                    yield file.read().decode("utf-8", "replace")
    except (OSError, tarfile.TarError, EOFError):
        return  # a broken archive contains nothing readable
