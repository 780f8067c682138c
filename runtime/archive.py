"""Taking back what a run did to files, and putting old runs away."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document import ENDED, Document, Step
from kernel.enclosure import PROTECTED
from kernel.errors import ConfigurationError, RunLocked, UsageError
from kernel.operations import file_hash
from kernel.workspace import run_lock


def undo(run_folder: Path, documents: Iterable[Document], folder: Path, step: int | None = None) -> list[str]:
    """Put back the files that a run replaced (or one step of its root, with that step's children).

    Newest first; a file that was changed since is left alone and said so. Returns one line a file.
    """
    said: list[str] = []
    for _, files in sorted(_touched(documents, step), key=lambda each: each[0], reverse=True):
        said += [_put_back(run_folder, folder, entry) for entry in reversed(files)]
    return said


def take_back(run_folder: Path, document: Document, folder: Path) -> list[str]:
    """Put back the files that the steps of a loop's present attempt replaced; one line a file."""
    said: list[str] = []
    for n in sorted(document.planned, reverse=True):
        step = document.steps.get(n)
        files = _own_files(step) if step else []
        said += [_put_back(run_folder, folder, entry) for entry in reversed(files)]
    return said


def _touched(documents: Iterable[Document], step: int | None) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """When each operation that changed files began, and its files."""
    documents = list(documents)
    began = {document.meta.id: document.meta.created for document in documents}
    for document in documents:
        for each in document.steps.values():
            top = _number(document, each.n)
            files = _own_files(each)
            if files and (step is None or top == step):
                yield began.get(each.link.removesuffix(".md"), document.meta.updated), files


def _own_files(step: Step) -> list[dict[str, Any]]:
    """The files that a step changed by itself: not what it took over from another one."""
    return [] if "same as" in step.evidence else list(step.evidence.get("touched", ()))


def _number(document: Document, n: int) -> int:
    """The number of the root's step that a step of any loop belongs to."""
    if not document.meta.parent:
        return n
    return int(document.meta.id.rpartition("-")[2].split(".")[0])


def _put_back(run_folder: Path, folder: Path, entry: dict[str, Any]) -> str:
    name = entry["path"]
    target = (folder / name).resolve()
    root = folder.resolve()
    parts = target.relative_to(root).parts if root in target.parents else (".git",)
    if ".git" in parts or parts[0] in PROTECTED:
        return f"{name}: not a file of the folder; left alone"
    present = file_hash(target)
    if present == entry["before"]:
        return f"{name}: is as it was before"
    if present != entry["after"]:
        return f"{name}: changed since; left alone"
    if not entry["before"]:
        target.unlink()
        return f"{name}: removed, as it was not there before"
    kept = run_folder / entry.get("kept", "-")
    if not kept.is_file():
        return f"{name}: what it held before was not kept; left alone"
    try:
        disk.restore(target, kept)
    except OSError as error:
        return f"{name}: cannot be written: {error.strerror}; left alone"
    return f"{name}: put back"


def put_away(
    state: Path, runs: Iterable[tuple[str, str, str]], keep_days: float, *, dry_run: bool
) -> list[str]:
    """Move runs (id, status, updated) that ended more than `keep_days` ago into `state/archive/`.

    Each becomes `<run>.tar.gz`; `tar -xzf` in `state/runs/` brings it back. Returns the ids.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    old = [run for run, status, updated in runs if status in ENDED and _time(updated) < before]
    if not dry_run:
        old = [run for run in old if _put_away(state, run)]
    return old


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _put_away(state: Path, run: str) -> bool:
    """Whether this process put the run away: another may be at it, or have done so already."""
    folder = state / "runs" / run
    archive = state / "archive"
    archive.mkdir(exist_ok=True)
    try:
        with run_lock(folder):
            whole = archive / f"{run}.tar.gz"
            part = whole.with_suffix(".part")
            if whole.exists():
                raise ConfigurationError(f"{whole} exists already; move it, then try again")
            with tarfile.open(part, "w:gz") as tar:
                tar.add(folder, run)
            with part.open("rb") as handle:
                os.fsync(handle.fileno())
            part.rename(whole)
            going = archive / f".{run}.removed"
            folder.rename(going)  # at once: who asks for the run meanwhile finds all of it or nothing
        shutil.rmtree(going)
    except (RunLocked, UsageError):
        return False
    return True
