"""Who made a procedure, and whether it may be replayed without a model.

A procedure carries its maker, the evidence for it, and a mark over both and over all that is replayed, by the
user's own key (`runtime.secrets.key`). Without this user's mark it is a draft: it came with a folder, or
somebody has edited it. It is bound to its maker: once that model is not on the ladder any more, it is a
draft as well, unless a person has approved of it. A model that is configured and cannot be reached is on it.

What a model says of its own plan is no evidence for it, also not a criterion that failed before and holds
now: a hostile model writes one that its plan meets and does something more beside it. So nothing replays
where no model is left until a person says once that the result was good.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from kernel.document.model import Document
from kernel.document.redaction import redacted
from runtime.memory.tasks.decisions import PERSON
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.signing import NOT_OURS, PURPOSE, Makers, gone
from runtime.secrets.key import is_marked, mark
from runtime.secrets.redaction import redactor
from runtime.workspace.deciders import PAGE, TERMINAL

_APPROVALS = frozenset({f"by {TERMINAL}", f"by {PAGE}"})


class Made(Protocol):
    """A stored procedure: a tree, or the part of it that methods are made of."""

    exemplar: Exemplar
    rung: str
    maker: str
    evidence: str
    mark: str


def evidence_of(document: Document, judge: str, planner: str) -> str:
    """Whether a person planned, approved or checked what a loop did; else ""."""
    approved = document.note(2, "approved")
    by_person = PERSON in (judge, planner) or (approved is not None and approved.text in _APPROVALS)
    return PERSON if by_person else ""


def marked(tree: Made) -> dict[str, Any]:
    """The change that gives a procedure this user's mark."""
    return {"mark": mark(PURPOSE, _content(tree))}


def is_ours(tree: Made) -> bool:
    """Whether this user's Fractal made or accepted a procedure as it is now."""
    return is_marked(PURPOSE, _content(tree), tree.mark)


def _content(tree: Made) -> bytes:
    values = {**tree.exemplar.model_dump(mode="json"), "rung": tree.rung, "maker": tree.maker}
    stored = redacted({**values, "evidence": tree.evidence}, redactor())  # as it will be read again
    return json.dumps(stored, sort_keys=True).encode()


def why_draft(tree: Made, makers: Makers) -> str:
    """Why a stored procedure may not be replayed; "" if it may."""
    if not is_ours(tree):
        return NOT_OURS
    return "" if tree.evidence == PERSON else gone([tree.maker], makers())
