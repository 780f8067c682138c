"""What a person changed in a document since the run left it, and which of these changes have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from kernel.document.frontmatter import peek
from kernel.document.model import Document, Section, Step
from kernel.store.files import FileStore

SAVED_WITHIN = 0.1
"""Seconds between the time in a document and that of its file, if nobody has edited it."""
_READ = {
    1: {"task", "resolved task", "context", "fact", "answer", "guidance", "open"},
    2: {"success criteria"},
}
"""The notes of which a change is taken up, whether or not the loop has ended."""
_INSTEAD = {
    1: "say it below a heading ### guidance in §1",
    2: "change a step or the success criteria, or say it below a heading ### guidance in §1",
    3: "§3 records what was done: change a call in §2, or the result or the state of a step in §3",
    4: "§4 records what CHECK found: change the success criteria in §2, or a result in §3",
    5: "§5 is written again, as the loop goes on: change it when the loop has ended",
}


def as_left(store: FileStore, current: Document) -> Document:
    """The document as the run left it, with what the run wrote since; `current` itself if that is unknown."""
    saved = store.left(current.meta.id)
    if saved is None:
        return current
    own = {n: step for n, step in current.steps.items() if n not in saved.steps or not saved.steps[n].ended}
    steps = {n: step for n, step in saved.steps.items() if step.ended} | own
    return saved.with_section(3, replace(saved.section(3), steps=dict(sorted(steps.items()))))


def edited_at(store: FileStore, loop_id: str, since: float = 0.0) -> float:
    """When the file was written after the document in it was saved, in seconds since 1970; 0.0: never."""
    path = store.path(loop_id)
    with suppress(OSError, ValueError):
        time = path.stat().st_mtime
        if time > since + SAVED_WITHIN:  # else its head need not be read
            saved = datetime.fromisoformat(peek(path).get("updated", "")).timestamp()
            return time if time > saved + SAVED_WITHIN else 0.0
    return 0.0


def plan_written(before: Document, now: Document) -> bool:
    """Whether a person has changed the plan's steps or its success criteria, or written a plan."""
    criteria = [each.text(2, "success criteria") for each in (before, now)]
    return bool(now.planned) and (before.planned != now.planned or criteria[0] != criteria[1])


def changed_call(before: Step, now: Step) -> bool:
    """Whether the call in an entry of §3 was changed, which only records what was called."""
    return (before.tool, before.args, before.what) != (now.tool, now.args, now.what)


def without_effect(before: Document, edited: Document, now: Document) -> Iterator[tuple[str, str]]:
    """The places of a person's changes that have no effect, each with what to do instead.

    `now` is the document that follows from the changes. Its prompts read all notes while it goes on.
    """
    for number in (4, 5) if not now.ended else (1, 2, 3, 4):  # §5 of an ended loop is its result
        was, is_ = before.section(number), edited.section(number)
        for key in sorted(_changed_notes(was, is_) - _READ.get(number, set())):
            yield f"{key!r} in §{number}", _INSTEAD[number]
        if was.folds != is_.folds:
            yield f"an earlier attempt in §{number}", _INSTEAD[number]
    for n, step in before.steps.items():
        if n in edited.steps and changed_call(step, edited.steps[n]):
            yield f"the call of step {n} in §3", _INSTEAD[3]
    if before.meta.spent != edited.meta.spent:
        yield "'spent' in META", "it is counted from the record of calls: raise a limit in the settings"


def _changed_notes(before: Section, now: Section) -> set[str]:
    """The keys of the notes that were added, changed or removed."""
    one, other = ([(note.key, note.text) for note in each.notes] for each in (before, now))
    return {key for key, _ in {*one} ^ {*other}}
