"""Children: what a parent hands down with a step (task, context, a share), and what comes back up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernel.budget import estimate_tokens
from kernel.document import ACCEPTED, Document, Meta, Note, Section, Step
from kernel.errors import DocumentError
from kernel.events import now
from kernel.offering import found_by_itself
from kernel.references import references
from kernel.screening import cut
from kernel.workspace import child_id
from kernel.world import Held

HANDED_CHARS = 1200
"""Of a needed step's result or a line of the parent's context, what a child gets; the whole is named."""
_LEVELS = ("system", "tool", "operation")


def share_of(held: Held, step: Step, children: int, asks: int = 0) -> dict[str, Any]:
    """The share on a step's line: its part of the calls, its work context, and the depth's limit."""
    already = held.below(step.link.removesuffix(".md")).calls
    calls = held.ledger.share(step.n, max(children, 1), asks, already)
    depth = held.doc.meta.depth + 1
    passed = sum(estimate_tokens(note.text) for note in _context(held, step))
    bounds = held.world.bounds
    left = int(held.doc.meta.budget.get("context", bounds.context(depth - 1)))
    left -= bounds.overhead + estimate_tokens(step.what) + passed
    context = max(min(bounds.context(depth), left), 0)
    return {"calls": calls, "context": context, "max_depth": held.max_depth}


def child_document(held: Held, step: Step) -> Document:
    """The child's first document, from its step's line and the parent's document alone."""
    parent = held.doc.meta
    depth = parent.depth + 1
    meta = Meta(
        child_of(held, step),
        parent.run,
        level=_LEVELS[min(depth, 2)],
        type=step.tool or "task",
        parent=parent.id,
        depth=depth,
        created=now(),
        folder=parent.folder,
        budget=dict(step.share or {}),
        extra={"skills": skills} if (skills := _skills_below(held, step)) else {},
    )
    filled = step.what != held.doc.planned[step.n].what  # results were put into it
    origin = "tool:results" if filled else "kernel"
    task = Note("task", step.what, origin, f"{parent.id}.md, step {step.n}")
    return Document(meta, {1: Section(notes=(task, *_context(held, step)))})


def skills_of(document: Document) -> list[str]:
    """The skills that a loop works by: its own, and those of the loops above it."""
    return [*document.meta.extra.get("skills", ()), document.meta.type]


def _skills_below(held: Held, step: Step) -> list[str]:
    tools = held.world.catalogue.tools
    known = [*skills_of(held.doc), step.tool]
    return list(dict.fromkeys(name for name in known if name in tools and tools[name].skill))


def _context(held: Held, step: Step) -> list[Note]:
    """The lines of the parent's context, and the results of the steps that this step needs."""
    notes = [
        replace(
            note,
            text=cut(note.text, HANDED_CHARS, f"{held.id}.md"),
            source=note.source if note.source.startswith("parent") else f"parent: {note.source}",
        )
        for note in held.doc.section(1).notes
        if note.key == "context" and not found_by_itself(note.source)
    ]
    inserted = references(held.doc.planned[step.n].what)  # what the task has already need not come twice
    for need in sorted(held.doc.planned[step.n].needs):
        done = held.doc.steps.get(need)
        told = need in inserted and done and done.result and done.result in step.what
        if done and done.result and not told:
            whole = done.evidence.get("whole") or done.link
            notes.append(Note("context", cut(done.result, HANDED_CHARS, whole), done.origin, f"step {need}"))
    return notes


def tried(held: Held, step: Step) -> dict[str, Any]:
    """For a parent's line: which drafts of this run a child will work by, as proof that they were tried."""
    drafts = held.world.drafts
    if drafts is None or not drafts.units():
        return {}
    tool = held.world.catalogue.tools.get(step.tool)
    by = {"tool": tool.fingerprint()} if tool and tool.draft else {}
    if phases := drafts.fingerprint("phases/"):
        by["phases"] = phases
    return {"drafts": by} if by else {}


def ended_child(held: Held, step: Step, child: Document) -> Step:
    """The parent's done entry for a child: its result, error or escalation, and what it spent."""
    meta = child.meta
    kept = {key: value for key, value in step.evidence.items() if key in ("needed", "drafts")}
    evidence: dict[str, Any] = {**kept, "status": meta.status, "spent": dict(meta.spent)}
    if meta.unverified:
        evidence["unverified"] = True
    if meta.status in ACCEPTED:
        return _with_result(held, replace(step, state="done", evidence=evidence), child.text(5, "result"))
    parts = [f"{meta.status}: {child.text(5, 'error') or child.text(5, 'escalation')}"]
    if question := child.text(5, "question"):
        evidence["question"] = question
        parts.append(f"question: {question}")
    if partial := child.text(5, "partial result"):
        parts.append(f"partial result: {partial}")
    return _with_result(held, replace(step, state="failed", evidence=evidence), "\n".join(parts))


def child_of(held: Held, step: Step) -> str:
    """The id of the child at a step."""
    level = _LEVELS[min(held.doc.meta.depth + 1, 2)]
    return child_id(held.id, held.world.run, level, step.tool or "task", step.n)


def below(held: Held, loop_id: str) -> list[str]:
    """The ids of a loop and of all below it that have documents, parents before children."""
    return [each for each in held.world.store.list() if _within(loop_id, each)]


def repeatable_below(held: Held, loop_id: str) -> bool:
    """Whether all that a child has done can simply be done again."""
    if not held.world.store.exists(loop_id):
        return True
    for each in below(held, loop_id):
        try:
            steps = held.world.store.load(each).steps
        except DocumentError:  # what it did cannot be told
            return False
        for step in steps.values():
            tool = held.world.catalogue.tools.get(step.tool)
            if step.tool and not (tool and (tool.guided or tool.repeatable(step.args or {}))):
                return False
    return True


def traces(held: Held, loop_id: str) -> tuple[bool, bool]:
    """What is known of a loop whose document is missing: whether it had asked, and whether it may have acted.

    It may have where a reply came, for it or for a loop below it, or where a document stands below it.
    """
    log = held.world.log
    asked = any(_within(loop_id, each) for each in log.loops())
    answered = any(_within(loop_id, key.partition("/")[0]) for key in log.replies)
    return asked, answered or any(_within(loop_id, each) for each in held.world.store.list())


def _within(loop_id: str, other: str) -> bool:
    """Whether `other` is a child's loop or one below it."""
    return other == loop_id or other.rpartition("-")[2].startswith(f"{loop_id.rpartition('-')[2]}.")


def _with_result(held: Held, step: Step, text: str) -> Step:
    limit = held.world.bounds.result_chars
    evidence = dict(step.evidence)
    if len(text) > limit:
        evidence["whole"] = held.world.store.shelve(f"{step.link.removesuffix('.md')}.result.txt", text)
        text = cut(text, limit, evidence["whole"])
    return replace(step, result=text, origin=f"tool:{step.tool or 'task'}", evidence=evidence)
