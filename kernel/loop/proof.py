"""Whether the evidence shows that a loop did what its task demands: a change, or an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.errors import DocumentError
from kernel.loop.approval import may_have_changed
from kernel.loop.ask import coded, planner
from kernel.loop.criteria import Finding, proven
from kernel.loop.operation import may_change
from kernel.loop.run_context import Session


def shown(session: Session, findings: Sequence[Finding], output: str) -> bool:
    """Whether an accepted loop is complete.

    Criteria on the folder show a change, unless no step could have made it. What steps returned shows the
    answer to a question.
    """
    steps = list(below(session, session.doc))
    if proven(findings):
        made = any(may_have_changed(session, step) for step in steps)
        return made or demanded(session) != "change"
    if _parts_are_shown(session) or _is_the_call(session):
        return True
    demand = demanded(session)
    by_code = coded(planner(session, session.doc.meta.attempt))
    if demand == "change" or (demand == "open" and not by_code):
        return False  # a task that may be an order is not done by telling something
    if not all(finding.after for finding in findings):
        return False
    return not _changed(session, steps) and grounded(session, output)


def acted(session: Session) -> bool:
    """Whether a step of the loop, or of one below it, has changed files, or may have done so unseen."""
    return _changed(session, list(below(session, session.doc)))


def demanded(session: Session) -> Literal["look", "change", "open"]:
    """What the loop's task demands, with what people have added to it."""
    demand = session.run.hooks.demand
    added = (note.text for note in session.doc.section(1).notes if note.key in ("answer", "guidance"))
    if any(demand(text) == "change" for text in added):
        return "change"
    return demand(session.doc.text(1, "task"))


def _parts_are_shown(session: Session) -> bool:
    """Whether code split the task into parts, in the words of the task, and each is shown to be done.

    A model chooses other words for its subtasks: what these show is not what the task demands.
    """
    rung, parts = planner(session, session.doc.meta.attempt), session.doc.attempted
    return (
        coded(rung)
        and bool(parts)
        and all(
            step.share is not None and step.state == "done" and not step.evidence.get("unverified")
            for step in parts
        )
    )


def _is_the_call(session: Session) -> bool:
    """Whether the task is one call, word for word, and code has made it: nothing else was asked for."""
    if len(session.doc.attempted) != 1 or not coded(planner(session, session.doc.meta.attempt)):
        return False
    (step,) = session.doc.attempted
    call = f"call {step.tool} {to_json(dict(step.args or {}))}"
    return step.state == "done" and session.doc.text(1, "task") == call


def _changed(session: Session, steps: Sequence[Step]) -> bool:
    """Whether a step has changed files, or may have done so unseen."""
    return any(
        step.evidence.get("tree_before") != step.evidence.get("tree_after")
        or ("tree_after" not in step.evidence and _may_change(session, step))
        for step in steps
    )


def _may_change(session: Session, step: Step) -> bool:
    tool = session.run.catalogue.tools.get(step.tool)
    return tool is not None and not tool.guided and may_change(session, step, tool)


def grounded(session: Session, output: str) -> bool:
    """Whether an answer stands in what steps returned. What nothing supports itself supports no answer.

    A task that may be an order (`open`) needs an answer that says nothing beyond these results: it cannot
    claim a change that nobody made.
    """
    rung = planner(session, session.doc.meta.attempt)
    own = rung is None or rung.reads_prompt  # what a model says in a call, it could say without one
    seen = [
        ((step.what or to_json(dict(step.args or {}))) if own else "", session.whole(step))
        for step in session.doc.steps.values()
        if step.state == "done" and not step.evidence.get("unverified") and not _knows_nothing(step)
    ]
    return session.run.hooks.grounded(output, session.doc.text(1, "task"), seen, demanded(session) == "open")


def unanswered(session: Session, output: str) -> bool:
    """Whether the answer is the result of a step that says that nothing is known."""
    return any(
        _knows_nothing(step) and output.strip() == session.whole(step).strip()
        for step in session.doc.attempted
        if step.result is not None
    )


def _knows_nothing(step: Step) -> bool:
    return step.evidence.get("known") is False or step.evidence.get("status") == "unanswered"


def below(session: Session, document: Document) -> Iterator[Step]:
    """The steps of a loop, and of the loops below it whose documents can be read."""
    for step in document.steps.values():
        yield step
        if step.share is None:
            continue
        with suppress(DocumentError):  # the step has the child's result
            if child := session.run.store.ended(step.link.removesuffix(".md")):
                yield from below(session, child)
