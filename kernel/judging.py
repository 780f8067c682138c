"""CHECK: judge what the kernel recorded, and decide: ACCEPT, RETRY or ESCALATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kernel import checking
from kernel.asking import above, ask, current
from kernel.atomic import judge_atomic
from kernel.checking import Finding
from kernel.derived import derive
from kernel.document import Document, Note, Step
from kernel.ends import clarify, climb, finish, what_was_done
from kernel.errors import DocumentError, FractalError, OperationFailed, ReplyError
from kernel.evidence import reason
from kernel.operate import adopted, operate
from kernel.permits import refuse, ungranted
from kernel.phases import Typed, Verdict
from kernel.process import whole
from kernel.references import substitute
from kernel.responder import Waits
from kernel.states import moves
from kernel.steps import GOOD, Waiting
from kernel.text import to_json
from kernel.tools import Tool
from kernel.undoing import bring_back, pairs_of
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
    return await _decide(held, verdict, answer.origin, findings)


async def _write_evidence(held: Held) -> None:
    findings, changed, diffs = await checking.gather(held)
    lines = [finding.line() for finding in findings]
    lines += [
        f"- step {step.n} {step.state}: {reason(step.result or '')[:200]}"
        for step in held.attempted()
        if step.state != "done"
    ]
    if left := _counted(held, findings):
        steps = ", ".join(str(step.n) for step in left)
        lines.append(f"- ACCEPT counts as unverified: no later step did a failed one again ({steps})")
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
    step = adopted(held, step) or await operate(held, step, tool, listed=False)
    held.note(
        4, "look", f"{tool.name} {to_json(dict(step.args or {}))} → {step.state}\n{step.result}", step.origin
    )
    held.save()


async def _decide(held: Held, verdict: Verdict, origin: str, findings: list[Finding]) -> Waiting | None:
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
        _accept(held, findings, output, origin)
        return None
    learned = Note("learned", verdict.learned or "\n".join(verdict.issues), origin)
    if undone := await _undone(held):
        held.note(4, "undone", undone)
    if limit := _limit_of_its_own(held.attempted()):
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
    if limit := _limit_below(held.attempted()):
        finish(held, "exhausted", error=limit, partial=output)
        return None
    reason = "\n".join(verdict.issues) or verdict.learned or "CHECK escalated"
    return climb(held, "escalate", learned, reason=reason, partial=output, question=verdict.question)


def _accept(held: Held, findings: list[Finding], output: str, origin: str) -> None:
    """End an accepted loop as what it is: a limit or a failed step is never a success."""
    left = _counted(held, findings)
    if limit := _limit_of_its_own(left) or _limit_below(left):
        finish(held, "exhausted", error=limit, partial=output)
    elif left:
        held.meta(unverified=True)
        told = "; ".join(f"step {step.n} {_how(step)}" for step in left)
        finish(held, "unverified", origin=origin, result=output, error=f"accepted, although {told}")
    else:
        held.meta(unverified=not checking.proven(held, findings))
        finish(held, "complete", origin=origin, result=output)


def _counted(held: Held, findings: Sequence[Finding]) -> list[Step]:
    """The failed steps for which an accepted run is no success: `unmended`, without sources that refused.

    A source on the network may refuse where several are asked. Such a step does not count if it only read
    from there, no limit kept it from being done, another step of the same tool did answer, and code has shown
    that the plan's criteria hold. CHECK still reads that it failed.
    """
    left = unmended(held.doc, findings)
    if not left or not checking.proven(held, findings):
        return left
    answered = {step.tool for step in held.attempted() if step.state == "done"}
    tools = held.world.catalogue.tools
    return [step for step in left if step.tool not in answered or not _asks_a_source(step, tools)]


def _asks_a_source(step: Step, tools: Mapping[str, Tool]) -> bool:
    """Whether a step failed that only read something from the network."""
    tool = tools.get(step.tool)
    if tool is None or tool.guided or step.state != "failed" or step.evidence.get("limit"):
        return False
    only_reads = looks(tool) or (tool.idempotent is not True and tool.repeatable(step.args or {}))
    return "network" in tool.effects and only_reads


def unmended(document: Document, findings: Sequence[Finding]) -> list[Step]:
    """The steps of the accepted plan that failed and that nothing later did again with success.

    A later step does it again if it is done and is the same call, or does the same `what` or subtask. So does
    a criterion that failed before the plan and holds after it, if it runs the same command or is about the
    same file. A step that a person struck was not to be done. An attempt without steps answers for the steps
    of those before it.
    """
    planned = [document.steps.get(n, step) for n, step in document.planned.items()]
    steps = planned or list(document.steps.values())
    proofs = [f.criterion for f in findings if f.before is False and f.after is True]
    commands = {each.get("run") for each in proofs} - {None}
    files = {each.get("file") for each in proofs} - {None}
    left: list[Step] = []
    for step in steps:
        if not _failed(step):
            continue
        args = step.args or {}
        again = any(each.n > step.n and not _failed(each) and _same(each, step) for each in steps)
        proven = args.get("command") in commands or args.get("path") in files
        if not again and not proven:
            left.append(step)
    return left


def _failed(step: Step) -> bool:
    """Whether a step did not do what it was planned for, or is a child that ended with such a step."""
    if step.state == "struck" and step.origin == "person":
        return False
    return step.state not in GOOD or step.evidence.get("status") == "unverified"


def _same(one: Step, other: Step) -> bool:
    if one.tool != other.tool:
        return False
    return one.what == other.what if one.what or other.what else one.args == other.args


def _how(step: Step) -> str:
    """How a step failed, in a line."""
    if step.state in GOOD:
        return "was accepted although a step of its own had failed"
    return f"{step.state}: {reason(step.result or '')[:160]}"


def _limit_of_its_own(steps: Sequence[Step]) -> str:
    """Why this loop could not begin a step, "" where no limit kept it from one."""
    return next((step.result or "" for step in steps if step.evidence.get("limit")), "")


def _limit_below(steps: Sequence[Step]) -> str:
    """Which child reached a limit, "" for none."""
    ended = (step for step in steps if step.evidence.get("status") == "exhausted")
    return next((f"step {step.n} {step.result}" for step in ended), "")


async def _undone(held: Held) -> str:
    """A replay that failed is taken back where it can be: the next rung begins where the task began."""
    attempt = held.doc.meta.attempt
    planned = [
        each["rung"]
        for each in held.doc.meta.rungs
        if each["attempt"] == attempt and each["phase"] in ("plan", "fused") and not each.get("passed")
    ]
    undoes = any(getattr(rung, "undoes", False) for rung in held.world.ladder if rung.name in planned[-1:])
    snapshots = held.world.snapshots
    if not undoes or snapshots is None or snapshots.why_not():
        return ""
    steps = sorted(held.attempted(), key=lambda step: step.n, reverse=True)
    try:
        async with snapshots.turn():
            pairs = pairs_of(steps, "")
            return "\n".join((await whole(partial(bring_back, snapshots, held.world.run, pairs))).lines)
    except FractalError as error:
        return str(error)


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
