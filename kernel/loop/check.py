"""CHECK: how a loop is judged and ends. Code decides from the evidence where it can, else a model does.

`conclude` takes an answer that a turn proposes: what does not hold is a result that the next turn sees.
`check` takes a plan whose steps have ended, and what `conclude` has left to a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from kernel.asking.conversation import by_turns, turn_of
from kernel.asking.prompt import NOT_YET
from kernel.asking.replies import Look, Verdict
from kernel.asking.responder import Questioner
from kernel.asking.turn import TURN
from kernel.document.escaping import to_json
from kernel.document.model import Note, Section, Step
from kernel.document.texts import cut, reason
from kernel.errors import DocumentError, FractalError, OperationFailed, ReplyError
from kernel.loop.approval import unapproved
from kernel.loop.ask import Gate, answers_phase, ask, current_rung, higher_rung, planner, reader
from kernel.loop.calls import check_call
from kernel.loop.criteria import Evidence, Finding, gather, proven, proves
from kernel.loop.end import attempt_notes, clarify, escalate, finish, next_rung
from kernel.loop.operation import operate, recorded_outcome
from kernel.loop.proof import doubt, judged_steps, says_nothing_known, shown, unrepaired
from kernel.loop.reuse import record_inputs
from kernel.loop.run_context import Session
from kernel.tools.state_machine import moves

CALL_FAILED = (
    "held back: a call of this turn failed, see its result. "
    "Once that does not matter, call done with no arguments: answer and checks are kept."
)
NO_ANSWER = "held back: done has no answer for the user yet"
SAID_MEANWHILE = "held back: the user has said something"
"""The result of an answer that was proposed before the user said something."""
TOLD_ONCE = "held back once: "
"""How the result begins of an answer that may be given again as it is."""
FROM_KNOWLEDGE = "answered from the model's knowledge, without a tool"
"""The approach of a loop that needed no step."""
DIFF_CHARS = 2000
"""Maximum characters of a changed file's diff in CHECK: with 600, responders read the file again."""
UNANSWERED = "nothing that is known answers it"
"""Why a run is `unanswered`."""


# ---- an answer that a turn proposes ----------------------------------------------------------------------


async def conclude(session: Session, turn: int, proposed: Note) -> bool:
    """Whether the loop has ended or goes on to CHECK; false if the next turn has to see what is missing."""
    hears = reader(session) is not None  # code and small models say the same again, from what they know
    if why := _no_answer_yet(session, turn, proposed, hears):
        return _hold_answer(session, turn, why) if hears else _not_shown(session, why, proposed.text)
    evidence = await gather(session, proposed.text)
    held = [note.text for note in session.doc.section(3).notes if note.key == NOT_YET]
    if broken := [each for each in evidence.findings if each.after is False]:
        again = sum(not text.startswith((TOLD_ONCE, CALL_FAILED, NO_ANSWER, SAID_MEANWHILE)) for text in held)
        if hears and again < session.run.bounds.held_back:
            return _hold_answer(session, turn, "held back: " + "\n".join(map(_failure, broken)))
        why = f"the answer was held back {again} times; {_failure(broken[0])[:300]}"
        return _not_shown(session, why, proposed.text)
    why = doubt(session, evidence, proposed.text)
    if why and hears and not any(text.startswith(TOLD_ONCE) for text in held):
        return _hold_answer(session, turn, f"{TOLD_ONCE}{why}")
    tests = [each for each in evidence.findings if "tests" in each.criterion]
    told = (evidence.proved.told(each.before, each.after, each.note) for each in tests)
    answer = "\n\n".join([proposed.text, *told, *evidence.proved.notes])
    if not hears:
        session.note(2, "approach", FROM_KNOWLEDGE, proposed.origin)
    session.note(3, "result", answer, proposed.origin)
    record_inputs(session, "check")
    _write(session, evidence)
    session.phase_finished("do", "")
    left = any("judge" in each.criterion and each.after is None for each in evidence.findings)
    if left or (hears and _judged_by_model(session)):
        session.save(phase="check", status="running", waiting=None)
        return True
    session.note(4, "decision", "ACCEPT")
    session.phase_finished("check", "ACCEPT")
    issues, findings = [*evidence.proved.claims], evidence.findings
    if proven(findings) and not proven([each for each in findings if each.tells]):
        issues.append("only that a file is there was checked")
    verdict = Verdict(decision="ACCEPT", issues=tuple(issues), unverified=bool(issues) or not hears)
    _accept(session, verdict, findings, answer, proposed.origin)
    return True


