"""Cluster: new observations become evidence of the memories that they are near to and agree with.

What was said in one exchange goes together. Those that concern a goal come first, the others in the order of
time. How near is enough depends on how dense
it is around; a memory that stands nearly alone takes only what is very near.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.memory.dream.exchanges import exchanges
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.dream.work import MUCH, Work
from runtime.memory.semantic.congruence import congruent
from runtime.memory.semantic.records import Memory, Observation

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
    order = {each.id: place for place, each in enumerate(new)}
    routed = [each for each in new if each.agent in work.near and each.vector(work.name) is not None]
    groups = exchanges(routed, work)
    for group in sorted(groups, key=lambda group: order[group[0].id]):
        memory, why = home(work, group)
        if memory is not None:
            work.attach(group, memory)
            counts["clustered"] += len(group)
            did.append(f"“{short(group[0].text)}” is evidence of “{short(memory.text)}”")
        elif why in counts:
            counts[why] += len(group)
    return Told(did, counts)


def home(work: Work, group: Sequence[Observation]) -> tuple[Memory | None, str]:
    """The memory that some observations are evidence of, else why there is none."""
    near = work.nearest(group[0].agent, work.middle(group))
    if not near:
        return None, "nothing is known"
    density = sum(score for _, score in near) / len(near)
    least = work.joins + DENSE * (density - 0.5)
    scores = {id: score for id, score in near if score >= least}
    reason = "nothing is near"
    for memory in work.shelf.pick(Memory, scores):
        if not congruent(work.shelf, memory, scores[memory.id], work.sure):
            reason = "alone"
        elif why := work.may_join(group, memory):
            reason = "values differ" if why != MUCH else why
        else:
            return memory, ""
    return None, reason


def short(text: str, most: int = 80) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
