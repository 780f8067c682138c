"""Observations and memories as they are made, merged and dated: ids that are the same for the same.

Everything here is done inside one transaction of the shelf, so that two processes at once come to the same.
"""

from __future__ import annotations

import hashlib
import re

from runtime.memory.semantic.records import DEFAULT, Memory, Observation
from runtime.memory.semantic.values import canonical
from runtime.store import Shelf

FIRST = 0.5
"""Confidence in a memory that nobody told as a fact."""
TOLD = 0.8
"""Confidence in what a person asked to remember."""
MORE = 0.3
"""Which part of the remaining doubt further evidence takes away."""
_I = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)


def digest(*parts: str) -> str:
    """A short name for some texts."""
    raw = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:24]


def observation_id(text: str, *, at: str, who: str, source: str, thread: str, turn: int, agent: str) -> str:
    """The same for the same words of the same person in the same place, whenever they are noted."""
    return digest(agent, source, thread, str(turn), who, at, text)


def memory_id(text: str, who: str = "", agent: str = DEFAULT) -> str:
    """The same for the same words and values; who said it matters where it speaks of `I`."""
    return digest(agent, who.casefold() if _I.search(text) else "", canonical(text))


def create(shelf: Shelf, observation: Observation, now: str, **fields: object) -> Memory:
    """The memory that says what an observation says: made, or given this evidence where it is there.

    What was superseded stays so: said again after it ended, it is a memory of its own.
    """
    first = memory_id(observation.text, observation.who, observation.agent)
    with shelf.transaction():
        id, count = first, 1
        while (known := shelf.get(Memory, id)) is not None:
            if observation.id in known.evidence:
                return known
            if not known.until or (observation.at and observation.at < known.until):
                return merge(shelf, observation, known, now)
            count += 1
            id = f"{first}~{count}"
        told = {
            "names": observation.names,
            "salience": observation.salience,
            "confidence": FIRST,
            "source": observation.source,
            **fields,
        }
        memory = Memory(
            id=id,
            text=observation.text,
            vectors=observation.vectors,
            evidence=(observation.id,),
            who=observation.who,
            since=observation.at,
            created=now,
            changed=now,
            agent=observation.agent,
            **told,  # pyright: ignore[reportArgumentType]
        )
        shelf.put(memory, observation.model_copy(update={"memory": id}))
    return memory


def merge(shelf: Shelf, observation: Observation, memory: Memory, now: str) -> Memory:
    """The memory with an observation among its evidence; the same one again changes nothing."""
    with shelf.transaction():
        known = shelf.get(Memory, memory.id) or memory
        if observation.id in known.evidence:
            return known
        dated = {each.id: each.at for each in shelf.pick(Observation, known.evidence)}
        dated[observation.id] = observation.at
        evidence = sorted((*known.evidence, observation.id), key=lambda id: (dated.get(id, ""), id))
        merged = known.model_copy(
            update={
                "evidence": tuple(evidence),
                "names": tuple(dict.fromkeys((*known.names, *observation.names))),
                "since": min(filter(None, (known.since, observation.at)), default=""),
                "salience": max(known.salience, observation.salience),
                "confidence": round(known.confidence + MORE * (1 - known.confidence), 6),
                "changed": now,
            }
        )
        shelf.put(merged, observation.model_copy(update={"memory": known.id}))
    return merged
