"""The responder that answers a question from what memory knows, without a model.

It comes after the reflexes and after what was solved before. It answers only a question that memory is
certain about, by a call of the tool `recall`; every other task goes on to the next rung untouched.
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
from runtime.memory import FACTS
from runtime.reflexes.coded import Coded, failed_before, reply_to, verdict

if TYPE_CHECKING:
    from runtime.memory.run_memory import RunMemory

SURE = 0.9
"""The confidence of an answer."""
APPROACH = "answer from what memory knows"
REMEMBERED = 64
"""Questions that are looked up once, because every phase asks again."""
LONGEST = 300
"""Characters of a question."""
_ABOUT_FILES = re.compile(r"[/\\`\"\n{}]|\w\.[A-Za-z]\w{0,4}\b|\d\s*[-+*/^=x]\s*\d")
"""What a question about the person's world does not contain: a path, quotes, code, a sum."""


class Known(Coded):
    """Answers questions from the facts of a workspace's memory."""

    name = FACTS

    def __init__(self, memory: RunMemory) -> None:
        self.memory = memory
        self._certain = lru_cache(REMEMBERED)(self._look_up)

    def offers(self, task: str, document: Document) -> float | None:
        """`SURE` if memory is certain of an answer."""
        if failed_before(document, APPROACH) or not self._asks(document):
            return None
        return SURE if self._certain(document.text(1, "task"), document.meta.id) else None

    def suggestion(self, task: str) -> str:
        """What memory has for a question that it is not certain about; "" for other tasks."""
        if not self.memory.there or _ABOUT_FILES.search(task):
            return ""
        try:
            known = self.memory.known(task)
        except FractalError:
            return ""
        if known is None or known.certain:
            return ""
        if not known.known:
            return "Memory knows nothing about it."
        first = known.lines[0]
        return f"Memory is not certain about it; perhaps: {first.text} ({first.source})"

    async def answer(self, ask: Ask) -> Reply:
        """The reply of this phase; raises `Declined` where memory is not certain."""
        task = ask.document.text(1, "task")
        if self.offers(task, ask.document) is None:
            raise Declined("memory has no certain answer to this")
        reply = reply_to(ask, "memory", task, lambda: _plan(task), lambda: _verdict(ask))
        return Reply(json.dumps(reply, ensure_ascii=False), FACTS)

    def _asks(self, document: Document) -> bool:
        task = document.text(1, "task")
        given = any(
            note.key in ("answer", "guidance") or (note.key == "context" and not found_by_itself(note.source))
            for note in document.section(1).notes
        )
        plain = len(task) <= LONGEST and not _ABOUT_FILES.search(task)
        return document.meta.type == "task" and self.memory.there and plain and not given

    def _look_up(self, task: str, _loop: str) -> bool:
        """Whether memory is certain; a loop keeps this, though its steps may change memory."""
        try:
            known = self.memory.known(task)
        except FractalError:
            return False  # the end of the run says what is wrong with the store
        return known is not None and known.certain


def _plan(task: str) -> dict[str, Any]:
    return {
        "approach": APPROACH,
        "confidence": "high",
        "steps": [{"tool": "recall", "args": {"query": task, "limit": 1}}],
        "success": [{"step": 1, "has": r"^- (?!perhaps: )"}],
        "rationale": "memory has a line that answers the question, with its date and its source",
    }


def _verdict(ask: Ask) -> dict[str, Any]:
    number = max(ask.document.steps, default=1)
    return verdict(ask.document, ask.evidence, f"{{{{ steps[{number}].result }}}}", APPROACH)
