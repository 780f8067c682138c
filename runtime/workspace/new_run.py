"""What a new run begins with: its root document, with the task, its context and what went before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.document.escaping import to_json
from kernel.document.model import Document, Meta, Note, Section, Step, root_id
from kernel.document.texts import cut
from kernel.events import now
from kernel.loop.budget import Bounds
from kernel.store.files import FileStore

CONTEXT_CHARS = 12_000
"""Characters of a context file or of piped data in §1; the full text is in artifacts/."""

PRIOR = 5
"""Runs that a run is shown of those that it follows."""
EARLIER_CHARS = 1_000
"""Characters of each of them but the last."""
PLANNED_CHARS = 300
"""Characters of the arguments of a planned step of an earlier run."""


def first_document(
    run: str, task: str, context: Sequence[Note], folder: Path, bounds: Bounds, tool: str = ""
) -> Document:
    """The root document of a new run; without a `tool`, only the phase files guide its loop."""
    budget: dict[str, Any] = bounds.limit()
    budget |= {"seconds": bounds.seconds, "context": bounds.context(0), "max_depth": bounds.max_depth}
    meta = Meta(
        root_id(run),
        run,
        type=tool or "task",
        created=now(),
        updated=now(),
        folder=str(folder),
        budget=budget,
    )
    return Document(meta, {1: Section(notes=(Note("task", task, "person"), *context))})


def shelved(store: FileStore, context: Sequence[tuple[str, str]]) -> list[Note]:
    """The notes of §1 for pieces of context and their sources; the full text of a long one is a file."""
    notes: list[Note] = []
    for number, (source, text) in enumerate(context, 1):
        if len(text) > CONTEXT_CHARS:
            full = store.shelve(f"context-{number}.txt", text)
            text = cut(text, CONTEXT_CHARS, full)
        notes.append(Note("context", text, "tool:file", source))
    return notes


def prior(root: Document) -> list[Note]:
    """What an earlier run, and those that it followed up itself, say to one that follows it up."""
    notes = [note for note in root.section(1).notes if note.source.startswith("run ")]
    before = [replace(note, text=cut(note.text, EARLIER_CHARS, note.source)) for note in notes]
    plan = "" if root.ended else "".join(f"\nPlan: {step.tool} {_about(step)}" for step in root.attempted)
    text = f"Task: {root.text(1, 'task')}{plan}\nOutput: {root.text(5, 'result') or root.meta.status}"
    return [*before[1 - PRIOR :], Note("context", text, "kernel", f"run {root.meta.run}")]


def _about(step: Step) -> str:
    return step.what if step.args is None else to_json(dict(step.args))[:PLANNED_CHARS]