def _no_answer_yet(session: Session, turn: int, proposed: Note, hears: bool) -> str:
    """Why what a turn proposes is no answer yet: a call beside it failed, or it says nothing; "" if it is."""
    calls = {n: step for n, step in session.doc.planned.items() if turn_of(step) == turn}
    made = (session.doc.steps.get(n, step) for n, step in calls.items())
    if failed := next((step for step in made if not step.succeeded), None):
        return CALL_FAILED if hears else f"step {failed.n} failed"
    if not proposed.text.strip():
        return NO_ANSWER if hears else "it gives no answer"
    return ""


def _hold_answer(session: Session, turn: int, why: str) -> bool:
    """Hold an answer back: the next turn sees why."""
    session.note(3, NOT_YET, why, source=f"turn {turn}")
    session.save()
    session.phase_finished("check", "CONTINUE", turn=turn, why=why)
    return False


def _not_shown(session: Session, why: str, partial: str) -> bool:
    """Give up an answer that does not hold."""
    escalate(session, "not shown", Note("learned", why), partial=partial)
    return True


def _failure(finding: Finding) -> str:
    """A finding that does not hold, as its result for the model."""
    kind, what = next(((key, each) for key, each in finding.criterion.items() if key != "has"), ("it", ""))
    words = {"run": "check failed", "keep": "keep failed", "tests": "touched tests failed"}
    return f"{words.get(kind, f'{kind} does not hold')}: {what}\n{finding.note}"


# ---- a plan whose steps have ended, and what is left to a model ------------------------------------------


async def check(session: Session) -> None:
    """Fill §4: judge the evidence. The gate is ACCEPT, RETRY or ESCALATE."""
    if session.atomic and not by_turns(session.doc) and not session.doc.note(2, "success criteria"):
        return _judge_call(session)
    session.meta(status="running", waiting=None)
    if not session.doc.note(4, "evidence"):
        _write(session, await gather(session))
        record_inputs(session, "check")
        session.save()
    findings = [*filter(None, map(Finding.read, session.doc.text(4, "evidence").splitlines()))]
    rung = reader(session) if session.run.policy.check == "auto" else None
    if rung is not None and not session.doc.note(2, "work"):  # else `conclude` has left it to a model
        if answers_phase(rung, TURN) and _goes_on(session, findings):
            return None
        if not _judged_by_model(session) and _is_proven(session, findings):
            said = session.doc.note(2, "done")
            output = (said.text if said else "") or _last(session)
            verdict = Verdict(validation="pass", decision="ACCEPT", output=output)
            return await _decide(session, verdict, "kernel", findings, said.origin if said else "kernel")
    evidence = {
        "criteria": [asdict(finding) for finding in findings],
        "failed_steps": [step.n for step in judged_steps(session.doc) if not step.succeeded],
        "changes": session.doc.text(4, "changes").splitlines(),
    }
    broken = any(finding.after is False for finding in findings)
    while True:
        answer = await ask(session, "check", gate=_gate(session, broken), evidence=evidence)
        verdict: Verdict = answer.reply
        if verdict.look is None:
            break
        await _look(session, verdict.look)
    record_inputs(session, "check", answer.read)
    verdict = verdict.taught() if session.teaches else verdict
    return await _decide(session, verdict, answer.origin, findings)


def _judge_call(session: Session) -> None:
    """CHECK by code of a loop that is one call (`fractal tools call`): it ends as the call did."""
    step = session.doc.steps[max(session.doc.steps)]
    good = step.succeeded
    record_inputs(session, "check")
    session.note(4, "decision", "ACCEPT" if good else "ESCALATE")
    if good:
        finish(session, "complete", result=session.whole(step))
    else:
        finish(session, "escalated", error=step.result or step.state)


def _judged_by_model(session: Session) -> bool:
    """Whether a model judges what code has checked: by policy, where oversight teaches, or for a draft."""
    drafts = session.run.drafts
    drafted = drafts is not None and bool(drafts.units())
    return session.run.policy.check == "always" or session.teaches or drafted


def _is_proven(session: Session, findings: Sequence[Finding]) -> bool:
    """Whether code has checked all criteria, one failed before and holds now, and no step is left failed."""
    decided = all(
        each.after is True
        and ("same" in each.criterion or (proves(each.criterion) and "check" not in each.criterion))
        for each in findings
    )
    proof = proven([each for each in findings if each.tells])
    return decided and proof and not unrepaired(session.doc, findings)


def _last(session: Session) -> str:
    """A reference to the result of the last step that succeeded; "" if none did."""
    done = [step.n for step in session.doc.attempted if step.state == "done" and step.result]
    return f"{{{{ steps[{max(done)}].result }}}}" if done else ""


