"""Goes back in a loop that is done by turns: after a person's edit the later turns are asked again.

A turn has seen all that comes before it in the conversation. If a person changes something there, what the
turns after it decided no longer holds. What they did stays: the same call keeps its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernel.asking.conversation import (
    ASK,
    CHECKS,
    EDITED,
    HEARD,
    PROPOSED,
    REPLACED,
    THOUGHT,
    by_turns,
    heard_by,
    last_turn,
    said_in,
    turn_named,
    turn_of,
)
from kernel.asking.prompt import NOT_YET
from kernel.document.escaping import to_json
from kernel.document.model import Document, Note, Step
from kernel.loop.check import SAID_MEANWHILE
from runtime.secrets.redaction import redact

_CONCLUDED = ("result", "stopped")
"""The notes of §3 that the end of a loop has written."""
CRITERIA = "success criteria"
LINE = 160
"""Characters of a call in the note of what was done meanwhile."""


def decides_by_turns(document: Document) -> bool:
    """Whether the loop has been decided by turns so far, and not by a plan with whole steps alone."""
    return by_turns(document) and document.note(2, "work") is not None


def first_said(before: Document, now: Document) -> int | None:
    """The index of the first thing that people said which was changed; None if nothing was."""
    one, other = ([(note.key, note.text) for note in said_in(each)] for each in (before, now))
    if one == other:
        return None
    same = (at for at, (was, is_) in enumerate(zip(one, other, strict=False)) if was != is_)
    return next(same, min(len(one), len(other)))


def edited_turn(before: Document, now: Document) -> int | None:
    """The first turn of which a person has changed a call, a result or a text; None if they changed none."""
    turns = range(last_turn(before) + 1)
    return next((turn for turn in turns if _shown(before, turn) != _shown(now, turn)), None)


def _shown(document: Document, turn: int) -> object:
    """What a turn shows in the conversation, but for what the run itself adds to it."""
    steps = {
        n: (step.tool, step.args, step.what, *_outcome(document.steps.get(n)))
        for n, step in document.planned.items()
        if turn_of(step) == turn
    }
    notes = [
        (note.key, note.text)
        for number in (2, 3)
        for note in document.section(number).notes
        if turn and turn_named(note) == turn and note.key != EDITED
    ]
    return steps, notes


def _outcome(step: Step | None) -> tuple[object, ...]:
    return (step.state, step.result) if step else ()


def turn_that_heard(document: Document, index: int) -> int:
    """The turn after which a model was told this of what people said; 0 for the first message."""
    first, known = heard_by(document)
    if index < first:
        return 0
    notes = [note for note in document.section(3).notes if note.key == HEARD]
    before = sum(note.key != "question" for note in said_in(document)[first:index])
    if index >= known or before >= len(notes):
        return last_turn(document)
    return turn_named(notes[before])


def rewritten_turn(before: Document, now: Document) -> int | None:
    """The last turn of which a person has changed a call; None if there is none."""
    changed = {n for n, step in now.planned.items() if before.planned.get(n) != step}
    changed |= before.planned.keys() - now.planned.keys()
    steps = {**before.planned, **now.planned}
    return max((turn_of(steps[n]) for n in changed), default=None)


def with_criteria_by_person(document: Document) -> Document:
    """The document whose criteria no turn changes any more, as a person has written them."""
    section = document.section(2)
    notes = [replace(note, origin="person") if note.key == CRITERIA else note for note in section.notes]
    return document.with_section(2, replace(section, notes=tuple(notes)))


def with_what_is_said(document: Document) -> Document:
    """The document whose conversation quotes what people said as §1 has it now."""
    first, known = heard_by(document)
    texts = iter([note.text for note in said_in(document)[first:known] if note.key != "question"])
    section = document.section(3)
    notes = [replace(n, text=next(texts, n.text)) if n.key == HEARD else n for n in section.notes]
    return document.with_section(3, replace(section, notes=tuple(notes)))


def until(document: Document, turn: int, *, said: int | None = None, again: bool = False) -> Document:
    """The document without the turns after `turn`, and without how the loop ended.

    Steps of later turns that have ended stay in §3. What people said after the turn is heard anew; of what
    came right after it, all from the index `said` on. `again`: an answer of the turn is concluded again.
    """
    plan, done = document.section(2), document.section(3)
    later = {n for n, step in plan.steps.items() if turn_of(step) > turn}
    notes = [note for note in plan.notes if turn_named(note) <= turn]
    kept: list[Note] = []
    told, (first, known) = 0, heard_by(document)
    given = said_in(document)
    index = first  # of what people said
    for note in done.notes:
        if note.key == HEARD:
            while index < len(given) and given[index].key == "question":
                index += 1
            told = index + 1 if turn_named(note) <= turn and (said is None or index < said) else told
            index += 1
        gone = turn_named(note) > turn or note.key in _CONCLUDED
        gone |= (
            again
            and note.key == NOT_YET
            and turn_named(note) == turn
            and not note.text.startswith(SAID_MEANWHILE)
        )
        gone |= note.key == HEARD and told != index
        if not gone:
            kept.append(note)
    document = document.with_section(2, replace(plan, notes=tuple(notes), steps=_without(plan.steps, later)))
    open_ = {n for n in later if n in done.steps and not done.steps[n].ended}
    document = document.with_section(3, replace(done, notes=tuple(kept), steps=_without(done.steps, open_)))
    extra = {**document.meta.extra, "heard": [first, min(max(first, told), known)]}
    document = document.having(extra=extra)
    if any(
        turn_named(note) > turn
        for note in (*plan.notes, *done.notes)
        if note.key in (CHECKS, "planned checks")
    ):
        document = _with_criteria_of(document)
    return document


def _without(steps: Mapping[int, Step], gone: set[int]) -> dict[int, Step]:
    return {n: step for n, step in steps.items() if n not in gone}


def _with_criteria_of(document: Document) -> Document:
    """The document with the criteria that its turns have given, where later ones had given others."""
    replaced = any(note.key == REPLACED for note in document.section(3).notes)
    planned = "" if replaced else document.text(2, "planned checks")
    lines = "\n".join(dict.fromkeys(f"{planned}\n{document.text(3, CHECKS)}".strip().splitlines()))
    own = (CRITERIA, "baseline", "checks", *(() if replaced else ("replaced checks",)))
    section = document.section(2)
    known = document.note(2, CRITERIA)
    if known and known.origin == "person":
        return document
    notes = [note for note in section.notes if note.key not in own]
    if lines:
        notes.append(Note(CRITERIA, lines))
    return document.with_section(2, replace(section, notes=tuple(notes)))


def standing_note(steps: Mapping[int, Step], turn: int) -> Note | None:
    """What a model is told of changes that later turns have made, which stand; None if there are none."""
    lines = [
        redact(f"{n}. {step.tool or 'subtask'} {to_json(dict(step.args)) if step.args else step.what}")[:LINE]
        + f" → {step.state}"
        for n, step in sorted(steps.items())
    ]
    if not lines:
        return None
    told = "A person has changed what is shown above. What was done after it stands, and is not done again:"
    return Note(EDITED, "\n".join([told, *lines]), "kernel", f"turn {turn}")


def for_fork(document: Document, turn: int) -> Document:
    """The document up to a turn whose end is decided anew: without its answer, and without giving up."""
    document = until(document, turn)
    section = document.section(3)
    open_ = (PROPOSED, CHECKS, REPLACED, NOT_YET, EDITED)
    kept = [
        note
        for note in section.notes
        if turn_named(note) < turn or note.key in (THOUGHT, ASK, HEARD) or note.key not in open_
    ]
    return document.with_section(3, replace(section, notes=tuple(kept)))
