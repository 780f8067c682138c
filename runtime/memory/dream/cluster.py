"""Cluster: new observations become evidence of the memories that they are near to and agree with.

Those that concern a goal come first, the others in the order of time. How near is enough depends on how dense
it is around; a memory that stands nearly alone takes only what is very near.
"""

from __future__ import annotations

from typing import Any

from runtime.memory.dream.stage import Dream, Told
from runtime.memory.dream.work import Work
from runtime.memory.semantic.links import degrees
from runtime.memory.semantic.records import Memory, Observation

CONGRUENT, SURE = 2, 0.80
"""A memory with fewer edges than this takes what is at least so near. Source: the reference engine."""
DENSE = 0.15
"""How much the density around moves the threshold: where it is dense, what is near is near to everything."""


def cluster(dream: Dream) -> Told:
    """Route what is new to the memories that are there."""
    work = Work(dream)
    for agent in sorted({each.agent for each in work.shelf.scan(Observation, {"memory": ""})}):
        work.mind(agent).take_in()
        break  # what waits is taken in for all agents
    new = work.new()
    counts = {"new": len(new), "clustered": 0, "values differ": 0, "alone": 0}
    did: list[str] = []
    for each in new:
        memory, why = home(work, each)
        if memory is not None:
            work.attach([each], memory)
            counts["clustered"] += 1
            did.append(f"“{short(each.text)}” is evidence of “{short(memory.text)}”")
        elif why in counts:
            counts[why] += 1
    return Told(did, counts)


def home(work: Work, observation: Observation) -> tuple[Memory | None, str]:
    """The memory that an observation is evidence of, else why there is none."""
    vector: Any = observation.vector(work.name)
    if vector is None:
        return None, "no vector"
    near = work.nearest(observation.agent, vector)
    if not near:
        return None, "nothing is known"
    density = sum(score for _, score in near) / len(near)
    least = work.joins + DENSE * (density - 0.5)
    near = [(id, score) for id, score in near if score >= least]
    edges = degrees(work.shelf, [id for id, score in near if score < SURE])
    reason = "nothing is near"
    for memory in work.shelf.pick(Memory, [id for id, _ in near]):
        score = dict(near)[memory.id]
        if score < SURE and edges[memory.id] < CONGRUENT:
            reason = "alone"
        elif why := work.may_join([observation], memory):
            reason = "values differ" if why != "it has much evidence" else why
        else:
            return memory, ""
    return None, reason


def short(text: str, most: int = 80) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
