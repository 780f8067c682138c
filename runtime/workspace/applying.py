"""Brings what a run changed in its worktree to the user's folder, or discards it. META records both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernel import disk
from kernel.document.model import Document
from kernel.errors import RunLocked, UsageError
from kernel.events import now
from kernel.store.files import FileStore
from runtime.sandbox.changes import Change, changes, kind_of, notable
from runtime.sandbox.merging import merge
from runtime.sandbox.restoring import no_run_may_write, put_back
from runtime.sandbox.snapshot import Snapshots
from runtime.text.shown import shown_name
from runtime.workspace.undo import APPLY, AROUND, DIFF_CHARS, acted, in_effect, undone
from runtime.workspace.worktrees import Worktree, remove


def apply(
    folder: Snapshots, work: Snapshots, store: FileStore, root: Document, *, force: bool = False
) -> list[str]:
    """Merge what the run changed since it was last applied into the user's folder; one line per file.

    What no run may write in that folder is left out, with a line that says why.

    Raises `UsageError`, with nothing written, if both sides changed the same; `force` takes the run's
    version. An apply that was cut short goes on.
    """
    entries = in_effect(root)
    begun = entries.pop() if entries and not entries[-1]["after"] else None
    if any(not each["after"] for each in undone(root)):
        raise UsageError(f"an undo was cut short; first: fractal undo {root.meta.run}")
    with folder.alone(), work.alone():
        if why := folder.why_not():
            raise UsageError(why)
        last: dict[str, Any] = begun or {"tree": work.take(root.meta.run), "force": force}
        moved = work.trees.changes(_base(root), last["tree"])
        refused = no_run_may_write(folder.folder, {path: after for path, (_, after) in moved.items()})
        shown = notable({path: each for path, each in moved.items() if path in refused})
        said = [f"{shown_name(path)}: {refused[path]}" for path in sorted(shown)]
        moved = {path: each for path, each in moved.items() if path not in refused}
        before = last.get("before") or folder.take(root.meta.run)
        found = merge(work.trees, moved, folder.trees, before, force=last["force"])
        if found.conflicts:
            lines = [f"  {shown_name(path)}: {why}" for path, why in sorted(found.conflicts.items())]
            large = {path for path, (_, theirs) in moved.items() if theirs and not theirs.kept}
            advice = _advice(root, by_force=not found.conflicts.keys() <= large)
            raise UsageError("\n".join(["nothing was applied:", *lines, advice]))

        def noted(after: str = "") -> None:
            entry = {"tree": last["tree"], "force": last["force"], "before": before, "after": after}
            _note(store, root, [*entries, {**entry, "at": now()}])

        if not moved and said:
            raise UsageError("\n".join(["nothing was applied:", *(f"  {each}" for each in said)]))
        if not moved:
            return []
        options = {"force": force, "again": bool(begun)}
        with disk.writing_state(folder.folder):
            put = put_back(folder, root.meta.run, [found.moves], begins=lambda _: noted(), **options)
        noted(put.after)
    merged = " (merged with your changes)"
    lines = notable(moved).items()
    return said + [
        f"{kind_of(each)} {shown_name(path)}{merged if path in found.merged else ''}" for path, each in lines
    ]


def _advice(root: Document, *, by_force: bool) -> str:
    run = root.meta.run
    force = f", or take the run's: fractal apply {run} --force (`fractal undo {run}` reverts it)"
    return (
        f"compare with {root.meta.folder} (`fractal diff {run}`); give the files the same content there and "
        f"here and apply again{force if by_force else ''}"
    )


def _base(root: Document) -> str:
    """The snapshot of the worktree that the user's folder has already."""
    applied = [each["tree"] for each in in_effect(root) if each["after"]]
    return applied[-1] if applied else root.meta.extra["worktree"]["base"]


def _note(store: FileStore, root: Document, entries: Sequence[dict[str, Any]]) -> None:
    """Record the applies that are in effect; an undo of earlier ones is not."""
    root = store.load(root.meta.id)
    kept = [each for each in undone(root) if each["step"] != APPLY]
    extra = {key: each for key, each in root.meta.extra.items() if key != "undone"}
    extra |= {"applied": list(entries)} | ({"undone": kept} if kept else {})
    if entries[-1]["after"]:
        extra["worktree"] = {**extra["worktree"], "changes": 0}
    store.save(root.having(extra=extra))


def counted(work: Snapshots, store: FileStore, root: Document) -> Document:
    """The root, with the present number of files in META that the run changed and that are not applied."""
    made = Worktree.of_run(root)
    if not made or made.discarded or not made.folder.is_dir():
        return root
    with work.alone():
        tree = work.take(root.meta.run)
    number = len(notable(work.trees.changes(_base(root), tree)))
    if number != made.changes:
        root = _saved(store, root, worktree=replace(made, changes=number).noted)
    return root


def _saved(store: FileStore, root: Document, **extra: Any) -> Document:
    """The root with these values in META, on disk."""
    root = store.load(root.meta.id)
    root = root.having(extra={**root.meta.extra, **extra})
    store.save(root)
    return root


def discard(work: Snapshots, store: FileStore, documents: Sequence[Document]) -> None:
    """Remove the worktree of a run; its changes can still be shown, but no longer applied."""
    with work.alone():
        last = _last_tree(work, documents)
        made = Worktree.of_run(documents[0])
        assert made is not None
        _saved(store, documents[0], worktree=replace(made, changes=0, discarded=last).noted)
        remove(made)


def _last_tree(work: Snapshots, documents: Sequence[Document]) -> str:
    """The newest snapshot of a worktree; the caller holds the turn."""
    made = Worktree.of_run(documents[0])
    assert made is not None
    if made.discarded:
        return made.discarded
    return work.take(documents[0].meta.run) if made.folder.is_dir() else _last_known(documents)


def _last_known(documents: Sequence[Document]) -> str:
    """The snapshot of a worktree after the last step that has ended."""
    trees = [each.step.evidence.get("tree_after") for each in acted(documents)]
    base = documents[0].meta.extra["worktree"]["base"]
    return next((tree for tree in reversed(trees) if tree), base)


def worktree_diffs(work: Snapshots, documents: Sequence[Document]) -> list[Change]:
    """All that a run, and whoever edited its worktree, changed there; while a command works, until then."""
    try:
        with work.alone(patience=0):
            last = _last_tree(work, documents)
    except RunLocked:
        last = _last_known(documents)
    moved = work.trees.changes(documents[0].meta.extra["worktree"]["base"], last)
    return changes(work.trees, moved, around=AROUND, most=DIFF_CHARS)