def _goes_on(session: Session, findings: Sequence[Finding]) -> bool:
    """Go back to DO, now open; true if the loop does.

    It does if a planned step failed, a criterion does not hold, or a person has said something meanwhile. The
    next turn sees all results and what does not hold. A verdict and another plan would cost a call more.
    """
    left = unrepaired(session.doc, findings)
    if _limit_reached(left):
        return False
    said = session.root and session.run.inbox.hear(session)
    missing = [each.line().removeprefix("- ") for each in findings if each.after is False]
    missing += [f"step {step.n} {_how(step)}" for step in left]
    if not (missing or said):
        return False
    session.note(2, "work", session.doc.task)
    if missing:
        session.note(3, NOT_YET, session.doc.text(4, "evidence"))
    session.doc = session.doc.with_section(4, Section())
    session.save(phase="do")
    why = {"why": f"not reached yet: {'; '.join(missing)}"} if missing else {}
    session.phase_finished("check", "CONTINUE", **why)
    return True


def _write(session: Session, evidence: Evidence) -> None:
    """Write what was found after the last step into §4, with what nothing supports."""
    findings, since = evidence.findings, evidence.since
    lines = [finding.line() for finding in findings]
    lines += [
        f"- step {step.n} {step.state}: {reason(step.result or '')[:200]}"
        for step in judged_steps(session.doc)
        if step.state != "done"
    ]
    if (left := unrepaired(session.doc, findings)) and not proven(findings):
        steps = ", ".join(str(step.n) for step in left)
        lines.append(f"- if accepted, the run is unverified: steps failed and were not repeated ({steps})")
    lines += [f"- doubt: {each}" for each in (*evidence.proved.doubts, *evidence.proved.claims)]
    session.note(4, "evidence", "\n".join(lines) or "none")
    if since and since.lines:
        session.note(4, "changes", "\n".join(since.lines))
    if since and since.diffs:
        diffs = [f"{name}\n{cut(diff, DIFF_CHARS, name)}" for name, diff in since.diffs]
        session.note(4, "diff", "\n".join(diffs), "tool:diff")


def _gate(session: Session, broken: bool) -> Gate:
    async def gate(reply: Verdict) -> None:
        if reply.look is not None:
            await _check_look(session, reply.look)
        elif reply.decision == "ACCEPT" and broken:
            raise ReplyError("a criterion that the runtime checked failed, so ACCEPT is not open")
        else:
            try:
                session.filled(reply.output)
            except (OperationFailed, DocumentError) as error:
                raise ReplyError(f"output: {error}") from None

    return gate


async def _check_look(session: Session, look: Look) -> None:
    """Raise `ReplyError` for a look that may not be taken: it changes nothing, and there is one."""
    if session.doc.note(4, "look"):
        raise ReplyError("there was one look already; decide")
    tool = session.catalogue.tools.get(look.tool)
    if tool is None or not tool.looks(look.args):
        lookers = ", ".join(
            sorted(each.name for each in session.catalogue.tools.values() if each.looks(None))
        )
        raise ReplyError(f"{look.tool} does not only look; these do: {lookers}")
    try:
        await check_call(session, Step(0, tool=tool.name), tool, look.args)
    except OperationFailed as error:
        raise ReplyError(str(error)) from None
    if tool.states and moves(tool.states, tool.name, look.args, session.doc.steps.values()):
        action = look.args.get(tool.states.by)
        raise ReplyError(f"{tool.name}: {action!r} would change its state, and a look changes nothing")
    if any(unapproved(session.run, tool, look.args)):
        raise ReplyError(f"{tool.name} needs a person's approval here; decide without it")


async def _look(session: Session, look: Look) -> None:
    tool = session.catalogue.get(look.tool)
    last = max([*session.doc.planned, *session.doc.steps], default=0)
    step = Step(last + 1000 * session.doc.meta.attempt, "running", tool.name, look.args)  # an unused number
    if earlier := recorded_outcome(session, step):
        step = earlier
    else:
        session.pay(step, tool)
        step = await operate(session, step, tool, listed=False)
    said = f"{tool.name} {to_json(dict(step.args or {}))} → {step.state}\n{step.result}"
    session.note(4, "look", said, step.origin)
    session.save()


# ---- the end ---------------------------------------------------------------------------------------------


