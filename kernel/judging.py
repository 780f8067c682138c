"""CHECK: judge what the kernel recorded, and decide: ACCEPT, RETRY or ESCALATE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel import checking
from kernel.asking import above, ask, current
from kernel.atomic import judge_atomic
from kernel.checking import Finding
from kernel.derived import derive
from kernel.document import Note, Step
from kernel.ends import clarify, climb, finish, what_was_done
from kernel.errors import DocumentError, OperationFailed, ReplyError
from kernel.evidence import reason
from kernel.operate import adopted, operate
from kernel.permits import refuse, ungranted
from kernel.phases import Typed, Verdict
from kernel.references import substitute
from kernel.responder import Waits
from kernel.states import moves
from kernel.steps import Waiting
from kernel.text import to_json
from kernel.tools import Tool
from kernel.views import Views
from kernel.world import Held


async def check(held: Held) -> Waiting | None:
    """§4: judge the evidence; its gate is ACCEPT, RETRY or ESCALATE."""
    if held.atomic and not held.doc.note(2, "success criteria"):
        return judge_atomic(held)
    held.meta(status="running", waiting=None)
    if not held.doc.note(4, "evidence"):
        await _write_evidence(held)
        derive(held, "check")
        held.save()
    findings = [found for line in held.doc.text(4, "evidence").splitlines() if (found := Finding.read(line))]
    failed = [step.n for step in held.attempted() if step.state not in ("done", "skipped")]
    evidence = {
        "criteria": [finding.as_dict() for finding in findings],
        "failed_steps": failed,
        "changes": held.doc.text(4, "changes").splitlines(),
    }
    broken = any(finding.after is False for finding in findings)
    while True:
        answer = await ask(held, "check", gate=_gate_check(held, broken), evidence=evidence)
        if isinstance(answer, Waits):
            return clarify(held, answer.question, "kernel")
        verdict = answer.reply
        assert isinstance(verdict, Verdict)
        if verdict.look is None:
            break
        await _look(held, verdict)
    derive(held, "check", answer.read)
    return _decide(held, verdict, answer.origin, findings)


async def _write_evidence(held: Held) -> None:
    findings, changed, diffs = await checking.gather(held)
    lines = [finding.line() for finding in findings]
    lines += [
        f"- step {step.n} {step.state}: {reason(step.result or '')[:200]}"
        for step in held.attempted()
        if step.state != "done"
    ]
    held.note(4, "evidence", "\n".join(lines) or "none")
    if changed:
        held.note(4, "changes", "\n".join(changed))
    if diffs:
        held.note(4, "diff", diffs, "tool:diff")


def _gate_check(held: Held, broken: bool) -> Callable[[Typed], Any]:
    looked = held.doc.note(4, "look") is not None

    async def gate(reply: Typed) -> None:
        assert isinstance(reply, Verdict)
        if reply.look is not None:
            if looked:
                raise ReplyError("there was one look already; decide")
            tool = held.world.catalogue.tools.get(reply.look.tool)
            if tool is None or tool.guided or not looks(tool):
                lookers = [t.name for t in held.world.catalogue.tools.values() if t.operation and looks(t)]
                raise ReplyError(
                    f"{reply.look.tool} does not only look; these do: {', '.join(sorted(lookers))}"
                )
            try:
                await refuse(held, Step(0, tool=tool.name), tool, reply.look.args)
            except OperationFailed as error:
                raise ReplyError(str(error)) from None
            if tool.states and moves(tool.states, tool.name, reply.look.args, held.doc.steps.values()):
                action = reply.look.args.get(tool.states.by)
                raise ReplyError(
                    f"{tool.name}: {action!r} would change its state, and a look changes nothing"
                )
            if any(ungranted(held.world, tool, reply.look.args)):
                raise ReplyError(f"{tool.name} needs a person's approval here; decide without it")
        elif reply.decision == "ACCEPT" and broken:
            raise ReplyError("a criterion that the runtime checked failed, so ACCEPT is not open")
        else:
            try:
                substitute(reply.output, Views(held))
            except (OperationFailed, DocumentError) as error:
                raise ReplyError(f"output: {error}") from None

    return gate


async def _look(held: Held, verdict: Verdict) -> None:
    assert verdict.look is not None
    tool = held.world.catalogue.get(verdict.look.tool)
    n = (
        max([*held.doc.planned, *held.doc.steps], default=0) + 1000 * held.doc.meta.attempt
    )  # no step's number
    step = Step(n, "running", tool.name, verdict.look.args)
    step = adopted(held, step) or await operate(held, step, tool)
    held.note(
        4, "look", f"{tool.name} {to_json(dict(step.args or {}))} → {step.state}\n{step.result}", step.origin
    )
    held.save()


def _decide(held: Held, verdict: Verdict, origin: str, findings: list[Finding]) -> Waiting | None:
    held.note(4, "validation", verdict.validation, origin)
    if verdict.issues:
        held.note(4, "issues", "\n".join(f"- {issue}" for issue in verdict.issues), origin)
    held.note(4, "decision", str(verdict.decision), origin)
    attempt = held.doc.meta.attempt
    held.emit(
        "phase_finished", phase="check", attempt=attempt, rung=held.doc.meta.taker, gate=verdict.decision
    )
    output = substitute(verdict.output, Views(held))
    if verdict.decision == "ACCEPT":
        held.meta(unverified=not checking.proven(held, findings))
        finish(held, "complete", origin=origin, result=output)
        return None
    learned = Note("learned", verdict.learned or "\n".join(verdict.issues), origin)
    if undone := _undone(held):
        held.note(4, "undone", undone)
    if limit := next((step.result for step in held.attempted() if step.evidence.get("limit")), None):
        finish(held, "exhausted", error=limit, partial=output)
        return None
    if verdict.decision == "RETRY":
        retried = sum(fold.decision == "retry" for fold in held.doc.section(2).folds)
        if retried >= held.world.bounds.retries:
            finish(held, "escalated", error="max retries exceeded", partial=output, question=verdict.question)
            return None
        _hand_up_for_retry(held)
        held.fold("retry", learned, *what_was_done(held))
        held.save()
        return None
    if verdict.question and held.root:
        held.fold("escalate", learned, *what_was_done(held))
        found = f"\n\nFound so far:\n{output}" if output else ""
        return clarify(held, verdict.question + found, origin)
    if used_up := next(
        (step for step in held.attempted() if step.evidence.get("status") == "exhausted"), None
    ):
        finish(held, "exhausted", error=f"step {used_up.n} {used_up.result}", partial=output)
        return None
    reason = "\n".join(verdict.issues) or verdict.learned or "CHECK escalated"
    return climb(held, "escalate", learned, reason=reason, partial=output, question=verdict.question)


def _undone(held: Held) -> str:
    """A replay that failed is taken back where it can be: the next rung begins where the task began."""
    attempt = held.doc.meta.attempt
    planned = [
        each["rung"]
        for each in held.doc.meta.rungs
        if each["attempt"] == attempt and each["phase"] in ("plan", "fused") and not each.get("passed")
    ]
    undoes = any(getattr(rung, "undoes", False) for rung in held.world.ladder if rung.name in planned[-1:])
    return "\n".join(held.world.take_back(held.doc)) if undoes else ""


def _hand_up_for_retry(held: Held) -> None:
    """The next attempt is the next rung's, unless that is a person; code never retries itself."""
    taker = current(held)
    if taker is None:
        return
    code = not held.world.ladder.rungs[taker].reads_prompt
    higher = above(held, taker, human=code)
    if higher is not None:
        held.meta(taker=held.world.ladder.rungs[higher].name)


def looks(tool: Tool) -> bool:
    """Whether an operation changes nothing, so that CHECK may use it."""
    return not set(tool.effects) - {"read", "network"}
