"""Whether the evidence shows that a loop did what its task demands: a change, or an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from kernel.asking.conversation import last_turn, turn_of
from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.errors import DocumentError
from kernel.loop.ask import coded, planner
from kernel.loop.calls import may_have_changed
from kernel.loop.criteria import Evidence, Finding, proven
from kernel.loop.operation import may_change
from kernel.loop.run_context import Session


def shown(session: Session, findings: Sequence[Finding], output: str) -> bool:
    """Whether an accepted loop is complete.

    Criteria on the folder show a change, unless no step could have made it. What steps returned shows the
    answer to a question.
    """
    if proven(findings):
        made = any(may_have_changed(session, step) for step in below(session, session.doc))
        return made or demanded(session) != "change"
    by_code = coded(planner(session, session.doc.meta.attempt))
    if by_code and _is_done_by_code(session.doc):
        return True
    demand = demanded(session)
    if demand == "change" or (demand == "open" and not by_code):
        return False  # a task that may be an order is not done by telling something
    return all(each.after for each in findings) and not acted(session) and grounded(session, output)


def doubt(session: Session, evidence: Evidence, answer: str) -> str:
    """What a model is told once, as nothing shows its answer; "" if something does, or nothing could."""
    if claims := evidence.proved.claims:
        return "; ".join(claims)
    if proven(evidence.findings):
        return ""
    if not acted(session):
        if demanded(session) == "change":
            return "nothing was changed, and the task asks for a change. If that is right, give done again."
        return "" if grounded(session, answer) else "; ".join(evidence.proved.doubts)
    checks = [each for each in evidence.findings if "run" in each.criterion]
    if not checks:
        return "no check shows your change; give `checks` that fail without it, or done again if none can."
    told = "; ".join(f"{each.command} ({_at_the_start(each)})" for each in checks)
    return f"no check fails without your change: {told}. Give one that does, or done again if there is none."


def _at_the_start(finding: Finding) -> str:
    """What a check said of the folder as it was at the start, or why it says nothing."""
    if finding.after is None:
        return finding.note[:300]
    if finding.before:
        return "it passes at the start, too"
    return finding.note.rpartition("at the start: ")[2] or "it was not run at the start"


def demanded(session: Session) -> Literal["look", "change", "open"]:
    """What the loop's task demands, with what people have added to it."""
    demand = session.run.hooks.demand
    added = (note.text for note in session.doc.section(1).notes if note.key in ("answer", "guidance"))
    if any(demand(text) == "change" for text in added):
        return "change"
    return demand(session.doc.text(1, "task"))


def _is_done_by_code(document: Document) -> bool:
    """Whether code made the call that is the task, word for word, or each part that it split the task into.

    A model chooses other words for its subtasks: what these show is not what the task demands.
    """
    steps = document.attempted
    if not steps or any(step.state != "done" for step in steps):
        return False
    if all(step.share is not None and not step.evidence.get("unverified") for step in steps):
        return True
    call = f"call {steps[0].tool} {to_json(dict(steps[0].args or {}))}"
    return len(steps) == 1 and document.text(1, "task") == call


def acted(session: Session) -> bool:
    """Whether a step of the loop, or of one below it, has changed files, or may have done so unseen."""
    for step in below(session, session.doc):
        tool = session.run.catalogue.tools.get(step.tool)
        if step.evidence.get("tree_before") != step.evidence.get("tree_after"):
            return True
        unseen = "tree_after" not in step.evidence and tool is not None and not tool.guided
        if tool and unseen and may_change(session, step, tool):
            return True
    return False


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


def says_nothing_known(session: Session, output: str) -> bool:
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
            if child := session.run.store.ended(step.child):
                yield from below(session, child)


def judged_steps(document: Document) -> list[Step]:
    """The steps of this attempt whose failure counts: in an open DO those of the last turn.

    Each earlier turn was followed by another that saw its results.
    """
    last = last_turn(document) if document.note(2, "work") else 0
    return [document.steps.get(n, step) for n, step in document.planned.items() if turn_of(step) == last]


def unrepaired(document: Document, findings: Sequence[Finding]) -> list[Step]:
    """The failed steps of the accepted plan that nothing repeated successfully.

    A later step repeats one if it succeeds with the same call, `what` or subtask. A criterion does if it
    failed before the plan, holds after it, and runs the same command or checks the same file. A step that a
    person struck does not count. An attempt without steps is judged by the steps of earlier attempts.
    """
    steps = document.attempted or list(document.steps.values())
    by_turns = document.note(2, "work") is not None and last_turn(document) > 0
    judged = judged_steps(document) or ([] if by_turns else steps)
    proofs = [f.criterion for f in findings if f.before is False and f.after is True]
    commands = {each.get("run") for each in proofs} - {None}
    files = {each.get("file") for each in proofs} - {None}
    left: list[Step] = []
    for step in filter(_failed, judged):
        args = step.args or {}
        again = any(each.n > step.n and not _failed(each) and _same(each, step) for each in steps)
        if not (again or args.get("command") in commands or args.get("path") in files):
            left.append(step)
    return left


def _failed(step: Step) -> bool:
    """Whether a step did not do what it was planned for, or is a child that ended with such a step."""
    if step.state == "struck" and step.origin == "person":
        return False
    return not step.succeeded or step.evidence.get("status") == "unverified"


def _same(one: Step, other: Step) -> bool:
    said = one.what == other.what if one.what or other.what else one.args == other.args
    return one.tool == other.tool and said
