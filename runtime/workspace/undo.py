"""What the steps of a run changed in its folder: shown, and brought back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.document.model import Document, Step
from kernel.errors import RunLocked, StorageError, UsageError, raised_as
from kernel.events import now
from kernel.store.files import FileStore
from runtime.sandbox.changes import Change, changes
from runtime.sandbox.restoring import Pair, net_changes, pairs_of, undo_pairs
from runtime.sandbox.snapshot import Snapshots
from runtime.workspace.workspace import Workspace, moment

DIFF_CHARS = 200_000
"""Of one file's diff, for a person."""
AROUND = 3
COARSE = 0.02
"""Seconds by which the times of files may be behind the clock."""
APPLY = 0
"""In the place of a step: what was undone is that the changes of a worktree were applied."""


@dataclass(frozen=True)
class Acted:
    """A step that may have changed files: when it began, the root's step and the loop that it belongs to."""

    began: str
    top: int
    step: Step
    loop: str


def acted(documents: Sequence[Document], top: int | None = None) -> list[Acted]:
    """The steps whose changes are known, the oldest first; with `top` those of that step of the root.

    An attempt that a loop has undone itself is left out, with the loops below it.
    """
    gone: set[str] = set()
    for document in documents:  # parents come first
        undone = (step for step in document.steps.values() if document.meta.id in gone or _is_undone(step))
        gone |= {step.child for step in undone if step.share is not None}
    began = {document.meta.id: document.meta.created for document in documents}
    acts = [
        Acted(
            began.get(step.child, document.meta.updated),
            document.top(step.n),
            step,
            document.meta.id,
        )
        for document in documents
        for step in document.steps.values()
        if "tree_before" in step.evidence and document.meta.id not in gone and not _is_undone(step)
    ]
    return sorted((each for each in acts if top in (None, each.top)), key=lambda each: each.began)


def _is_undone(step: Step) -> bool:
    return bool(step.evidence.get("undone"))


def _of_an_older_version(documents: Sequence[Document], top: int | None) -> Iterator[str]:
    for document in documents:
        for step in document.steps.values():
            if top in (None, document.top(step.n)):
                for each in step.evidence.get("touched", ()):
                    if "kept" in each:
                        yield f"{each['path']}: left; an older version of Fractal kept it in {each['kept']}"


def undo(
    snapshots: Snapshots,
    store: FileStore,
    documents: Sequence[Document],
    step: int | None,
    *,
    force: bool = False,
) -> list[str]:
    """Restore what a run, or one step of its root with what is below it, changed; one line per file.

    The root's document records it. Raises `UsageError` for files that were changed since.
    """
    root = documents[0]
    if why := snapshots.why_not():
        raise UsageError(why)
    if step is not None and step not in root.steps and not (step == APPLY and in_effect(root)):
        raise UsageError(f"run {root.meta.run} has no step {step}; `fractal tree {root.meta.run}` shows them")
    if step == APPLY and not all(each["after"] for each in in_effect(root)):
        raise UsageError(f"an apply was cut short; first: fractal apply {root.meta.run}")
    entries = undone(root)
    cut_short = entries.pop() if entries and not entries[-1]["after"] else None
    if cut_short and cut_short["step"] != step:
        whose = f"{root.meta.run} {cut_short['step'] or ''}".rstrip()
        raise UsageError(f"another undo was cut short; first: fractal undo {whose}")

    def noted(before: str, after: str = "") -> None:
        entry = {"step": step, "before": before, **(cut_short or {}), "at": now(), "after": after}
        _note(store, root.meta.id, [*entries, entry])

    with snapshots.alone():
        pairs = [(each["before"], each["after"]) for each in in_effect(root)]
        if step != APPLY:
            pairs = _pairs(snapshots, root.meta.run, acted(documents, step))
        restored = undo_pairs(
            snapshots, root.meta.run, pairs[::-1], force=force, again=bool(cut_short), begins=noted
        )
        if cut_short or restored.before != restored.after:
            noted(restored.before, restored.after)
    return [*restored.lines, *_of_an_older_version(documents, step)]


