"""Child loops: what a parent passes down with a step (task, context, share), and what the child returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernel.asking.prompt import BACKGROUND, PARENT_TASK, fact_line, found_by_itself
from kernel.asking.responder import estimate_tokens
from kernel.document.escaping import to_json
from kernel.document.model import ACCEPTED, Document, Meta, Note, Section, Step, child_id, now
from kernel.document.redaction import redact
from kernel.document.references import references
from kernel.document.texts import cut
from kernel.errors import DocumentError
from kernel.loop.budget import equal_share
from kernel.loop.run_context import Session, overseen, skills_of

HANDED_CHARS = 1200
"""Maximum characters of a result or context note passed to a child; a cut text names the whole."""
ATTEMPT_NOTES = ("steps then", "learned")
"""The notes of earlier attempts that tell what was tried."""
_LEVELS = ("system", "tool", "operation")


def share_of(session: Session, step: Step, children: int, asks: int = 0) -> dict[str, Any]:
    """The share of a step's child: its calls, its work context in tokens, and the maximum depth."""
    # also the calls already made by this child, or by an earlier one at its place
    made = session.spent_by(step.child).calls
    calls = made + equal_share(session.free_calls(), max(children, 1), asks)
    depth = session.doc.meta.depth + 1
    passed = sum(estimate_tokens(note.text) for note in _context(session, step) if note.key != BACKGROUND)
    bounds = session.run.bounds
    left = int(session.doc.meta.budget.get("context", bounds.context(depth - 1)))
    left -= bounds.overhead + estimate_tokens(step.what) + passed
    context = max(min(bounds.context(depth), left), 0)
    return {"calls": calls, "context": context, "max_depth": session.max_depth}


def child_document(session: Session, step: Step) -> Document:
    """The child's first document, derived from its step and the parent's document alone."""
    parent = session.doc.meta
    depth = parent.depth + 1
    meta = Meta(
        child_id_at(session, step),
        parent.run,
        level=_LEVELS[min(depth, 2)],
        type=session.run.hooks.guide(session.run, step),
        parent=parent.id,
        depth=depth,
        created=now(),
        folder=parent.folder,
        budget=dict(step.share or {}),
        extra=_passed_down(session, step),
    )
    filled = step.what != session.doc.planned[step.n].what
    origin = "tool:results" if filled else "kernel"  # a task with inserted results is data
    task = Note("task", step.what, origin, f"{parent.id}.md, step {step.n}")
    tried = _tried(session) if meta.extra.get("oversight") and not overseen(session.doc) else ()
    passed = [note for note in _context(session, step) if not (tried and note.source == PARENT_TASK)]
    return Document(meta, {1: Section(notes=(task, *tried, *passed))})


def _passed_down(session: Session, step: Step) -> dict[str, Any]:
    """What META hands down: skills that may apply, and whether oversight answers."""
    tools = session.catalogue.tools
    known = [*skills_of(session.doc), step.tool]
    skills = list(dict.fromkeys(name for name in known if name in tools and tools[name].skill))
    oversight = overseen(session.doc) or (step.tool in tools and tools[step.tool].oversight)
    return {**({"skills": skills} if skills else {}), **({"oversight": True} if oversight else {})}


def _tried(session: Session) -> list[Note]:
    """What oversight has to know of a loop that escalates: its task, and what it has tried."""
    document = session.doc
    task = document.note(1, "resolved task") or document.note(1, "task")
    notes = [replace(task, key="context", source="the worker's task")] if task else []
    lines = [
        note.text for fold in document.section(2).folds for note in fold.notes if note.key in ATTEMPT_NOTES
    ]
    for step in document.attempted:
        if step.ended:
            call = f"{step.tool or 'subtask'} {to_json(dict(step.args)) if step.args else step.what}"
            lines.append(f"{step.n}. {cut(call, 160, '')} → {step.state}: {cut(step.result or '', 160, '')}")
    if lines:
        text = cut("\n".join(lines), HANDED_CHARS, f"{session.id}.md")
        notes.append(Note("context", redact(text), "tool:results", "what the worker tried"))
    return notes


def _context(session: Session, step: Step) -> list[Note]:
    """The parent's context, background and guidance, and the results of the steps before this step."""
    notes = [
        replace(
            note,
            text=cut(note.text, HANDED_CHARS, f"{session.id}.md"),
            source=note.source if note.source.startswith("parent") else f"parent: {note.source}",
        )
        for note in session.doc.section(1).notes
        if note.key in ("context", BACKGROUND) and not found_by_itself(note.source)
    ]
    notes += [note for note in session.doc.section(1).notes if note.key == "guidance"]
    notes += _background(session)
    inserted = references(session.doc.planned[step.n].what)
    for need in sorted(session.doc.before(step.n)):
        done = session.doc.steps.get(need)
        if done and done.result and not (need in inserted and done.result in step.what):
            whole = done.evidence.get("whole") or done.link
            notes.append(Note("context", cut(done.result, HANDED_CHARS, whole), done.origin, f"step {need}"))
    return notes


