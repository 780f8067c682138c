"""What each phase of a loop was derived from, as hashes of values in META, so that a change can be told."""

from __future__ import annotations

from typing import Any

from kernel import keeping
from kernel.document import Document
from kernel.offering import found_by_itself
from kernel.prompt import base, form, instructions
from kernel.text import fingerprint
from kernel.world import Held

_SAID = ("fact", "answer", "guidance", "open")


def derive(held: Held, phase: str, read: str = "") -> None:
    """Record the hashes of what a phase was derived from; `read`: the instructions that a model has read."""
    hashes: dict[str, Any] = {name: fingerprint(value) for name, value in _inputs(held, phase).items()}
    if read:
        hashes["instructions"] = f"{read}:{_instructions(held, read)}"
    held.meta(derived={**held.doc.meta.derived, phase: hashes})


def took_note(held: Held) -> None:
    """A plan that was made already has taken note of what was said since: it is no reason to plan anew."""
    if plan := held.doc.meta.derived.get("plan"):
        said = {"said": fingerprint(_inputs(held, "plan")["said"])}
        held.meta(derived={**held.doc.meta.derived, "plan": {**plan, **said}})


def changed(held: Held, phase: str) -> list[str]:
    """What a phase was derived from and stands otherwise now, by name; none where nothing is recorded."""
    recorded = held.doc.meta.derived.get(phase)
    if not isinstance(recorded, dict):
        return []
    found = [
        name
        for name, value in _inputs(held, phase).items()
        if name in recorded and recorded[name] != fingerprint(value)
    ]
    read, _, hashed = str(recorded.get("instructions", "")).partition(":")  # type: ignore[arg-type]
    return [*found, "instructions"] if read and hashed != _instructions(held, read) else found


def _inputs(held: Held, phase: str) -> dict[str, Any]:
    doc = held.doc
    if phase == "understand":
        return {"task": doc.text(1, "task"), "context": _notes(doc, "context")}
    if phase == "plan":
        return {"task": doc.task, "said": _notes(doc, *_SAID)}
    steps = [[step.n, step.state, keeping.product(held, step.n)] for step in held.attempted()]
    return {"criteria": doc.text(2, "success criteria"), "results": steps}


def _notes(document: Document, *keys: str) -> list[list[str]]:
    """What was said; context that the kernel offers by itself may be offered later, and is not compared."""
    notes = document.section(1).notes
    return [[note.key, note.text] for note in notes if note.key in keys and not found_by_itself(note.source)]


def _instructions(held: Held, read: str) -> str:
    catalogue = held.world.catalogue
    texts = [base(held.doc, catalogue), form(held.doc, read, catalogue)]
    return fingerprint([instructions(held.doc, read, catalogue), *texts])
