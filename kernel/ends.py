"""How a loop ends or hands on: with §5, to the next rung, to its parent, or to a person."""

from __future__ import annotations

from kernel.asking import above, current, hand_over
from kernel.document import ACCEPTED, Note, Section, Step
from kernel.evidence import reason
from kernel.offering import FOLDER, listing
from kernel.screening import redact_forms
from kernel.steps import Waiting
from kernel.text import to_json
from kernel.world import Held


def climb(
    held: Held, decision: str, learned: Note, *, reason: str = "", partial: str = "", question: str = ""
) -> Waiting | None:
    """What this rung cannot do goes up: to the next rung with a new attempt, else to whoever asked."""
    taker = current(held)
    higher = above(held, taker, human=held.root) if taker is not None else None
    if taker is not None and higher is not None:  # rungs are few, so this ends; it is no retry
        hand_over(held, held.doc.meta.phase, taker, higher, reason or learned.text)
        held.fold(decision, learned, *what_was_done(held))
        held.save()
        return None
    finish(held, "escalated", error=reason or learned.text, partial=partial, question=question)
    return None


def finish(held: Held, status: str, *, origin: str = "kernel", **texts: str) -> None:
    """Write §5 (whose words are `origin`'s) and the end of the loop, then wake its parent."""
    accepted = status in ACCEPTED
    partial = Note("partial result", texts.get("partial", ""), origin)
    if not partial.text and not accepted:
        partial = _last_result(held)
    named = {
        "result": "result",
        "error": "error" if status != "escalated" else "escalation",
        "question": "question",
    }
    notes = [Note(named[key], text, origin) for key, text in texts.items() if key in named and text]
    if accepted and not texts.get("result"):
        notes.append(Note("result", "", origin))
    if partial.text and not accepted:
        notes.append(partial)
    held.doc = held.doc.with_section(5, Section(notes=tuple(notes)))
    held.meta(status=status, phase="output", waiting=None)
    parent = held.doc.meta.parent
    held.save(wake=(parent,) if parent else ())
    meta = held.doc.meta
    output = (texts.get("result") or "")[:200]
    held.emit("loop_finished", status=meta.word, exit=int(meta.exit), output=output, spent=meta.spent)


def _last_result(held: Held) -> Note:
    done = [step for step in held.doc.steps.values() if step.state == "done" and step.result]
    return (
        Note("partial result", done[-1].result or "", done[-1].origin) if done else Note("partial result", "")
    )


def clarify(held: Held, question: str, origin: str) -> Waiting | None:
    """CLARIFY: the root waits for a person; a child hands its question to its parent."""
    asked = sum(note.key == "question" for note in held.doc.section(1).notes)
    if not held.root:
        finish(held, "escalated", error="a question only a person can answer", question=question)
        return None
    if asked >= held.world.bounds.questions:
        why = f"{asked} questions were asked already; start a new run"
        finish(held, "escalated", error=why, question=question)
        return None
    held.note(1, "question", question, origin)
    return Waiting("person", question)


def heed_answer(held: Held) -> None:
    """Where no rung could take the task as it was said, the answer says it in other words."""
    question, answer = held.doc.note(1, "question"), held.doc.note(1, "answer")
    kernels = question is not None and question.origin == "kernel"
    if answer and kernels and held.doc.meta.phase in ("understand", "plan"):
        held.note(1, "resolved task", answer.text, answer.origin)
        held.meta(taker="", phase="understand")


def _why(step: Step) -> str:
    """Why a step went wrong, in a line: without it the next plan repeats the mistake."""
    return "" if step.state in ("done", "skipped") else f": {reason(step.result or '')[:160]}"


def _call(step: Step) -> str:
    return to_json(dict(step.args)) if step.args else step.what


def what_was_done(held: Held) -> list[Note]:
    """What a next attempt must know of this one, whole enough not to repeat it."""
    lines = [
        redact_forms(f"{step.n}. {step.tool or 'subtask'} {_call(step)}")[:160]
        + f" → {step.state}{_why(step)}"
        for step in held.attempted()
    ]
    notes = [Note("steps then", "\n".join(lines))]
    passed = [line for line in held.doc.text(4, "evidence").splitlines() if line.startswith("- pass")]
    if passed:
        notes.append(Note("passed then", "\n".join(passed)))
    if changed := held.doc.text(4, "changes"):
        notes.append(Note("files then", changed))
    if undone := held.doc.text(4, "undone"):
        notes.append(Note("undone then", undone))
    if any(note.source == FOLDER for note in held.doc.section(1).notes):
        notes.append(Note(FOLDER, listing(held.world.folder, held.world.protected)))
    return notes
