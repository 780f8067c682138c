"""Runs with a folder of their own, and forks: made, applied and discarded for the API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernel.document.model import Document
from kernel.errors import FractalError, UsageError
from kernel.store.files import FileStore
from runtime.sandbox.snapshot import Snapshots
from runtime.workspace import applying, forking
from runtime.workspace.new_run import first_document
from runtime.workspace.runs import RunSummary, to_apply
from runtime.workspace.undo import acted
from runtime.workspace.workspace import run_lock
from runtime.workspace.worktrees import Worktree
from runtime.workspace.worktrees import make as make_from

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal


def make(fractal: Fractal, run: str) -> Worktree:
    """Make the worktree of a new run from the folder as it is now."""
    folder = fractal.workspace.folder
    snapshots = fractal.snapshots(folder)
    tree = _taken(snapshots, run)
    return make_from(fractal.workspace, run, folder, snapshots, tree, tree)


def _taken(snapshots: Snapshots, run: str) -> str:
    """A snapshot of the folder as it is now; raises `UsageError` where there can be none."""
    tree = ""
    if not snapshots.why_not():
        with snapshots.alone():
            tree = snapshots.take(run)
    if why := snapshots.why_not():
        raise UsageError(f"no worktree can be made: {why}")
    return tree


def _with_worktree(fractal: Fractal, run: str) -> tuple[list[Document], Worktree, FileStore]:
    documents = fractal.documents(run)
    made = Worktree.owned(fractal.workspace, documents[0])
    if not made:
        raise UsageError(
            f"run {run} has no worktree: it worked in {documents[0].meta.folder} itself; "
            f"`fractal diff {run}` shows its changes, `fractal undo {run}` reverts them"
        )
    return documents, made, FileStore(fractal.workspace.runs / run, fsync=fractal.config.fsync)


def apply(fractal: Fractal, run: str, force: bool) -> list[str]:
    """Apply what a run changed in its worktree; one line per file."""
    with run_lock(fractal.workspace.runs / run):
        (root, *_), made, store = _with_worktree(fractal, run)
        made.refuse_missing(run)
        work = made.snapshots(fractal.workspace)
        return applying.apply(fractal.snapshots(made.of), work, store, root, force=force)


def discard(fractal: Fractal, run: str, force: bool) -> None:
    """Discard the worktree of a run."""
    with run_lock(fractal.workspace.runs / run):
        documents, made, store = _with_worktree(fractal, run)
        if not force and to_apply(counted(fractal, store, documents[0]).meta):
            raise UsageError(
                f"run {run} has changes that are not applied (`fractal diff {run}`); "
                f"to remove them: fractal discard {run} --yes"
            )
        applying.discard(made.snapshots(fractal.workspace), store, documents)


def counted(fractal: Fractal, store: FileStore, root: Document) -> Document:
    """The root of a run, with the present number of its changes to apply in META."""
    made = Worktree.owned(fractal.workspace, root)
    return applying.counted(made.snapshots(fractal.workspace), store, root) if made else root


def unapplied(fractal: Fractal, run: RunSummary) -> bool:
    """Whether a run has changes in its worktree that are not applied; counts them again."""
    if run.to_apply or Path(run.folder).name != run.run:
        return bool(run.to_apply)
    try:
        with run_lock(fractal.workspace.runs / run.run):
            (root, *_), _, store = _with_worktree(fractal, run.run)
            return bool(to_apply(counted(fractal, store, root).meta))
    except FractalError:  # it is at work, or broken
        return True


def fork(fractal: Fractal, run: str, step: int | None, worktree: bool) -> str:
    """Copy a run up to a step of its root as a new one; returns its id."""
    documents = fractal.documents(run)
    root = documents[0]
    step = forking.step_to_fork(root, step)
    new = fractal.workspace.new_run()
    with fractal.workspace.claimed(new) as folder, run_lock(folder):
        made = _worktree_of_fork(fractal, documents, step, new, worktree)
        place = made.folder if made else fractal.folder_of(root)
        task = root.text(1, "task")
        document = first_document(new, task, (), place, fractal.config.bounds(), root.meta.type)
        document = document.having(extra={"worktree": made.noted} if made else {})
        forking.copy_files(fractal.workspace.runs / run, folder, run, step)
        store = FileStore(folder, fsync=fractal.config.fsync)
        for copy in reversed(forking.fork(documents, document, step)):  # the root last: it makes the run
            store.save(copy)
    return new


def _worktree_of_fork(
    fractal: Fractal, documents: list[Document], step: int, new: str, worktree: bool
) -> Worktree | None:
    """A worktree with the files as the run left them after this step; its base is how the run began."""
    root = documents[0]
    theirs = Worktree.owned(fractal.workspace, root)
    if not (theirs or worktree):
        return None
    of = theirs.of if theirs else fractal.folder_of(root)
    source = theirs.snapshots(fractal.workspace) if theirs else fractal.snapshots(of)
    first = theirs.base if theirs else source.first(root.meta.run) or _taken(source, new)
    trees = [act.step.evidence.get("tree_after") for act in acted(documents) if act.top <= step]
    then = next((tree for tree in reversed(trees) if tree), first)
    return make_from(fractal.workspace, new, of, source, first, then)
