"""The reflex responder: plans and checks what a phrasing in `system/reflexes/` covers, without a model.

It answers from the document alone: the task, and what earlier steps left in §1. What it is not sure of, it
leaves to the next rung.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from kernel.asking.responder import Ask, Reply
from kernel.document.model import Document, Note
from kernel.errors import Declined
from runtime.memory.tasks.signing import Makers, unknown
from runtime.reflexes.coded import Coded, failed_before, proven, reply_to, verdict
from runtime.reflexes.matching import Match, earlier, match
from runtime.reflexes.planning import Draft, Unbound, draft
from runtime.reflexes.procedure import Fault, Reflexes
from runtime.reflexes.slots import Earlier, It
from runtime.reflexes.surroundings import Surroundings

SURE = 0.95
"""The confidence of a match."""
REMEMBERED = 64
"""Tasks whose match is cached, because every phase asks again."""
_RESULTS = re.compile(r"(?:step \d+|run .+|stdin|file .+)")
"""The sources of context that `it` can mean: results of steps and runs, piped text, files handed over."""
_CUT = re.compile(r"(?m)^\[…(?: \d+ characters cut[^\n]*…)?\]$")
"""The mark that the kernel leaves where it cut a result."""


Doubt = Callable[[str, str, Sequence[Mapping[str, Any]]], str]
"""Why a learned method's steps for a task have to be checked, else ""."""


def trust_all(name: str, task: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """Trust all methods."""
    return ""


class Reflex(Coded):
    """The responder over the reflexes of a list of system folders; the first folder that has a file wins.

    `place` is the folder of the run, whose files a task may call by less than their path. Learned methods are
    used only if their makers are among `makers`.
    """

    name = "reflex"
    undoes = "series"  # what the parts before the failed one changed

    def __init__(
        self,
        folders: Sequence[Path],
        doubt: Doubt = trust_all,
        place: Path | None = None,
        makers: Makers = unknown,
    ) -> None:
        self.reflexes = Reflexes(folders)
        self.makers = makers
        self.doubt = doubt
        self.place = place
        self._matched = lru_cache(REMEMBERED)(self._match_task)

    @property
    def faults(self) -> list[Fault]:
        """The files that were left out, and why."""
        return self.reflexes.faults

    def offers(self, task: str, document: Document) -> float | None:
        """`SURE` when a reflex covers the whole task; None when none does, or when it has failed before."""
        match = self._match(task, document)
        if match is None or failed_before(document, _approach(match)):
            return None
        try:
            draft(match, 0)
        except Unbound:
            return None
        return SURE

    def suggestion(self, task: str) -> str:
        """A sentence with the nearest task that a reflex covers; "" if none is near."""
        from runtime.reflexes.suggestions import nearest

        return nearest(task, self.reflexes.shelf, self._around())

    async def answer(self, ask: Ask) -> Reply:
        """The reply to an ask; raises `Declined` for what no reflex covers."""
        match = self._match(ask.document.task, ask.document)
        if match is None:
            raise Declined("no reflex covers this task")
        try:
            drafted = draft(match, ask.document.meta.base if ask.phase == "check" else 0)
        except Unbound as error:
            raise Declined(f"{_names(match)}: {error}") from None
        reply = _reply(ask, match, drafted)
        if reply.get("decision") == "ACCEPT" and not proven(ask.evidence):
            for name in (each.path.stem for each in match.used if each.learned):
                if why := self.doubt(name, ask.document.text(1, "task"), drafted.steps):
                    raise Declined(f"{name}: {why}")
        return Reply(json.dumps(reply, ensure_ascii=False), f"reflex:{_names(match)}")

    def _match(self, task: str, document: Document) -> Match | None:
        if document.meta.type != "task":
            return None  # a tool's loop is guided by the tool's own text
        if self.reflexes.refresh():
            self._matched.cache_clear()
        prior = tuple(
            earlier(_result_in(note), self.reflexes.shelf, note.source)
            for note in document.section(1).notes
            if note.key == "context" and _RESULTS.fullmatch(note.source) and not _CUT.search(note.text)
        )
        return self._matched(task, prior, document.meta.id)

    def _match_task(self, task: str, prior: tuple[Earlier, ...], _loop: str) -> Match | None:
        """The match of a loop's task; a loop keeps its match when its steps have changed the folder."""
        return match(task, self.reflexes.made_by(self.makers), prior, self._around())

    def _around(self) -> Surroundings | None:
        return Surroundings(self.place) if self.place else None


def _result_in(note: Note) -> str:
    """The result that a piece of context holds; of an earlier run its output alone."""
    if note.source.startswith("run "):
        return note.text.partition("\nOutput: ")[2] or note.text
    return note.text


def _reply(ask: Ask, match: Match, drafted: Draft) -> dict[str, Any]:
    before = [each.source for each in match.prior[-1:] if _uses(match)]
    facts = [{"fact": f"what the task calls “it” is the result of {each}", "from": each} for each in before]
    summary = f"as {_names(match)} read it: {_approach(match)}"
    plan = partial(_plan, match, drafted)
    check = partial(verdict, ask.document, ask.evidence, drafted.output, summary)
    return reply_to(ask, "a reflex", ask.document.task, plan, check, facts)


def _uses(match: Match) -> bool:
    first = match.parts[0] if match.parts else match
    return first.uses_it or bool(first.procedure and first.procedure.needs) or bool(first.reading.meant)


def _plan(match: Match, draft: Draft) -> dict[str, Any]:
    return {
        "approach": _approach(match),
        "confidence": "high",
        "steps": [dict(step) for step in draft.steps],
        "success": [dict(criterion) for criterion in draft.success],
        "rationale": _rationale(match),
    }


def _names(match: Match) -> str:
    """The reflex, or the reflexes in a row, each once."""
    return "+".join(each.path.stem for each in match.used)


def _approach(match: Match) -> str:
    """What is done, by which file, with which slots; the same for the same reading."""
    if match.procedure:
        slots = _slots(match)
        meant = f"; by intent: {match.phrasing}" if match.reading.by_intent else ""
        return f"{match.procedure.description} ({match.procedure.file}{f': {slots}' if slots else ''}{meant})"
    lines = [f"{number}. {_approach(part)}" for number, part in enumerate(match.parts, 1)]
    return f"{len(match.parts)} parts, one after the other\n" + "\n".join(lines)


def _slots(match: Match) -> str:
    return ", ".join(f"{each.slot} = {_shown(each.value)}" for each in match.reading.bound)


def _shown(value: Any) -> str:
    if isinstance(value, It):
        return "the result before"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)[:200]


def _rationale(match: Match) -> str:
    if match.parts:
        return "\n".join(f"“{part.task[:200]}”: {_rationale(part)}" for part in match.parts)
    slots = _slots(match)
    file = match.procedure.file if match.procedure else "a reflex"
    if match.reading.by_intent:
        aside = f"; “{' '.join(match.reading.aside)}” says nothing here" if match.reading.aside else ""
        return (
            f"its words are those of “{match.phrasing}” in {file}{f', with {slots}' if slots else ''}{aside}"
        )
    return f"every word is covered by a phrasing of {file}{f', with {slots}' if slots else ''}"