def _background(session: Session) -> list[Note]:
    """The task of which a subtask is a part, the facts of its UNDERSTAND, and what a person has answered."""
    document, whole = session.doc, f"{session.id}.md"
    asked, answers = "", list[Note]()
    facts, whole_task = list[Note](), list[Note]()
    for note in document.section(1).notes:
        if note.key == "question":
            asked = "" if note.origin == "kernel" else f"{note.text}\n"
        elif note.key == "answer":
            answers.append(replace(note, text=f"- {asked}{note.text}"))
        elif note.key == "fact":
            facts.append(replace(note, text=fact_line(note)))
        elif note.key in ("task", "resolved task") and note.text not in [each.text for each in whole_task]:
            whole_task.append(note)
    found = (
        (BACKGROUND, PARENT_TASK, whole_task),
        (BACKGROUND, "parent: facts", facts),
        ("context", "parent: answers", answers),
    )
    return [
        Note(key, cut("\n".join(each.text for each in texts), HANDED_CHARS, whole), texts[0].origin, source)
        for key, source, texts in found
        if texts
    ]


def tasks(session: Session) -> list[str]:
    """The tasks of this loop and its ancestors, as given and as resolved."""
    documents = [session.doc]
    while (parent := documents[-1].meta.parent) and session.run.store.exists(parent):
        documents.append(session.run.store.load(parent))
    return [task for each in documents for task in (each.text(1, "task"), each.task)]


def drafts_used(session: Session, step: Step) -> dict[str, Any]:
    """The evidence of which drafts of this run a child uses, which shows that they were tried."""
    drafts = session.run.drafts
    used: Mapping[str, str] = drafts.used(session.catalogue.tools.get(step.tool)) if drafts else {}
    return {"drafts": dict(used)} if used else {}


def ended_child(session: Session, step: Step, child: Document) -> Step:
    """The parent's step for an ended child: its result, error or escalation, and its spending."""
    meta = child.meta
    kept = {key: value for key, value in step.evidence.items() if key in ("needed", "drafts")}
    evidence: dict[str, Any] = {**kept, "status": meta.status, "spent": dict(meta.spent)}
    if meta.unverified:
        evidence["unverified"] = True
    if meta.status in ACCEPTED:
        return _with_result(session, replace(step, state="done", evidence=evidence), child.text(5, "result"))
    parts = [f"{meta.status}: {child.text(5, 'error') or child.text(5, 'escalation')}"]
    if question := child.text(5, "question"):
        evidence["question"] = question
        parts.append(f"question: {question}")
    if partial := child.text(5, "partial result"):
        parts.append(f"partial result: {partial}")
    return _with_result(session, replace(step, state="failed", evidence=evidence), "\n".join(parts))


def child_id_at(session: Session, step: Step) -> str:
    """The id of the child at a step."""
    level = _LEVELS[min(session.doc.meta.depth + 1, 2)]
    return child_id(session.id, session.run.id, level, step.tool or "task", step.n)


def subtree(session: Session, loop_id: str) -> list[str]:
    """The ids of a loop and its descendants that have documents, parents before children."""
    return [each for each in session.run.store.list() if _within(loop_id, each)]


def repeatable_below(session: Session, loop_id: str) -> bool:
    """Whether everything that a child did can safely be repeated."""
    if not session.run.store.exists(loop_id):
        return True
    for each in subtree(session, loop_id):
        try:
            steps = session.run.store.load(each).steps
        except DocumentError:  # what it did is unknown
            return False
        for step in steps.values():
            tool = session.catalogue.tools.get(step.tool)
            if step.tool and not (tool and (tool.guided or tool.repeatable(step.args or {}))):
                return False
    return True


def traces(session: Session, loop_id: str) -> tuple[bool, bool]:
    """For a loop whose document is missing: whether it asked a model, and whether it may have acted.

    It may have acted if it or a descendant got a reply, or if a descendant has a document.
    """
    log = session.run.log
    asked = any(_within(loop_id, each) for each in log.loops())
    answered = any(_within(loop_id, key.partition("/")[0]) for key in log.replies)
    return asked, answered or any(_within(loop_id, each) for each in session.run.store.list())


def _within(loop_id: str, other: str) -> bool:
    """Whether `other` is the loop itself or one of its descendants."""
    return other == loop_id or other.rpartition("-")[2].startswith(f"{loop_id.rpartition('-')[2]}.")


def _with_result(session: Session, step: Step, text: str) -> Step:
    step = replace(step, origin=f"tool:{step.tool or 'task'}")
    return session.with_result(step, text, f"{step.child}.result.txt")
