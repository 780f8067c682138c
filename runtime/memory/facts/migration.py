"""From format 1 to 2: what earlier rules merged or left beside each other, though a later fact changes it.

Every memory gets the time from and until which its words say that it holds. Then it is compared with the
earlier ones around it as if it were told at its time, one after the other.
"""

from __future__ import annotations

from pathlib import Path

from kernel.document.escaping import amount
from kernel.events import now
from runtime.memory.facts import gate, graph
from runtime.memory.facts.agreement import Said, agreement
from runtime.memory.facts.claims import valid
from runtime.memory.facts.language import Language, language_of
from runtime.memory.facts.records import MadeBy, Memory, Observation, normal
from runtime.memory.store import Shelf


def settle_all(shelf: Shelf, systems: tuple[Path, ...]) -> str:
    """Settle every contradiction that today's rules see; returns what was done, in words."""
    language, at = language_of(systems), normal(now())
    made_by = shelf.get(MadeBy, "semantic")
    memories = list(shelf.scan(Memory))
    parted = sum(_part(shelf, each, language, at) for each in memories if len(each.evidence) > 1)
    for memory in list(shelf.scan(Memory)):
        _date(shelf, memory, language)
    superseded = 0
    for memory in sorted(shelf.scan(Memory), key=lambda each: (each.since, each.id)):
        superseded += _settle(shelf, memory, made_by.embedder if made_by else "", language, at)
    return (
        f"{amount(len(memories), 'memory', 'memories')} compared, {superseded} superseded by a later one, "
        f"{parted} parted from one that says something else"
    )


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


def _settle(shelf: Shelf, memory: Memory, embedder: str, language: Language, at: str) -> int:
    """Let a memory supersede the earlier ones that it changes; returns how many."""
    vector = memory.vector(embedder)
    if vector is None or memory.superseded:
        return 0
    near = gate.nearest(shelf, embedder, vector, agent=memory.agent, now=memory.since)
    earlier = [
        (other, score) for other, score in near if other.id != memory.id and other.since < memory.since
    ]
    routed = gate.route(gate.said_by(memory), earlier, gate.thresholds_of(embedder), language)
    others = {other.id: other for other, _ in earlier}
    settled = [graph.settle(shelf, memory, others[id], found, language, at) for id, found in routed.contrary]
    return sum(each.past is not None for each in settled)
