"""The calls of a run by turns that did the work, without faulty ones and failed tries."""

from __future__ import annotations

from kernel.asking.conversation import turn_of
from kernel.asking.turn import USE
from kernel.document.model import Step


def was_made(step: Step) -> bool:
    """Whether a step is more than a call of a turn that was never carried out.

    That is a faulty one, one that was held back, or a look at the guidance of a tool.
    """
    return not turn_of(step) or (step.tool != USE and (bool(step.link) or not step.ended))


def came_to_nothing(step: Step) -> bool:
    """Whether a call of a turn was not made, or failed without a change: the turns after it did the work."""
    if not turn_of(step):
        return False
    evidence = step.evidence
    same = evidence.get("tree_before") == evidence.get("tree_after") and not evidence.get("touched")
    return not was_made(step) or (step.state == "failed" and step.share is None and same)
