"""How a loop ends with §5, or hands over to the next rung, its parent or a person."""

from __future__ import annotations

from dataclasses import replace

from kernel.asking.lenient import lesson
from kernel.asking.prompt import FOLDER, TRIED
from kernel.document.escaping import to_json
from kernel.document.model import ACCEPTED, Note, Section, Step
from kernel.document.redaction import redact
from kernel.loop.ask import current_rung, hand_over, higher_rung
from kernel.loop.criteria import reason
from kernel.loop.do import Waiting, unanswered
from kernel.loop.run_context import Session, overseen


def escalate(
    session: Session, decision: str, learned: Note, *, reason: str = "", partial: str = "", question: str = ""
) -> Waiting | None:
    """Escalate: to the next rung with a new attempt, else to the parent or the caller."""
    taker, higher = current_rung(session), next_rung(session)
    if taker is not None and higher is not None:  # not counted as a retry: the ladder is finite
        hand_over(session, session.doc.meta.phase, taker, higher, reason or learned.text)
        session.fold(decision, learned, *attempt_notes(session))
        session.save()
        return None
    finish(session, "escalated", error=reason or learned.text, partial=partial, question=question)
    return None


def next_rung(session: Session) -> int | None:
    """The rung that gets the task when this one gives up; None if there is none."""
    taker = current_rung(session)
    return None if taker is None else higher_rung(session, taker, human=session.root)


def finish(session: Session, status: str, *, origin: str = "kernel", **texts: str) -> None:
    """Write §5 with notes of this `origin` and the final status, then wake the parent."""
    named = {
        "result": "result",
        "error": "error" if status != "escalated" else "escalation",
        "question": "question",
        "teaching": "teaching",
        "grant": "grant",
        "failed": "failed steps",
    }
    notes = [Note(named[key], text, origin) for key, text in texts.items() if key in named and text]
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


def clarify(session: Session, question: str, origin: str) -> Waiting | None:
    """CLARIFY: the root waits for a person; a child escalates its question to its parent.

    A loop of oversight waits, too: it is an escalation already, and other work goes on meanwhile.
    """
    asked = sum(note.key == "question" for note in session.doc.section(1).notes)
    if not (session.root or overseen(session.doc)):
        finish(session, "escalated", error="a question only a person can answer", question=question)
        return None
    if open_ := unanswered(session.doc):  # it was not answered, and is asked again
        section = session.doc.section(1)
        notes = tuple(each for each in section.notes if each is not open_)
        session.doc = session.doc.with_section(1, replace(section, notes=notes))
    elif asked >= session.run.bounds.questions:
        why = f"{asked} questions were asked already; start a new run"
        finish(session, "escalated", error=why, question=question)
        return None
    session.note(1, "question", question, origin)
    return Waiting("person", question)


def use_answer(session: Session) -> None:
    """Use a person's answer to what no rung accepted: as the new task, or as what oversight is asked for."""
    question, answer = session.doc.note(1, "question"), session.doc.note(1, "answer")
    kernels = question is not None and question.origin == "kernel"
    if not (answer and kernels and session.doc.meta.phase in ("understand", "plan")):
        return
    if overseen(session.doc) and not session.root:
        finish(session, "complete", origin=answer.origin, **lesson(answer.text))
    else:
        session.note(1, "resolved task", answer.text, answer.origin)
        session.meta(taker="", phase="understand")


def _failure_reason(step: Step) -> str:
    """Why a step failed, in one line, so that the next plan does not repeat the mistake."""
    return "" if step.state in ("done", "skipped") else f": {reason(step.result or '')[:160]}"


def _call(step: Step) -> str:
    return to_json(dict(step.args)) if step.args else step.what


def planned_note(session: Session) -> Note:
    """The note with the steps of a plan that was not approved, for the next attempt."""
    lines = (f"{n}. {step.tool or 'subtask'} {_call(step)}" for n, step in session.doc.planned.items())
    return Note("steps then", "\n".join(f"{redact(line)[:160]} → planned" for line in lines))


def attempt_notes(session: Session) -> list[Note]:
    """The notes for the next attempt: steps, passed criteria and changes of this one."""
    lines = [
        redact(f"{step.n}. {step.tool or 'subtask'} {_call(step)}")[:160]
        + f" → {step.state}{_failure_reason(step)}"
        for step in session.doc.attempted
    ]
    notes = [Note("steps then", "\n".join(lines))]
    passed = [line for line in session.doc.text(4, "evidence").splitlines() if line.startswith("- pass")]
    if passed:
        notes.append(Note("passed then", "\n".join(passed)))
    if tried := session.doc.text(2, "baseline"):
        notes.append(Note(TRIED, tried))
    if changed := session.doc.text(4, "changes"):
        notes.append(Note("files then", changed))
    if undone := session.doc.text(4, "undone"):
        notes.append(Note("undone then", undone))
    if any(note.source == FOLDER for note in session.doc.section(1).notes):
        notes.append(Note(FOLDER, session.run.hooks.listing(session.run)))
    return notes
