"""From format 1 to 2: what earlier rules merged, though the facts say something else, is parted.

Every memory gets the time from and until which its words say that it holds.
"""

from __future__ import annotations

from pathlib import Path

from kernel.events import now
from runtime.memory.facts import gate, graph
from runtime.memory.facts.agreement import Said, agreement
from runtime.memory.facts.claims import valid
from runtime.memory.facts.language import Language, language_of
from runtime.memory.facts.records import Memory, Observation, normal
from runtime.memory.store import Shelf
from runtime.text.shown import count


def part_all(shelf: Shelf, systems: tuple[Path, ...]) -> str:
    """Part every memory that holds facts which contradict each other; returns what was done, in words."""
    language, at = language_of(systems), normal(now())
    memories = list(shelf.scan(Memory))
    parted = sum(_part(shelf, each, language, at) for each in memories if len(each.evidence) > 1)
    for memory in list(shelf.scan(Memory)):
        _date(shelf, memory, language)
    compared = count(len(memories), "memory", "memories")
    return f"{compared} compared, {parted} parted from one that says something else"


def _part(shelf: Shelf, memory: Memory, language: Language, at: str) -> int:
    """Make facts that were merged with a memory they contradict memories of their own; returns how many."""
    facts = [each for each in shelf.pick(Observation, memory.evidence) if each.said == "fact"]
    said = gate.said_by(memory)
    apart = [each for each in facts if agreement(said, Said(each.text, each.who, each.at), language).clashes]
    if not apart or len(apart) == len(facts):
        return 0
    gone = {each.id for each in apart}
    values = {
        "evidence": tuple(id for id in memory.evidence if id not in gone),
        "unread": tuple(id for id in memory.unread if id not in gone),
        "confidence": max(
            round(1 - (1 - memory.confidence) / (1 - graph.MORE) ** len(apart), 6), graph.FIRST
        ),
        "changed": at,
    }
    shelf.put(memory.model_copy(update=values))
    for each in apart:
        made = graph.create(shelf, each, at)
        shelf.put(made.model_copy(update={"confidence": max(made.confidence, graph.TOLD)}))
    return len(apart)


def _date(shelf: Shelf, memory: Memory, language: Language) -> None:
    """Note from when until when a memory of one statement holds, where it says so."""
    observation = shelf.get(Observation, memory.evidence[0]) if len(memory.evidence) == 1 else None
    if observation is None or observation.text != memory.text:
        return
    since, until = valid(observation.text, observation.at, language)
    changes = {"since": since or memory.since, "until": memory.until or until}
    if any(getattr(memory, name) != value for name, value in changes.items()):
        shelf.put(memory.model_copy(update=changes))
