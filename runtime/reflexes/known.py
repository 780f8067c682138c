"""The responder that answers a question from what memory knows, where no model is configured.

A model is shown the dated lines and answers itself, so there is no such rung in its ladder. This one comes
after the reflexes and after what was solved before. What memory is certain about is an answer; else it shows
the lines that are near, or says that memory has none.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernel.asking.prompt import found_by_itself
from kernel.asking.responder import Ask, Reply
from kernel.document.model import Document
from kernel.errors import Declined, FractalError
from runtime.memory import FACTS, NOT_CERTAIN
from runtime.reflexes.coded import Coded, failed_before, reply_to, verdict

if TYPE_CHECKING:
    from runtime.memory.facts.retrieval import Answers
    from runtime.memory.run_memory import RunMemory

SURE = 0.9
"""The confidence of an answer."""
UNSURE = 0.1
"""The confidence of saying what memory lacks."""
APPROACH = "answer from what memory knows"
DOUBT = "say what memory has that is near, and that it is not certain"
NO_MODEL = "There is no model to ask; FRACTAL_MODEL or `ladder:` in fractal.yaml sets one."
SHOWN = 3
"""Lines that are shown in doubt."""
REMEMBERED = 64
"""Questions that are looked up once, because every phase asks again."""
LONGEST = 300
"""Characters of a question."""
_ABOUT_FILES = re.compile(r"[/\\`\"\n{}]|\w\.[A-Za-z]\w{0,4}\b|\d\s*[-+*/^=x]\s*\d")
"""What a question about the person's world does not contain: a path, quotes, code, a sum."""
_OF_A_FOLDER = re.compile(r"(?i)\b(?:files?|folders?|director(?:y|ies)|lines?|rows?|columns?|bytes|[kmg]b)\b")
"""What a question may contain that a reflex would answer in other words."""
_QUESTION = re.compile(r"(?i)\?\s*$|^\s*(?:who|whom|whose|what|when|where|which|why|how)\b")
"""What is a question for certain: `do the sum` and `have a look` are worded like one, and ask for work."""


class Known(Coded):
    """Answers questions from the facts of a workspace's memory."""

    name = FACTS

    def __init__(self, memory: RunMemory) -> None:
        self.memory = memory
        self._known = lru_cache(REMEMBERED)(self._look_up)

    def offers(self, task: str, document: Document) -> float | None:
        """`SURE` if memory is certain of an answer, `UNSURE` for another question."""
        drafted = self._draft(document)
        if drafted is None or failed_before(document, drafted["approach"]):
            return None
        return SURE if drafted["approach"] == APPROACH else UNSURE

    async def answer(self, ask: Ask) -> Reply:
        """The reply of this phase; raises `Declined` where memory is not certain."""
        task = ask.document.text(1, "task")
        drafted = self._draft(ask.document)
        if drafted is None or self.offers(task, ask.document) is None:
            raise Declined("memory has no certain answer to this")
        known = self._known(task, ask.document.meta.id)
        reply = reply_to(ask, "memory", task, lambda: drafted, lambda: _verdict(ask, known))
        return Reply(json.dumps(reply, ensure_ascii=False), FACTS)

    def _asks(self, document: Document) -> bool:
        task = document.text(1, "task")
        given = any(
            note.key in ("answer", "guidance") or (note.key == "context" and not found_by_itself(note.source))
            for note in document.section(1).notes
        )
        plain = len(task) <= LONGEST and not _ABOUT_FILES.search(task)
        return document.meta.type == "task" and self.memory.there and plain and not given

    def _draft(self, document: Document) -> dict[str, Any] | None:
        """The plan for a question; None for every other task."""
        task = document.text(1, "task")
        known = self._known(task, document.meta.id) if self._asks(document) else None
        if known is None:
            return None
        if known.certain:
            return _plan(task, APPROACH, 1, r"^- (?!perhaps: )")
        if _OF_A_FOLDER.search(task) or not _QUESTION.search(task):
            return None
        return _plan(task, DOUBT, SHOWN)

    def _look_up(self, task: str, _loop: str) -> Answers | None:
        """What memory answers; a loop keeps this, though its steps may change memory."""
        try:
            return self.memory.known(task)
        except FractalError:
            return None  # the end of the run says what is wrong with the store


def _plan(task: str, approach: str, limit: int, has: str = "") -> dict[str, Any]:
    return {
        "approach": approach,
        "confidence": "high",
        "steps": [{"tool": "recall", "args": {"query": task, "limit": limit}}],
        "success": [{"step": 1, "has": has}] if has else [],
        "rationale": "a line of memory has its date and its source",
    }


def _verdict(ask: Ask, known: Answers | None) -> dict[str, Any]:
    result = f"{{{{ steps[{max(ask.document.steps, default=1)}].result }}}}"
    if known is None or known.certain:
        return verdict(ask.document, ask.evidence, result, APPROACH)
    said = f"{NOT_CERTAIN}\n{result}" if known.known else result
    return {**verdict(ask.document, ask.evidence, f"{said}\n{NO_MODEL}", DOUBT), "unanswered": True}
