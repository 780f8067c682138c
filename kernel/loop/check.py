"""CHECK: judge the recorded evidence and decide: ACCEPT, RETRY or ESCALATE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from kernel.asking.conversation import by_turns, last_turn, turn_of
from kernel.asking.prompt import NOT_YET
from kernel.asking.replies import Call, Verdict
from kernel.asking.responder import Questioner, Responder
from kernel.asking.turn import TURN
from kernel.document.escaping import to_json
from kernel.document.model import Document, Note, Section, Step
from kernel.errors import DocumentError, FractalError, OperationFailed, ReplyError
from kernel.loop import criteria
from kernel.loop.approval import check_call, unapproved
from kernel.loop.ask import Gate, answers_phase, ask, current_rung, higher_rung, planner, reader
from kernel.loop.criteria import Finding, proves, reason
from kernel.loop.do import SUCCEEDED, Waiting
from kernel.loop.end import attempt_notes, clarify, escalate, finish, next_rung
from kernel.loop.operation import operate, recorded_outcome
from kernel.loop.proof import shown, unanswered
from kernel.loop.run_context import Session
from kernel.loop.step_cache import record_inputs
from kernel.tools.state_machine import moves

UNANSWERED = "nothing that is known answers it"
"""Why a run is `unanswered`."""


async def check(session: Session) -> Waiting | None:
    """Fill §4: judge the evidence. The gate is ACCEPT, RETRY or ESCALATE."""
    if session.atomic and not by_turns(session.doc) and not session.doc.note(2, "success criteria"):
        return _judge_call(session)
    session.meta(status="running", waiting=None)
    if not session.doc.note(4, "evidence"):
        since = await criteria.since_the_start(session)
        write_evidence(session, *await criteria.gather_evidence(session, since))
        record_inputs(session, "check")
        session.save()
    findings = [
        found for line in session.doc.text(4, "evidence").splitlines() if (found := Finding.read(line))
    ]
    failed = [step.n for step in _judged(session.doc) if step.state not in SUCCEEDED]
    evidence = {
        "criteria": [asdict(finding) for finding in findings],
        "failed_steps": failed,
        "changes": session.doc.text(4, "changes").splitlines(),
    }
    if _goes_on(session, findings):
        return None
    if decided := _without_call(session, findings):
        said = session.doc.note(3, "result") or session.doc.note(2, "done")
        author = said.origin if said and said.text == decided.output else "kernel"
        return await _decide(session, decided, "kernel", findings, author)
    broken = any(finding.after is False for finding in findings)
    while True:
        answer = await ask(session, "check", gate=_gate_check(session, broken), evidence=evidence)
        verdict: Verdict = answer.reply
        if verdict.look is None:
            break
        await _look(session, verdict.look)
    record_inputs(session, "check", answer.read)
    verdict = verdict.taught() if session.teaches else verdict
    return await _decide(session, verdict, answer.origin, findings)


def _judge_call(session: Session) -> None:
    """CHECK by code of a loop that is one call: it ends as the call did."""
    step = session.doc.steps[max(session.doc.steps)]
    good = step.state in SUCCEEDED
    record_inputs(session, "check")
    session.note(4, "decision", "ACCEPT" if good else "ESCALATE")
    if good:
        finish(session, "complete", result=session.whole(step))
    else:
        finish(session, "escalated", error=step.result or step.state)


def _without_call(session: Session, findings: list[Finding]) -> Verdict | None:
    """The verdict of code, where none of a model is needed; None where one is, as where oversight teaches.

    A loop is accepted if the runtime has checked every
    criterion, a command or a file with a pattern among them failed before and holds now, and no step is left
    failed.
    """
    result = session.doc.text(3, "result")
    if session.doc.note(2, "work"):
        return None  # `conclude` has left it to a model
    if _reader(session) is None or session.teaches:
        return None
    if session.run.drafts is not None and session.run.drafts.units():
        return None  # a draft of CHECK is tested by its use
    decided = all(finding.after is True and _decides(finding) for finding in findings)
    proof = any(finding.before is False and tells(finding.criterion) for finding in findings)
    if not (decided and proof) or unrepaired(session.doc, findings):
        return None
    output = result or session.doc.text(2, "done") or _last_result(session)
    return Verdict(validation="pass", decision="ACCEPT", output=output)


def judged(session: Session) -> bool:
    """Whether a model judges what code has checked: by policy, where oversight teaches, or for a draft."""
    drafts = session.run.drafts
    drafted = drafts is not None and bool(drafts.units())
    return session.run.policy.check == "always" or session.teaches or drafted


def _goes_on(session: Session, findings: list[Finding]) -> bool:
    """Go back to DO, now open; true if the loop does.

    It does if a planned step failed, a criterion does not hold, or a person has said something meanwhile. The
    next turn sees all results and what does not hold. A verdict and another plan would cost a call more.
    """
    left = unrepaired(session.doc, findings)
    unfinished = left or any(finding.after is False for finding in findings)
    responder = _reader(session)
    if session.doc.note(2, "work") or responder is None or not answers_phase(responder, TURN):
        return False
    if _own_limit(left) or _child_limit(left):
        return False
    said = session.root and session.run.inbox.hear(session)
    if not (unfinished or said):
        return False
    session.note(2, "work", session.doc.task)
    if unfinished:
        session.note(3, NOT_YET, session.doc.text(4, "evidence"))
    session.doc = session.doc.with_section(4, Section())
    session.save(phase="do")
    missing = [each.line().removeprefix("- ") for each in findings if each.after is False]
    missing += [f"step {step.n} {_how(step)}" for step in left]
    why = {"why": f"not reached yet: {'; '.join(missing)}"} if missing else {}
    session.phase_finished("check", "CONTINUE", **why)
    return True


def _reader(session: Session) -> Responder | None:
    """The rung of this attempt, if it reads prompts of whole phases and CHECK need not always ask it."""
    return reader(session) if session.run.policy.check == "auto" else None


def _decides(finding: Finding) -> bool:
    """Whether a criterion concerns the work itself, and not only what a step printed."""
    return "same" in finding.criterion or (proves(finding.criterion) and "check" not in finding.criterion)


def tells(criterion: Mapping[str, Any]) -> bool:
    """Whether a criterion says what is in the folder, and not only that something is there."""
    return proves(criterion) and ("file" not in criterion or bool(criterion.get("has")))


def _last_result(session: Session) -> str:
    """A reference to the result of the last step that succeeded; "" if none did."""
    done = [step.n for step in session.doc.attempted if step.state == "done" and step.result]
    return f"{{{{ steps[{max(done)}].result }}}}" if done else ""


def write_evidence(
    session: Session, findings: list[Finding], changed: list[str], diffs: str, doubts: Sequence[str] = ()
) -> None:
    """Write what was found after the last step into §4, with what nothing supports (`doubts`)."""
    lines = [finding.line() for finding in findings]
    lines += [
        f"- step {step.n} {step.state}: {reason(step.result or '')[:200]}"
        for step in _judged(session.doc)
        if step.state != "done"
    ]
    if (left := unrepaired(session.doc, findings)) and not criteria.proven(findings):
        steps = ", ".join(str(step.n) for step in left)
        lines.append(f"- if accepted, the run is unverified: steps failed and were not repeated ({steps})")
    lines += [f"- doubt: {each}" for each in doubts]
    session.note(4, "evidence", "\n".join(lines) or "none")
    if changed:
        session.note(4, "changes", "\n".join(changed))
    if diffs:
        session.note(4, "diff", diffs, "tool:diff")


def _gate_check(session: Session, broken: bool) -> Gate:
    looked = session.doc.note(4, "look") is not None

    async def gate(reply: Verdict) -> None:
        if reply.look is not None:
            if looked:
                raise ReplyError("there was one look already; decide")
            tool = session.catalogue.tools.get(reply.look.tool)
            if tool is None or not tool.looks(reply.look.args):
                lookers = [t.name for t in session.catalogue.tools.values() if t.looks(None)]
                raise ReplyError(
                    f"{reply.look.tool} does not only look; these do: {', '.join(sorted(lookers))}"
                )
            try:
                await check_call(session, Step(0, tool=tool.name), tool, reply.look.args)
            except OperationFailed as error:
                raise ReplyError(str(error)) from None
            if tool.states and moves(tool.states, tool.name, reply.look.args, session.doc.steps.values()):
                action = reply.look.args.get(tool.states.by)
                raise ReplyError(
                    f"{tool.name}: {action!r} would change its state, and a look changes nothing"
                )
            if any(unapproved(session.run, tool, reply.look.args)):
                raise ReplyError(f"{tool.name} needs a person's approval here; decide without it")
        elif reply.decision == "ACCEPT" and broken:
            raise ReplyError("a criterion that the runtime checked failed, so ACCEPT is not open")
        else:
            try:
                session.filled(reply.output)
            except (OperationFailed, DocumentError) as error:
                raise ReplyError(f"output: {error}") from None

    return gate


async def _look(session: Session, look: Call) -> None:
    tool = session.catalogue.get(look.tool)
    last = max([*session.doc.planned, *session.doc.steps], default=0)
    unused = last + 1000 * session.doc.meta.attempt
    step = Step(unused, "running", tool.name, look.args)
    if earlier := recorded_outcome(session, step):
        step = earlier
    else:
        session.pay(step, tool)
        step = await operate(session, step, tool, listed=False)
    session.note(
        4, "look", f"{tool.name} {to_json(dict(step.args or {}))} → {step.state}\n{step.result}", step.origin
    )
    session.save()


async def _decide(
    session: Session, verdict: Verdict, origin: str, findings: list[Finding], author: str = ""
) -> Waiting | None:
    """Record a verdict and carry it out; `author` is the origin of its output if that is another."""
    session.note(4, "validation", verdict.validation, origin)
    if verdict.issues:
        session.note(4, "issues", "\n".join(f"- {issue}" for issue in verdict.issues), origin)
    session.note(4, "decision", str(verdict.decision), origin)
    output = session.filled(verdict.output)
    accepted = verdict.decision == "ACCEPT"
    unknown = accepted and (verdict.unanswered or unanswered(session, output))
    session.phase_finished("check", "UNANSWERED" if unknown else str(verdict.decision))
    if accepted:
        accept(session, verdict, findings, output, author or origin)
        return None
    learned = Note("learned", verdict.learned or "\n".join(verdict.issues), origin)
    if limit := _own_limit(session.doc.attempted):
        finish(session, "exhausted", error=limit, partial=output)
        return None
    if verdict.decision == "RETRY":
        if _retried(session) >= session.run.bounds.retries:
            finish(
                session, "escalated", error="max retries exceeded", partial=output, question=verdict.question
            )
            return None
        _hand_up_for_retry(session)
        await _undo(session)
        session.fold("retry", learned, *attempt_notes(session))
        session.save()
        return None
    if verdict.question and session.root:
        await _undo(session)
        session.fold("escalate", learned, *attempt_notes(session))
        found = f"\n\nFound so far:\n{output}" if output else ""
        return clarify(session, verdict.question + found, origin)
    if limit := _child_limit(session.doc.attempted):
        finish(session, "exhausted", error=limit, partial=output)
        return None
    if next_rung(session) is not None:
        await _undo(session)
    reason = "\n".join(verdict.issues) or verdict.learned or "CHECK escalated"
    return escalate(session, "escalate", learned, reason=reason, partial=output, question=verdict.question)


def accept(session: Session, verdict: Verdict, findings: list[Finding], output: str, origin: str) -> None:
    """End an accepted loop.

    A reached limit is never a success. Proven work is complete, and so is a grounded answer to a question. A
    failed step decides only where nothing is proven.
    """
    left = unrepaired(session.doc, findings)
    failed = "; ".join(f"step {step.n} {_how(step)}" for step in left)
    taught = {"teaching": verdict.teaching, "grant": ", ".join(verdict.grant)} if session.teaches else {}
    if limit := _own_limit(left) or _child_limit(left):
        finish(session, "exhausted", error=limit, partial=output)
    elif verdict.unanswered or unanswered(session, output):
        finish(session, "unanswered", origin=origin, error=UNANSWERED, partial=output)
    elif verdict.unverified or not shown(session, findings, output):
        session.meta(unverified=True)
        doubts = "; ".join(verdict.issues) if verdict.unverified else ""
        why = f"accepted, although {failed}" if left else doubts
        status = "unverified" if left else "complete"
        finish(session, status, origin=origin, result=output, error=why, **taught)
    else:
        session.meta(unverified=False)
        finish(session, "complete", origin=origin, result=output, failed=failed, **taught)


def unrepaired(document: Document, findings: Sequence[Finding]) -> list[Step]:
    """The failed steps of the accepted plan that nothing repeated successfully.

    A later step repeats one if it succeeds with the same call, `what` or subtask. A criterion does if it
    failed before the plan, holds after it, and runs the same command or checks the same file. A step that a
    person struck does not count. An attempt without steps is judged by the steps of earlier attempts.
    """
    planned = [document.steps.get(n, step) for n, step in document.planned.items()]
    steps = planned or list(document.steps.values())
    proofs = [f.criterion for f in findings if f.before is False and f.after is True]
    commands = {each.get("run") for each in proofs} - {None}
    files = {each.get("file") for each in proofs} - {None}
    left: list[Step] = []
    for step in _judged(document) or ([] if _judged_turn(document) else steps):
        if not _failed(step):
            continue
        args = step.args or {}
        again = any(each.n > step.n and not _failed(each) and _same(each, step) for each in steps)
        proven = args.get("command") in commands or args.get("path") in files
        if not again and not proven:
            left.append(step)
    return left


def _judged_turn(document: Document) -> int:
    """The turn whose failed steps count; 0 where a whole plan is judged, whatever was asked before it."""
    return last_turn(document) if document.note(2, "work") else 0


def _judged(document: Document) -> list[Step]:
    """The steps of this attempt whose failure counts: in an open DO those of the last turn.

    Each earlier turn was followed by another that saw its results.
    """
    last = _judged_turn(document)
    return [document.steps.get(n, step) for n, step in document.planned.items() if turn_of(step) == last]


def _failed(step: Step) -> bool:
    """Whether a step did not do what it was planned for, or is a child that ended with such a step."""
    if step.state == "struck" and step.origin == "person":
        return False
    return step.state not in SUCCEEDED or step.evidence.get("status") == "unverified"


def _same(one: Step, other: Step) -> bool:
    if one.tool != other.tool:
        return False
    return one.what == other.what if one.what or other.what else one.args == other.args


def _how(step: Step) -> str:
    """How a step failed, in one line."""
    if step.state in SUCCEEDED:
        return "was accepted although a step of its own had failed"
    return f"{step.state}: {reason(step.result or '')[:160]}"


def _own_limit(steps: Sequence[Step]) -> str:
    """The limit that kept this loop from starting a step; "" if none did."""
    return next((step.result or "" for step in steps if step.evidence.get("limit")), "")


def _child_limit(steps: Sequence[Step]) -> str:
    """The child that reached a limit; "" if none did."""
    ended = (step for step in steps if step.evidence.get("status") == "exhausted")
    return next((f"step {step.n} {step.result}" for step in ended), "")


def _retried(session: Session) -> int:
    """The retries so far, without those of rungs that limit their attempts themselves; 0 for such a rung."""
    if isinstance(planner(session, session.doc.meta.attempt), Questioner):
        return 0
    retried = [fold.attempt for fold in session.doc.section(2).folds if fold.decision == "retry"]
    return sum(not isinstance(planner(session, attempt), Questioner) for attempt in retried)


async def _undo(session: Session) -> None:
    """Undo what code or a small model did if possible: the next attempt starts from the original files.

    A loop that ends without another attempt keeps them, since a resumed run does not repeat its steps.
    """
    rung = planner(session, session.doc.meta.attempt)
    undoes = rung.undoes if rung else ""
    snapshots = session.run.snapshots
    if not undoes or snapshots is None or snapshots.why_not():
        return
    if undoes == "series" and len(session.doc.attempted) < 2:
        return
    try:
        lines = await snapshots.take_back(session.run.id, list(_newest_first(session, session.doc)))
        for step in session.doc.attempted if lines else ():
            session.put(replace(step, evidence={**step.evidence, "undone": True}))
    except FractalError as error:
        lines = [f"the changes of the attempt stay: {error}"]
    if lines:
        session.note(4, "undone", "\n".join(lines))


def _newest_first(session: Session, document: Document) -> Iterator[Step]:
    """The steps of this attempt with those of the loops below them."""
    for step in sorted(document.attempted, key=lambda step: step.n, reverse=True):
        yield step
        child = session.run.store.ended(step.link.removesuffix(".md")) if step.share is not None else None
        if child:
            yield from _newest_first(session, child)


def _hand_up_for_retry(session: Session) -> None:
    """Give the next attempt to the next rung, unless that is a person. Code never retries itself."""
    taker = current_rung(session)
    if taker is None or isinstance(session.run.ladder.rungs[taker], Questioner):
        return
    code = not session.run.ladder.rungs[taker].reads_prompt
    higher = higher_rung(session, taker, human=code)
    if higher is not None:
        session.meta(taker=session.run.ladder.rungs[higher].name)
