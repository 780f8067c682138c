"""What the responders without a model share: reading evidence and earlier attempts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.asking.responder import FREE, Ask, Responder, Tier, Usage
from kernel.document.model import Document
from kernel.errors import Declined

Filled = dict[str, Any]
"""A reply."""
LEARNED = 1_000
"""Characters of the note on a failed attempt."""


class Coded(Responder):
    """What the responders without a model have in common."""

    tier: Tier = "reflex"
    reads_prompt = False

    def estimate(self, ask: Ask) -> Usage:
        """Nothing: no model is called."""
        return FREE


def reply_to(
    ask: Ask,
    who: str,
    task: str,
    plan: Callable[[], Filled],
    check: Callable[[], Filled],
    context: Sequence[Mapping[str, Any]] = (),
) -> Filled:
    """The reply to an ask: a turn with the whole plan, or a verdict. The task is used verbatim.

    Raises `Declined` for other asks.
    """
    match ask.part:
        case "turn":
            return {"task": task, "context": [*context], **plan()}
        case "check":
            return check()
        case _:
            raise Declined(f"{who} has nothing to say in {ask.part.upper()}")


def proven(evidence: Mapping[str, Any]) -> bool:
    """Whether criteria that code can decide show the work: some one failed before, and all hold now.

    That a step has a result proves nothing.
    """
    found: Sequence[Mapping[str, Any]] = evidence.get("criteria", ())
    telling = [each for each in found if "step" not in each["criterion"] or each["criterion"].get("has")]
    return any(each.get("before") is not True for each in telling) and all(e.get("after") for e in found)


def verdict(document: Document, evidence: Mapping[str, Any], output: str, summary: str) -> dict[str, Any]:
    """ACCEPT when no step failed and every criterion that code can decide holds; else it goes up.

    `summary` says what was done and by what, for the rung above.
    """
    issues = [_failure(document, number) for number in evidence.get("failed_steps", ())]
    issues += [
        f"{json.dumps(each['criterion'], ensure_ascii=False)}: {each.get('note') or 'does not hold'}"
        for each in evidence.get("criteria", ())
        if each.get("after") is False and not issues
    ]
    if issues:
        learned = f"{'; '.join(issues)} ({summary})"[:LEARNED]
        return {"validation": "fail", "issues": issues, "decision": "ESCALATE", "learned": learned}
    return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}


def _failure(document: Document, number: int) -> str:
    step = document.steps.get(number)
    why = (step.result or step.state)[:300] if step else "was not run"
    return f"step {number}{f' ({step.tool})' if step and step.tool else ''}: {why}"


def failed_before(document: Document, approach: str) -> bool:
    """Whether an earlier attempt of this loop had the same approach: code would fail again."""
    return any(
        note.key == "approach" and note.text == approach
        for fold in document.section(2).folds
        for note in fold.notes
    )
