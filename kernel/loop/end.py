"""How a loop ends with §5, or hands over to the next rung, its parent or a person."""

from __future__ import annotations

from collections.abc import Iterable

from kernel.asking.prompt import FOLDER, TRIED
from kernel.asking.responder import Responder
from kernel.document.escaping import to_json
from kernel.document.model import ACCEPTED, Note, Section, Step
from kernel.document.redaction import redact
from kernel.document.texts import reason
from kernel.loop.ask import current_rung, hand_over, higher_rung
from kernel.loop.budget import Waiting
from kernel.loop.do import open_question
from kernel.loop.run_context import Session, overseen


def escalate(
    session: Session, decision: str, learned: Note, *, reason: str = "", partial: str = "", question: str = ""
) -> None:
    """Escalate: to the next rung with a new attempt, else to the parent or the caller."""
    taker, higher = current_rung(session), next_rung(session)
    if taker is not None and higher is not None:  # not counted as a retry: the ladder is finite
        hand_over(session, session.doc.meta.phase, taker, higher, reason or learned.text)
        session.fold(decision, learned, *attempt_notes(session))
        session.save()
        return
    finish(session, "escalated", error=reason or learned.text, partial=partial, question=question)


def next_rung(session: Session) -> Responder | None:
    """The rung that gets the task when this one gives up; None if there is none."""
    taker = current_rung(session)
    return None if taker is None else higher_rung(session, taker, human=session.root)


def finish(session: Session, status: str, *, origin: str = "kernel", **texts: str) -> None:
    """Write §5 with notes of this `origin` and the final status, then wake the parent."""
    named = {"failed": "failed steps"} | ({"error": "escalation"} if status == "escalated" else {})
    given = {named.get(key, key): text for key, text in texts.items() if text and key != "partial"}
    notes = [Note(key, text, origin) for key, text in given.items()]
    done = [step for step in session.doc.steps.values() if step.state == "done" and step.result]
    if status in ACCEPTED:
        notes += [] if texts.get("result") else [Note("result", "", origin)]
    elif partial := texts.get("partial"):
        notes.append(Note("partial result", partial, origin))
    elif done:
        notes.append(Note("partial result", done[-1].result or "", done[-1].origin))
    session.doc = session.doc.with_section(5, Section(notes=tuple(notes)))
    parent = session.doc.meta.parent
    wake = (parent,) if parent else ()
    session.save(wake=wake, status=status, phase="output", waiting=None)
    meta = session.doc.meta
    output = (texts.get("result") or "")[:200]
    session.emit("loop_finished", status=meta.word, exit=int(meta.exit), output=output, spent=meta.spent)


def clarify(session: Session, question: str, origin: str) -> None:
    """CLARIFY: the root waits for a person; a child escalates its question to its parent. Raises `Waiting`.

    A loop of oversight waits, too: it is an escalation already, and other work goes on meanwhile.
    """
    asked = sum(note.key == "question" for note in session.doc.section(1).notes)
    if not (session.root or overseen(session.doc)):
        finish(session, "escalated", error="a question only a person can answer", question=question)
        return
    if open_ := open_question(session.doc):  # it was not answered, and is asked again
        session.leave_out(1, lambda note: note is open_)
    elif asked >= session.run.bounds.questions:
        why = f"{asked} questions were asked already; start a new run"
        finish(session, "escalated", error=why, question=question)
        return
    session.note(1, "question", question, origin)
    raise Waiting("person", question)


def steps_then(steps: Iterable[Step]) -> Note:
    """The note with these steps for the next attempt: how each ended, and why it failed."""
    lines: list[str] = []
    for step in steps:
        call = to_json(dict(step.args)) if step.args else step.what
        good = step.succeeded or step.result is None
        why = "" if good else f": {reason(step.result or '')[:160]}"
        lines.append(redact(f"{step.n}. {step.tool or 'subtask'} {call}")[:160] + f" → {step.state}{why}")
    return Note("steps then", "\n".join(lines))


def attempt_notes(session: Session) -> list[Note]:
    """The notes for the next attempt: steps, passed criteria and changes of this one."""
    document = session.doc
    evidence = document.text(4, "evidence").splitlines()
    texts = {
        "passed then": "\n".join(line for line in evidence if line.startswith("- pass")),
        TRIED: document.text(2, "baseline"),
        "files then": document.text(4, "changes"),
        "undone then": document.text(4, "undone"),
    }
    notes = [steps_then(document.attempted), *(Note(key, text) for key, text in texts.items() if text)]
    if any(note.source == FOLDER for note in document.section(1).notes):
        notes.append(Note(FOLDER, session.run.hooks.listing(session.run)))
    return notes
