"""Phase b: a model reads which facts a later statement ends: what the rules missed, or ended wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from runtime.memory.dream.stages import Dream, StageResult, short
from runtime.memory.dream.work import NEAR, Work
from runtime.memory.facts.claims import modality
from runtime.memory.facts.graph import edge_id, restore, settle, told_last
from runtime.memory.facts.records import PERSON, Edge, Memory, Observation, normal

AROUND = 4 * NEAR
"""The nearest memories, among which the earlier facts are sought."""
LONGEST = 500
"""Characters of a fact that are shown."""
JUDGED = "a model judges: "
"""What the reason of such an edge begins with."""
Ended = tuple[Memory, Memory, str]
"""A statement, a fact that it ends, and why."""


def supersede(dream: Dream) -> StageResult:
    """Ask a model which earlier facts each new or changed fact ends, the newest first; without one, nothing.

    What a rule has ended, and the model does not, holds again. Each fact is asked about once, and a question
    is none.
    """
    if dream.ask is None:
        return StageResult()
    work = Work(dream)
    counts = {"judged": 0, "superseded": 0, "restored": 0}
    ended: list[Ended] = []
    by_rule = _ended_by_rule(work)
    did: list[str] = []
    for memory in _new(work):
        closed = by_rule.get(memory.id, [])
        if earlier := [*closed, *_earlier(work, memory)][: max(NEAR, len(closed))]:
            if not work.may_ask():
                break
            reply = work.answer("supersede", _slots(memory, earlier))
            if not reply:
                continue  # asked again by the next dream
            counts["judged"] += 1
            if (found := _ended(work, memory, earlier, reply)) is not None:
                named = {fact.id for _, fact, _ in found}
                ended += [each for each in found if each[1] not in closed]
                for fact in (each for each in closed if each.id not in named):
                    restore(work.shelf, fact, work.now)
                    counts["restored"] += 1
                    did.append(f"“{short(fact.text)}” holds again: “{short(memory.text)}” does not end it")
        work.shelf.put(memory.model_copy(update={"judged": work.now}))
    for memory, fact, why in sorted(ended, key=lambda each: each[0].since):
        if modality(memory.text, work.language) == "for a while":  # a rule read it so, and it lasts
            work.shelf.put(memory.model_copy(update={"until": "", "judged": work.now}))
        if settle(work.shelf, memory, fact, f"{JUDGED}{why}", work.language, work.now).past:
            counts["superseded"] += 1
            did.append(f"“{short(memory.text)}” ends “{short(fact.text)}”: {why}")
    return StageResult([*did, *work.refused], counts, work.form)


def _new(work: Work) -> list[Memory]:
    """The facts that no dream has judged since they changed, the newest first."""
    since = normal(work.dream.since)
    facts = [
        each
        for each in work.shelf.scan(Memory, {"superseded": ""})
        if not each.ended(work.now)
        and each.changed > each.judged
        and each.changed >= since
        and _stated(work, each)
        and modality(each.text, work.language) != "asks"
    ]
    return sorted(facts, key=lambda each: (each.since, each.id), reverse=True)


def _ended_by_rule(work: Work) -> dict[str, list[Memory]]:
    """By the id of what ended them, the facts that no model has judged to be over."""
    ended: dict[str, list[Memory]] = {}
    for memory in work.shelf.scan(Memory):
        if memory.superseded and _stated(work, memory):
            edge = work.shelf.get(Edge, edge_id(memory.superseded, "supersedes", memory.id))
            if edge is not None and JUDGED not in edge.text:
                ended.setdefault(memory.superseded, []).append(memory)
    return ended


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


def _ended(
    work: Work, memory: Memory, earlier: Sequence[Memory], reply: Mapping[str, Any]
) -> list[Ended] | None:
    """What a reply ends; None if it is no list of numbers of the earlier facts."""
    numbers = reply.get("ended")
    facts = dict(enumerate(earlier, 1))
    if not isinstance(numbers, list) or not all(type(each) is int and each in facts for each in numbers):
        work.refused.append(f"a reply on “{short(memory.text)}” was refused: it names other facts")
        return None
    work.form = "model"
    why = short(str(reply.get("why", ""))) or "it has changed"
    return [(memory, facts[each], why) for each in dict.fromkeys(cast(list[int], numbers))]