def redo(snapshots: Snapshots, store: FileStore, root: Document, *, force: bool = False) -> list[str]:
    """Take the last undoing of a run back."""
    entries = undone(root)
    if not entries:
        raise UsageError(f"nothing of run {root.meta.run} was undone")
    last = entries[-1]
    cut_short = not last["after"]

    def begins(_: str) -> None:
        _note(store, root.meta.id, [*entries[:-1], {**last, "after": ""}])

    with snapshots.alone():
        after = last["after"] or snapshots.take(root.meta.run)
        pairs = [(last["before"], after)]
        restored = undo_pairs(snapshots, root.meta.run, pairs, force=force, again=cut_short, begins=begins)
    _note(store, root.meta.id, entries[:-1])
    return list(restored.lines)


def undone(root: Document) -> list[dict[str, Any]]:
    """What was undone of a run: when, of which step (None: of all), the folder before and after.

    `after` is "" for an interrupted undo.
    """
    return list(root.meta.extra.get("undone", ()))


def in_effect(root: Document) -> list[dict[str, Any]]:
    """The applies of a run that were not undone. `after` is "" for an interrupted one."""
    taken_back = any(each["step"] == APPLY and each["after"] for each in undone(root))
    return [] if taken_back else list(root.meta.extra.get("applied", ()))


def undone_steps(root: Document) -> set[int]:
    """The steps of the root that were undone, by a person or by the loop itself."""
    entries = undone(root)
    every = any(each["step"] is None for each in entries)
    named = [each["step"] for each in entries]
    return {n for n, step in root.steps.items() if every or n in named or _is_undone(step)}


def _note(store: FileStore, loop_id: str, entries: list[dict[str, Any]]) -> None:
    root = store.load(loop_id)
    extra = {key: value for key, value in root.meta.extra.items() if key != "undone"}
    store.save(root.having(extra=extra | ({"undone": entries} if entries else {})))


def diffs(
    snapshots: Snapshots, documents: Sequence[Document], step: int | None, loop: str = ""
) -> list[Change]:
    """What a run, one step of its root with what is below it, or an operation of a `loop` has changed.

    While a command works in the folder, an operation that has not ended is left out.
    """
    acts = acted(documents, None if loop else step)
    if loop:
        acts = [each for each in acts if (each.loop, each.step.n) == (loop, step)]
    ended = [each for each in acts if "tree_after" in each.step.evidence]
    pairs = pairs_of((each.step for each in ended), "")
    if len(ended) < len(acts):
        with suppress(RunLocked), snapshots.alone(patience=0):
            pairs = _pairs(snapshots, documents[0].meta.run, acts)
    if not pairs:
        return []
    return changes(snapshots.trees, net_changes(snapshots, pairs), around=AROUND, most=DIFF_CHARS)


def unkept(snapshots: Snapshots, documents: Sequence[Document], step: int | None) -> dict[str, list[str]]:
    """What changed, since a run or a step of its root began, in folders of which nothing is kept.

    Nothing is told where no document has a time that can be read.
    """
    created = {document.meta.id: document.meta.created for document in documents}
    began = [created.get(each.step.child, created[each.loop]) for each in acted(documents, step)]
    if not snapshots.folder.is_dir():
        return {}
    times = [time.timestamp() for text in began if (time := moment(text))]
    return snapshots.unkept(min(times) - COARSE) if times else {}


def _pairs(snapshots: Snapshots, run: str, acts: Sequence[Acted]) -> list[Pair]:
    """The snapshots of these steps; the folder as it is now counts only for one that was interrupted."""
    interrupted = any("tree_after" not in each.step.evidence for each in acts)
    return pairs_of((each.step for each in acts), snapshots.take(run) if interrupted else "")


def forget(workspace: Workspace) -> None:
    """Let go of the snapshots that only runs in the archive needed."""
    for home in workspace.snapshots.glob("*/folder"):
        snapshots = Snapshots(home.parent, Path(os.fsdecode(home.read_bytes())))
        with raised_as(StorageError, str(home.parent)), snapshots.alone():
            snapshots.shadow.forget(workspace.has)
