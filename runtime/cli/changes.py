"""What `fractal diff` shows: files that steps changed, and documents that a person has changed."""

from __future__ import annotations

import difflib
from dataclasses import replace

from kernel.changes import Change
from kernel.document import Document
from kernel.markdown import render
from kernel.screening import shown_name
from kernel.store import FileStore


def headline(change: Change) -> str:
    """One line for a changed file."""
    return f"{change.kind} {shown_name(change.path)}"


def diff_of(change: Change) -> str:
    """The diff of a file with its two names; "" where there is no text to show."""
    if not change.diff:
        return ""
    name = shown_name(change.path)
    before, after = ("/dev/null" if change.kind == kind else name for kind in ("new", "removed"))
    return f"--- {before}\n+++ {after}\n{change.diff}"


def told_before(root: Document) -> list[str]:
    """What CHECK recorded of a run of an older version, or of one whose folder could not be kept."""
    recorded = [root.text(4, "changes"), root.text(4, "diff")]
    return [text for text in recorded if text.strip()]


def edited(store: FileStore, loop_id: str) -> str:
    """What a person changed in a document since the run left it, as a unified diff; "" where nothing."""
    left = store.left(loop_id)
    if left is None:
        return ""
    now = store.peek(loop_id)
    steps = dict(left.steps)
    for n in left.steps:
        if n not in now.steps:
            del steps[n]
        elif left.steps[n].over:  # on an open one the run itself has gone on writing
            steps[n] = now.steps[n]
    now = now.with_section(3, replace(now.section(3), steps=steps))
    before, after = (render(each, left.meta.rev).decode("utf-8").splitlines() for each in (left, now))
    names = f"{loop_id}.md (as the run left it)", f"{loop_id}.md"
    return "\n".join(difflib.unified_diff(before, after, *names, lineterm=""))