async def _decide(
    session: Session, verdict: Verdict, origin: str, findings: Sequence[Finding], author: str = ""
) -> None:
    """Record a verdict and carry it out; `author` is the origin of its output if that is another."""
    session.note(4, "validation", verdict.validation, origin)
    if verdict.issues:
        session.note(4, "issues", "\n".join(f"- {issue}" for issue in verdict.issues), origin)
    session.note(4, "decision", str(verdict.decision), origin)
    output = session.filled(verdict.output)
    accepted = verdict.decision == "ACCEPT"
    unknown = accepted and (verdict.unanswered or says_nothing_known(session, output))
    session.phase_finished("check", "UNANSWERED" if unknown else str(verdict.decision))
    if accepted:
        _accept(session, verdict, findings, output, author or origin)
        return None
    learned = Note("learned", verdict.learned or "\n".join(verdict.issues), origin)
    retries = verdict.decision == "RETRY"
    asks = not retries and session.root and bool(verdict.question)
    if limit := _limit_reached(session.doc.attempted, children=not (retries or asks)):
        finish(session, "exhausted", error=limit, partial=output)
        return None
    if retries and _retried(session) >= session.run.bounds.retries:
        why = "max retries exceeded"
        finish(session, "escalated", error=why, partial=output, question=verdict.question)
        return None
    if retries:
        _hand_up_for_retry(session)
    if retries or asks or next_rung(session) is not None:
        await _undo(session)
    if retries or asks:
        session.fold(str(verdict.decision).lower(), learned, *attempt_notes(session))
    if retries:
        session.save()
        return None
    if asks:
        found = f"\n\nFound so far:\n{output}" if output else ""
        return clarify(session, verdict.question + found, origin)
    why = "\n".join(verdict.issues) or verdict.learned or "CHECK escalated"
    escalate(session, "escalate", learned, reason=why, partial=output, question=verdict.question)
    return None


def _accept(
    session: Session, verdict: Verdict, findings: Sequence[Finding], output: str, origin: str
) -> None:
    """End an accepted loop.

    A reached limit is never a success. Proven work is complete, and so is a grounded answer to a question. A
    failed step decides only where nothing is proven.
    """
    left = unrepaired(session.doc, findings)
    failed = "; ".join(f"step {step.n} {_how(step)}" for step in left)
    taught = {"teaching": verdict.teaching, "grant": ", ".join(verdict.grant)} if session.teaches else {}
    if limit := _limit_reached(left):
        finish(session, "exhausted", error=limit, partial=output)
    elif verdict.unanswered or says_nothing_known(session, output):
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


def _how(step: Step) -> str:
    """How a step failed, in one line."""
    if step.succeeded:
        return "was accepted although a step of its own had failed"
    return f"{step.state}: {reason(step.result or '')[:160]}"


def _limit_reached(steps: Sequence[Step], *, children: bool = True) -> str:
    """The limit that kept the loop from starting a step, or that a child has reached; "" if none did."""
    own = next((step.result or "" for step in steps if step.evidence.get("limit")), "")
    ended = (step for step in steps if children and step.evidence.get("status") == "exhausted")
    return own or next((f"step {step.n} {step.result}" for step in ended), "")


def _retried(session: Session) -> int:
    """The retries so far, without those of rungs that limit their attempts themselves; 0 for such a rung."""
    if isinstance(planner(session, session.doc.meta.attempt), Questioner):
        return 0
    retried = [fold.attempt for fold in session.doc.section(2).folds if fold.decision == "retry"]
    return sum(not isinstance(planner(session, attempt), Questioner) for attempt in retried)


def _hand_up_for_retry(session: Session) -> None:
    """Give the next attempt to the next rung, unless that is a person. Code never retries itself."""
    taker = current_rung(session)
    if taker is None or isinstance(taker, Questioner):
        return
    if higher := higher_rung(session, taker, human=not taker.reads_prompt):
        session.meta(taker=higher.name)


async def _undo(session: Session) -> None:
    """Undo what code or a small model did if possible: the next attempt starts from the original files.

    A loop that ends without another attempt keeps them, since a resumed run does not repeat its steps.
    """
    rung, snapshots = planner(session, session.doc.meta.attempt), session.run.snapshots
    undoes = rung.undoes if rung else ""
    if not undoes or snapshots is None or snapshots.why_not():
        return
    if undoes == "series" and len(session.doc.attempted) < 2:
        return
    try:
        lines = await snapshots.take_back(session)
        for step in session.doc.attempted if lines else ():
            session.put(replace(step, evidence={**step.evidence, "undone": True}))
    except FractalError as error:
        lines = [f"the changes of the attempt stay: {error}"]
    if lines:
        session.note(4, "undone", "\n".join(lines))
