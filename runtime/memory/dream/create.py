"""Create: observations that found no memory become memories, those that belong together one.

The reference engine makes ten a cycle. An ordinary day of conversation has more, and what is not made into
memories stays a node of its own, so the only bound here is how many observations one dream looks at. A turn
by itself becomes a memory when it surprises; else it stays as it is, and later dreams look at it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.memory.dream.cluster import short
from runtime.memory.dream.exchanges import exchanges
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.dream.work import Work
from runtime.memory.semantic import gate
from runtime.memory.semantic.gate import Routed
from runtime.memory.semantic.keeping import FIRST, digest
from runtime.memory.semantic.links import link
from runtime.memory.semantic.records import Memory, Observation

SALIENT = 0.2
"""A turn by itself that matters less does not become a memory."""
SAME = 0.95
"""The cosine from which an exchange is one that was had before."""
FOLLOWS = 0.5
RELATED = 0.6
"""Weights of the edges to what was said before, and to what is known of the same."""


def create(dream: Dream) -> Told:
    """Make memories of what is new and has none."""
    work = Work(dream)
    new = [each for each in work.new() if each.vector(work.name) is not None]
    work.expect(new)
    groups = exchanges(new, work)
    counts = {"made": 0, "of observations": 0, "merged": 0, "left": 0, "edges": 0, "contradictions": 0}
    did: list[str] = []
    before: dict[tuple[str, str], Memory] = {}
    for group in groups:
        made = _placed(work, group, counts, did)
        if made is None:
            continue
        where = (made.agent, group[0].thread)
        last = before.get(where)
        if group[0].thread and last is not None and last.id != made.id:
            text = f"said next, {group[0].at[:10]}"
            link(work.shelf, made.id, last.id, "follows", text=text, weight=FOLLOWS, at=work.now)
            counts["edges"] += 1
        before[where] = made
    counts["refused"] = len(work.refused)
    return Told([*did, *work.refused], counts, work.form)


def _placed(
    work: Work, group: Sequence[Observation], counts: dict[str, int], did: list[str]
) -> Memory | None:
    """The memory that a group has become, or has become evidence of; None when it is left as it is."""
    agent, first = group[0].agent, group[0]
    routed = work.routed(first) if len(group) == 1 else None
    if (known := _same(work, group, routed)) is not None:
        counts["merged"] += len(group)
        did.append(f"“{short(first.text)}” says what is known: “{short(known.text)}”")
        return work.attach(group, known)
    near = work.nearest(agent, work.middle(group), gate.NEAR + gate.AROUND)
    here = work.thresholds.around(gate.density_of([score for _, score in near]))
    score = near[0][1] if near else 0.0
    surprises = routed.route == "novel" if routed else score <= here.link
    contrary = bool(routed and routed.contrary)
    matters = first.salience >= SALIENT and work.tells(first)
    if len(group) == 1 and not contrary and not (surprises and matters):
        work.shelf.put(first.model_copy(update={"left": first.left + 1}))
        counts["left"] += 1
        return None
    memory = made(work, group)
    counts["made"] += 1
    counts["of observations"] += len(group)
    did.append(f"“{short(memory.text)}” is new, from {len(group)}")
    work.near[agent].put(memory.id, memory.vector(work.name))
    if routed:
        counts["contradictions"] += work.settle(memory, routed.contrary)
    if near and not surprises and not contrary:
        text = f"of the same, {score:.2f}"
        link(work.shelf, memory.id, near[0][0], "related", text=text, weight=RELATED, at=work.now)
        counts["edges"] += 1
    return memory


def _same(work: Work, group: Sequence[Observation], routed: Routed | None) -> Memory | None:
    """The memory that says the same already; several turns together have to be very near."""
    if routed is not None:
        found = work.shelf.get(Memory, routed.memory) if routed.route == "merge" else None
        return found if found is not None and not work.may_join(group, found) else None
    near = work.nearest(group[0].agent, work.middle(group))
    for memory in work.shelf.pick(Memory, [id for id, score in near if score > SAME]):
        if not work.may_join(group, memory):
            return memory
    return None


def made(work: Work, group: Sequence[Observation]) -> Memory:
    """A memory of some observations that belong together."""
    several = len({each.who for each in group}) > 1
    memory = Memory(
        id=digest("exchange", *(each.id for each in group)),
        text=work.wording(group),
        held="fact" if all(each.said == "fact" for each in group) else "event",
        who="" if several else group[0].who,
        evidence=tuple(each.id for each in group),
        names=tuple(dict.fromkeys(name for each in group for name in (each.who, *each.names) if name)),
        since=group[0].at,
        created=work.now,
        changed=work.now,
        confidence=FIRST,
        salience=max(each.salience for each in group),
        source=group[0].source,
        agent=group[0].agent,
    )
    memory = work.placed(memory, group)
    work.shelf.put(memory, *(each.model_copy(update={"memory": memory.id}) for each in group))
    return memory
