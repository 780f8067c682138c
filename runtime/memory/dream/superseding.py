"""Phase b: a model reads which earlier facts a later statement ends, where the rules see no change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from runtime.memory.dream.stages import Dream, StageResult, short
from runtime.memory.dream.work import NEAR, Work
from runtime.memory.facts.agreement import Agreement
from runtime.memory.facts.claims import modality
from runtime.memory.facts.graph import settle, told_last
from runtime.memory.facts.records import PERSON, Memory, Observation, normal

AROUND = 4 * NEAR
"""The nearest memories, among which the earlier facts are sought."""
LONGEST = 500
"""Characters of a fact that are shown."""
Ended = tuple[Memory, Memory, str]
"""A statement, a fact that it ends, and why."""


def supersede(dream: Dream) -> StageResult:
    """Ask a model which earlier facts each new or changed fact ends, the newest first; without one, nothing.

    Each is asked about once. Where a rule reads a wish, a doubt or an exception, nothing is asked.
    """
    if dream.ask is None:
        return StageResult()
    work = Work(dream)
    counts = {"judged": 0, "superseded": 0}
    ended: list[Ended] = []
    for memory in _new(work):
        if earlier := _earlier(work, memory):
            if not work.may_ask():
                break
            reply = work.answer("supersede", _slots(memory, earlier))
            if not reply:
                continue  # asked again by the next dream
            counts["judged"] += 1
            ended += _ended(work, memory, earlier, reply)
        work.shelf.put(memory.model_copy(update={"judged": work.now}))
    did: list[str] = []
    for memory, fact, why in sorted(ended, key=lambda each: each[0].since):
        found = Agreement("contrary", f"a model judges: {why}")
        if settle(work.shelf, memory, fact, found, work.language, work.now).past:
            counts["superseded"] += 1
            did.append(f"“{short(memory.text)}” ends “{short(fact.text)}”: {why}")
    return StageResult([*did, *work.refused], counts, work.form)


def _new(work: Work) -> list[Memory]:
    """The facts that no dream has judged since they changed, without wishes and doubts, the newest first."""
    since = normal(work.dream.since)
    facts = [
        each
        for each in work.shelf.scan(Memory, {"superseded": ""})
        if not each.ended(work.now)
        and each.changed > each.judged
        and each.changed >= since
        and _stated(work, each)
        and modality(each.text, work.language) == "is"
    ]
    return sorted(facts, key=lambda each: (each.since, each.id), reverse=True)


def _stated(work: Work, memory: Memory) -> bool:
    """Whether a person stated it as a fact."""
    evidence = work.shelf.pick(Observation, memory.evidence) if memory.held == "fact" else ()
    return bool(evidence) and all(each.said == "fact" for each in evidence)


def _earlier(work: Work, memory: Memory) -> list[Memory]:
    """The nearest facts that hold and were told before, the nearest first."""
    vector = memory.vector(work.name)
    if vector is None:
        return []
    near = dict(work.nearest(memory.agent, vector, AROUND))
    at = told_last(work.shelf, memory)
    facts = (each for each in work.shelf.pick(Memory, near) if told_last(work.shelf, each) < at)
    return [each for each in facts if _stated(work, each)][:NEAR]


def _slots(memory: Memory, earlier: Sequence[Memory]) -> Mapping[str, str]:
    facts = "\n".join(f"{number}. {_line(each)}" for number, each in enumerate(earlier, 1))
    return {"statement": _line(memory), "earlier": facts}


def _line(memory: Memory) -> str:
    who = f"{memory.who}: " if memory.who not in ("", PERSON) else ""
    return short(f"[{memory.since[:10]}] {who}{memory.text}", LONGEST)


def _ended(work: Work, memory: Memory, earlier: Sequence[Memory], reply: Mapping[str, Any]) -> list[Ended]:
    """What a reply ends; nothing if it is no list of numbers of the earlier facts."""
    numbers = reply.get("ended")
    facts = dict(enumerate(earlier, 1))
    if not isinstance(numbers, list) or not all(type(each) is int and each in facts for each in numbers):
        work.refused.append(f"a reply on “{short(memory.text)}” was refused: it names other facts")
        return []
    work.form = "model"
    why = short(str(reply.get("why", ""))) or "it has changed"
    return [(memory, facts[each], why) for each in dict.fromkeys(cast(list[int], numbers))]
