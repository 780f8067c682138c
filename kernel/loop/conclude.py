"""CHECK of a proposed answer, by code: its checks now and at the start of the run, and what the folder shows.

What does not hold is a result that the next turn sees. A model is asked for a verdict only where the policy
wants it, or where oversight teaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kernel.asking.conversation import turn_of
from kernel.asking.prompt import NOT_YET
from kernel.asking.replies import Verdict
from kernel.document.escaping import to_json
from kernel.document.model import Note
from kernel.loop import criteria
from kernel.loop.ask import reader
from kernel.loop.check import accept, judged, tells, write_evidence
from kernel.loop.criteria import Finding, proven, reason
from kernel.loop.do import SUCCEEDED
from kernel.loop.end import escalate
from kernel.loop.hooks import Proved
from kernel.loop.proof import acted, demanded, grounded
from kernel.loop.run_context import Session
from kernel.loop.step_cache import record_inputs

CALL_FAILED = (
    "held back: a call of this turn failed, see its result. "
    "Once that does not matter, call done with no arguments: answer and checks are kept."
)
NO_ANSWER = "held back: done has no answer for the user yet"
SAID_MEANWHILE = "held back: the user has said something"
"""The result of an answer that was proposed before the user said something."""
FROM_KNOWLEDGE = "answered from the model's knowledge, without a tool"
"""The approach of a loop that needed no step."""
TOLD_ONCE = "held back once: "
"""How the result begins of an answer that may be given again as it is."""


async def conclude(session: Session, turn: int, proposed: Note) -> bool:
    """Whether the loop has ended or goes on to CHECK; false if the next turn has to see what is missing."""
    failed = [
        str(n)
        for n, step in session.doc.planned.items()
        if turn_of(step) == turn and session.doc.steps.get(n, step).state not in SUCCEEDED
    ]
    hears = reader(session) is not None  # code and small models say the same again, from what they know
    if why := CALL_FAILED if failed else NO_ANSWER if not proposed.text.strip() else "":
        if hears:
            return _held(session, turn, why)
        reason = f"step {failed[0]} failed" if failed else "it gives no answer"
        escalate(session, "not shown", Note("learned", reason), reason=reason, partial=proposed.text)
        return True
    since = await criteria.since_the_start(session)
    proved = session.run.hooks.prove(session, proposed.text, since)
    known = session.doc.text(2, "success criteria")
    tests = "" if to_json(proved.tests) in known else proved.tests
    findings, changed, diffs = await criteria.gather_evidence(session, since, tests)
    findings += [Finding(criterion, None, passed, note) for criterion, passed, note in proved.findings]
    broken = [each for each in findings if each.after is False]
    held = [note.text for note in session.doc.section(3).notes if note.key == NOT_YET]
    if broken:
        again = sum(not text.startswith((TOLD_ONCE, CALL_FAILED, NO_ANSWER, SAID_MEANWHILE)) for text in held)
        if hears and again < session.run.bounds.held_back:
            return _held(session, turn, "held back: " + "\n".join(map(_failure, broken)))
        reason = f"the answer was held back {again} times; {_failure(broken[0])[:300]}"
        escalate(session, "not shown", Note("learned", reason), reason=reason, partial=proposed.text)
        return True
    why = _doubt(session, findings, proposed.text, proved)
    if why and hears and not any(text.startswith(TOLD_ONCE) for text in held):
        return _held(session, turn, f"{TOLD_ONCE}{why}")
    answer = "\n\n".join([proposed.text, *filter(None, map(partial(_tests_told, proved), findings))])
    if not hears:
        session.note(2, "approach", FROM_KNOWLEDGE, proposed.origin)
    session.note(3, "result", answer, proposed.origin)
    record_inputs(session, "check")
    write_evidence(session, findings, changed, diffs, doubts=[*proved.doubts, *proved.claims])
    session.phase_finished("do", "")
    if (hears and judged(session)) or any(
        "judge" in each.criterion and each.after is None for each in findings
    ):
        session.save(phase="check", status="running", waiting=None)
        return True  # a model decides, in CHECK
    session.note(4, "decision", "ACCEPT")
    session.phase_finished("check", "ACCEPT")
    issues = [
        *proved.claims,
        *(["only that a file is there was checked"] if _is_only_there(findings) else []),
    ]
    verdict = Verdict(decision="ACCEPT", issues=tuple(issues), unverified=bool(issues) or not hears)
    accept(session, verdict, findings, answer, proposed.origin)
    return True


def _held(session: Session, turn: int, why: str) -> bool:
    session.note(3, NOT_YET, why, source=f"turn {turn}")
    session.save()
    session.phase_finished("check", "CONTINUE", turn=turn, why=why)
    return False


def _failure(finding: Finding) -> str:
    """A finding that does not hold, as its result for the model."""
    kind, what = next(((key, each) for key, each in finding.criterion.items() if key != "has"), ("it", ""))
    word = {"run": "check failed", "keep": "keep failed", "tests": "touched tests failed"}.get(
        kind, f"{kind} does not hold"
    )
    return f"{word}: {what}\n{finding.note}"


def _doubt(session: Session, findings: Sequence[Finding], answer: str, proved: Proved) -> str:
    """Why nothing shows an answer; "" if something does, or nothing could."""
    if proved.claims:
        return "; ".join(proved.claims)
    if proven(findings):
        return ""
    if not acted(session):
        if demanded(session) == "change":
            return "nothing was changed, and the task asks for a change. If that is right, give done again."
        return "" if grounded(session, answer) else "; ".join(proved.doubts)
    checks = [each for each in findings if "run" in each.criterion]
    if not checks:
        return "no check shows your change; give `checks` that fail without it, or done again if none can."
    told = "; ".join(f"{each.criterion['run']} ({_at_the_start(each)})" for each in checks)
    return f"no check fails without your change: {told}. Give one that does, or done again if there is none."


def _is_only_there(findings: Sequence[Finding]) -> bool:
    """Whether nothing else shows an answer than that a file is there, whatever it says."""
    return proven(findings) and not any(
        each.after and ("draft" in each.criterion or (each.before is False and tells(each.criterion)))
        for each in findings
    )


def _tests_told(proved: Proved, finding: Finding) -> str:
    """What the user is told of the touched tests; "" for any other finding."""
    if "tests" not in finding.criterion:
        return ""
    if finding.after is None:
        lines = [line for line in finding.note.splitlines() if "Error" in line]
        cause = (lines[-1] if lines else reason(finding.note)).strip()[:200]
        failed = "fail, as they did at the start" if finding.before is False else "were not run"
        return f"(touched tests {failed}: {cause})"
    counted = proved.counts(finding.note)
    return f"(touched tests: {counted})" if counted else "(touched tests pass)"


def _at_the_start(finding: Finding) -> str:
    """What a check said of the folder as it was at the start, or why it says nothing."""
    if finding.after is None:
        return finding.note[:300]
    if finding.before:
        return "it passes at the start, too"
    return finding.note.rpartition("at the start: ")[2] or "it was not run at the start"
