"""The memory responder: plans and checks a task that was solved before, without a model.

It comes after the reflexes (what a phrasing covers) and before any model. What recall is not sure of, it
leaves to the next rung; what it plans is checked by runnable criteria, else by the next rung until trusted.
The loop of a dream, which is memory's own work, is filled in by it alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel.asking.prompt import found_by_itself
from kernel.asking.responder import Ask, Reply
from kernel.document.model import Document
from kernel.document.references import renumbered
from kernel.errors import Declined, FractalError
from runtime.memory import RUNG
from runtime.reflexes import dreaming
from runtime.reflexes.coded import Coded, failed_before, proven, reply_to, verdict
from runtime.text.expressions import empty

if TYPE_CHECKING:
    from runtime.memory.facts.records import Observation
    from runtime.memory.run_memory import RunMemory
    from runtime.memory.tasks.recall import Recall


_RESULT = re.compile(r"\{\{ steps\[\d+\]\.result \}\}")
TOLD = "say what a person answered before"


class Recalled(Coded):
    """The responder over a workspace's memory; `checked`: whether a model is above it."""

    name = RUNG
    undoes = "attempts"

    def __init__(self, memory: RunMemory, *, checked: bool) -> None:
        self.memory = memory
        self.checked = checked

    def offers(self, task: str, document: Document) -> float | None:
        """The confidence of the recall; None for a novel task, or one that failed here."""
        if document.meta.type == dreaming.KIND:
            return 1.0
        match = self._found(document)
        if match is None or match.kind == "novel":
            return 1.0 if self._told(document) and not failed_before(document, TOLD) else None
        return None if failed_before(document, _approach(match)) else match.confidence

    def suggestion(self, task: str) -> str:
        """A sentence about a procedure that fits and is a draft; "" if there is none."""
        try:
            found = self.memory.brain.recall(task) if self.memory.there else None
        except FractalError:
            return ""
        return f"Memory has steps for this task, and {found.draft}." if found and found.draft else ""

    async def answer(self, ask: Ask) -> Reply:
        """The reply of this phase; raises `Declined` where memory has nothing to say."""
        if ask.document.meta.type == dreaming.KIND:
            return Reply(json.dumps(dreaming.reply(ask), ensure_ascii=False), f"{RUNG}:{dreaming.KIND}")
        found = self._found(ask.document)
        if found is None or found.kind == "novel" or found.tree is None:
            return self._repeat(ask, self._told(ask.document))
        plan, check = partial(self._plan, ask, found), partial(self._verdict, ask, found)
        reply = reply_to(ask, "memory", ask.document.text(1, "task"), plan, check)
        return Reply(json.dumps(reply, ensure_ascii=False), f"{RUNG}:{found.tree.id[:8]}")

    def _repeat(self, ask: Ask, told: Observation | None) -> Reply:
        """Say what a person answered to this task before, if it is still recalled."""
        if told is None:
            raise Declined("nothing is remembered for this task")
        task, document = ask.document.text(1, "task"), ask.document
        plan: dict[str, Any] = {
            "approach": TOLD,
            "confidence": "high",
            "steps": [{"tool": "recall", "args": {"query": task}}],
            "success": [{"step": 1, "has": f"answered: {re.escape(told.text)}"}],
            "rationale": "a person was asked the same and answered it",
        }
        output = f"{told.text} ({self._source(told)})"
        reply = reply_to(
            ask, "memory", task, lambda: plan, lambda: verdict(document, ask.evidence, output, TOLD)
        )
        return Reply(json.dumps(reply, ensure_ascii=False), f"{RUNG}:person")

    def _source(self, told: Observation) -> str:
        """Who said it and when, as `recall` shows it."""
        from runtime.memory.facts.mind import Mind
        from runtime.memory.facts.retrieval.holding import Standing
        from runtime.memory.facts.retrieval.times import day_of

        today = day_of(Mind.of(self.memory.brain).now)
        return Standing(said=told.at, who=told.who, source=told.source).shown(today)

    def _told(self, document: Document) -> Observation | None:
        """What a person answered to this very task."""
        asks = document.meta.type == "task" and not _has_context(document)
        return self.memory.told(document.text(1, "task")) if asks else None

    def _found(self, document: Document) -> Recall | None:
        """The recall for a task; None if there is none or the store cannot be read."""
        if document.meta.type != "task" or not self.memory.there or _has_context(document):
            return None
        try:
            return self.memory.brain.recall(document.text(1, "task"))
        except FractalError:
            return None  # the end of the run says what is wrong with the store

    def _plan(self, ask: Ask, found: Recall) -> dict[str, Any]:
        meta = ask.document.meta
        self.memory.brain.decide(f"{meta.id}/{meta.attempt}", found)
        return {
            "approach": _approach(found),
            "confidence": "high",
            "steps": [dict(step) for step in found.steps],
            "success": [dict(each) for each in found.success if not empty(each)],
            "rationale": _rationale(found),
        }

    def _doubtful(self, document: Document, found: Recall, evidence: Mapping[str, Any]) -> bool:
        """Whether the next responder has to check it: no criterion proves it, and it is not trusted yet.

        The very same task may find its work done already; then it is enough that all criteria hold. The
        answer to the very same question needs none, if it is the result of a look.
        """
        criteria: Sequence[Mapping[str, Any]] = evidence.get("criteria", ())
        holds = bool(found.success) and all(each.get("after") for each in criteria)
        looked = not found.success and _is_a_look(document, found)
        if proven(evidence) or (found.kind == "exact" and (holds or looked)):
            return False
        return not self.memory.brain.trusted(found)

    def _verdict(self, ask: Ask, found: Recall) -> dict[str, Any]:
        """ACCEPT what is proven or trusted, ESCALATE what failed, and leave the rest to the next rung."""
        base = ask.document.meta.base
        output = renumbered(found.output, lambda _, n: n + base)
        reply = verdict(ask.document, ask.evidence, output, f"done as remembered: {_approach(found)}")
        if (
            reply["decision"] == "ACCEPT"
            and self.checked
            and self._doubtful(ask.document, found, ask.evidence)
        ):
            raise Declined("no criterion that code can decide proves what memory did, so it is checked")
        if found.tree is not None and not found.tree.exemplar.verified and not proven(ask.evidence):
            reply["unverified"] = True  # as what is repeated was
        return reply


def _is_a_look(document: Document, found: Recall) -> bool:
    """Whether the answer is the whole result of a step, none changed anything, and it was shown before."""
    steps = [step.evidence for step in document.attempted]
    same = all(each.get("tree_before") == each.get("tree_after") for each in steps)
    shown = found.tree is not None and found.tree.exemplar.verified
    return shown and same and bool(_RESULT.fullmatch(found.output))


def _has_context(document: Document) -> bool:
    """Whether the task came with context or answers, which recall does not know."""
    notes = document.section(1).notes
    return any(
        n.key in ("answer", "guidance") or (n.key == "context" and not found_by_itself(n.source))
        for n in notes
    )


def _approach(found: Recall) -> str:
    """What is done, and after which run."""
    assert found.tree
    changed = ", ".join(f"{old} → {new}" for old, new in found.changed)
    return f"as in run {found.tree.run or '?'}, {found.kind}{f': {changed}' if changed else ''}"


def _rationale(found: Recall) -> str:
    assert found.tree
    ledger = found.tree.ledger
    task = " ".join(found.tree.exemplar.task.split())
    return (
        f"“{task[:300]}” was solved by these steps before ({found.tree.rung or 'a higher rung'}, "
        f"{ledger.correct} right and {ledger.incorrect} wrong since; memory {found.tree.id})"
    )
