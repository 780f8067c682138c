"""Phase a: observations find their place. Cluster and refine use known memories, create makes new ones.

Turns of a conversation that belong together (an exchange) become one memory: an answer says little without
its question. The memory is found by all of their words, and leads to each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from runtime.memory.dream.gist import LONGEST, keywords
from runtime.memory.dream.stages import Dream, StageResult, short
from runtime.memory.dream.work import MUCH, OTHER, Work
from runtime.memory.facts import gate
from runtime.memory.facts.graph import FIRST, digest, edges_of, link, merge
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Edge, Memory, Observation, moment

MOST = 4
"""Turns of an exchange that say something: question, answer, reaction. Of 2, 3 and 4, 4 left the fewest
nodes, and found most again."""
TOGETHER = {"minilm": 0.3, "lexical": 0.1}
"""The cosine from which a turn belongs to the one before it, by embedder."""
TOGETHER_OTHER = 0.15
PAUSE = timedelta(minutes=30)
"""The silence after which a new exchange begins."""


def exchanges(observations: Sequence[Observation], work: Work) -> list[list[Observation]]:
    """Groups of observations, by time; most that are no turns of a conversation stand alone."""
    order = sorted(observations, key=lambda each: (each.agent, each.thread, each.turn, each.at, each.id))
    near = work.of_embedder(TOGETHER, TOGETHER_OTHER)
    groups: list[list[Observation]] = []
    for turn in order:
        group = groups[-1] if groups else []
        if group and _belongs(group, turn, near, work) and all(work.agree(one, turn) for one in group):
            group.append(turn)
        else:
            groups.append([turn])
    return sorted(groups, key=lambda group: (group[0].at, group[0].thread, group[0].turn, group[0].id))


def _belongs(group: Sequence[Observation], turn: Observation, near: float, work: Work) -> bool:
    last = group[-1]
    if "fact" in (last.said, turn.said):
        return False  # each fact may change by itself
    if not turn.thread or (last.agent, last.thread, last.turn + 1) != (
        turn.agent,
        turn.thread,
        turn.turn,
    ):
        return False
    if last.at and turn.at and moment(turn.at) - moment(last.at) > PAUSE:
        return False
    if sum(len(one.text) for one in (*group, turn)) > LONGEST:
        return False
    if not keywords(turn.text, work.empty):
        return len(group) < 2 * MOST
    if sum(bool(keywords(one.text, work.empty)) for one in group) >= MOST:
        return False
    if last.who != turn.who and last.text.rstrip(" \"'”’)").endswith("?"):
        return True
    one, other = last.vector(work.name), turn.vector(work.name)
    return one is not None and other is not None and float(one @ other) >= near


DENSE = 0.15
"""How much density raises the threshold: where memories lie dense, what is near is near to everything."""


def cluster(dream: Dream) -> StageResult:
    """Make new observations evidence of the memories that they are near to and agree with.

    An exchange stays together. Those that concern a goal come first, the others by time.
    """
    work = Work(dream)
    Mind(work.shelf, work.embedder, clock=lambda: work.now, systems=work.systems).take_in()
    new = work.new()
    counts = {"new": len(new), "clustered": 0, "values differ": 0, "alone": 0}
    did: list[str] = []
    order = {each.id: place for place, each in enumerate(new)}
    comparable = [each for each in new if each.agent in work.near and each.vector(work.name) is not None]
    for group in sorted(exchanges(comparable, work), key=lambda group: order[group[0].id]):
        memory, why = _memory_for(work, group)
        if memory is not None:
            merge(work.shelf, group, memory, work.now, unread=True)
            counts["clustered"] += len(group)
            did.append(f"“{short(group[0].text)}” is evidence of “{short(memory.text)}”")
        elif why in counts:
            counts[why] += len(group)
    return StageResult(did, counts)


def _memory_for(work: Work, group: Sequence[Observation]) -> tuple[Memory | None, str]:
    """The memory that some observations are evidence of, else why there is none.

    How near is enough depends on the density around; a memory with few edges takes only what is very near.
    """
    near = work.nearest(group[0].agent, work.middle(group))
    if not near:
        return None, "nothing is known"
    density = sum(score for _, score in near) / len(near)
    least = work.joins + DENSE * (density - 0.5)
    scores = {id: score for id, score in near if score >= least}
    reason = "nothing is near"
    for memory in work.shelf.pick(Memory, scores):
        if not gate.congruent(work.shelf, memory, scores[memory.id], work.sure):
            reason = "alone"
        elif why := work.why_separate(group, memory):
            reason = why if why in (MUCH, OTHER) else "values differ"
        else:
            return memory, ""
    return None, reason


EDGES = 5
"""Edges of a memory that are checked again."""
WEAKER = 0.3
"""What remains of the weight of an edge that no longer holds."""
GENERIC = ("related", "follows", "derived")
"""Relations that say nothing a wording could contradict."""


def refine(dream: Dream) -> StageResult:
    """Reword memories whose wording does not cover their evidence; edges that no longer hold weigh less."""
    work = Work(dream)
    stale = [each for each in work.shelf.scan(Memory) if each.unread]
    stale.sort(key=lambda each: (-each.salience, each.id))
    counts = {"refined": 0, "as before": 0, "edges looked at": 0, "invalidated": 0}
    did: list[str] = []
    for memory in stale:
        evidence = work.shelf.pick(Observation, memory.evidence)
        text = work.wording(evidence, memory.text) if evidence else memory.text
        counts["as before" if text == memory.text else "refined"] += 1
        new = memory.model_copy(update={"text": text, "unread": (), "changed": work.now})
        if evidence:
            new = work.with_mean_vector(new, evidence)
        work.shelf.put(new)
        if text != memory.text and not dream.waits():
            did.append(f"“{short(memory.text)}” is now “{short(text)}”")
            _check_edges(work, new, counts, did)
    return StageResult([*did, *work.refused], {**counts, "refused": len(work.refused)}, work.form)


def _check_edges(work: Work, memory: Memory, counts: dict[str, int], did: list[str]) -> None:
    edges = edges_of(work.shelf, [memory.id])[memory.id]
    edges = [edge for edge in edges if edge.relation not in GENERIC and not edge.invalidated]
    for edge in sorted(edges, key=lambda edge: (-edge.weight, edge.id))[:EDGES]:
        counts["edges looked at"] += 1
        other = work.shelf.get(Memory, edge.target if edge.source == memory.id else edge.source)
        if other is not None and (why := _broken(work, memory, other, edge)):
            counts["invalidated"] += 1
            did.append(f"“{short(memory.text)}” {edge.relation} “{short(other.text)}” no longer: {why}")
            weaker = {"weight": round(edge.weight * WEAKER, 6), "invalidated": f"{why} ({work.now})"}
            work.shelf.put(edge.model_copy(update=weaker))


def _broken(work: Work, memory: Memory, other: Memory, edge: Edge) -> str:
    """Why an edge no longer holds; "" while it does. Without a model: the two have no word in common."""
    if work.may_ask():
        slots = {"relation": edge.relation, "one": memory.text, "other": other.text}
        reply = work.answer("edge", {**slots, "evidence": edge.text or "none"})
        if isinstance(reply.get("holds"), bool):
            work.form = "model"
            return "" if reply["holds"] else short(str(reply.get("why", ""))) or "a model says so"
    together = keywords(memory.text, work.empty) & keywords(other.text, work.empty)
    return "" if together else "no word in common"


SALIENT = 0.2
"""The salience from which a single turn may become a memory."""
SAME = 0.95
"""The cosine from which an exchange repeats an earlier one."""
FOLLOWS = 0.5
RELATED = 0.6
"""Weights of the edges to what was said before, and to what is known about the same."""


def create(dream: Dream) -> StageResult:
    """Make memories of what is new and belongs to none, exchanges as one.

    The reference engine makes ten a cycle; here the only bound is how many observations one dream looks at. A
    fact that a person stated becomes a memory, another single observation only if it surprises; else later
    dreams look at it again.
    """
    work = Work(dream)
    new = [each for each in work.new() if each.vector(work.name) is not None]
    work.expect(new)
    counts = {"made": 0, "of observations": 0, "merged": 0, "left": 0, "edges": 0, "superseded": 0}
    did: list[str] = []
    before: dict[tuple[str, str], Memory] = {}
    for group in exchanges(new, work):
        memory = _place(work, group, counts, did)
        if memory is None:
            continue
        thread = (memory.agent, group[0].thread)
        last = before.get(thread)
        if group[0].thread and last is not None and last.id != memory.id:
            text = f"said next, {group[0].at[:10]}"
            link(work.shelf, memory.id, last.id, "follows", text=text, weight=FOLLOWS, at=work.now)
            counts["edges"] += 1
        before[thread] = memory
    return StageResult([*did, *work.refused], {**counts, "refused": len(work.refused)}, work.form)


def _place(work: Work, group: Sequence[Observation], counts: dict[str, int], did: list[str]) -> Memory | None:
    """The memory that a group becomes, or becomes evidence of; None if it is left as it is."""
    agent, first = group[0].agent, group[0]
    routed = work.routed(first) if len(group) == 1 else None
    if (existing := _same(work, group, routed)) is not None:
        counts["merged"] += len(group)
        did.append(f"“{short(first.text)}” says what is known: “{short(existing.text)}”")
        return merge(work.shelf, group, existing, work.now, unread=True)
    near = work.nearest(agent, work.middle(group), gate.NEAR + gate.AROUND)
    here = work.thresholds.around(gate.density_of([score for _, score in near]))
    score = near[0][1] if near else 0.0
    surprises = routed.route == "novel" if routed else score <= here.link
    stated = first.said == "fact"
    replaced = routed.replaced if routed and stated else ()
    matters = first.salience >= SALIENT and bool(keywords(first.text, work.empty))
    if len(group) == 1 and not stated and not (surprises and matters):
        work.shelf.put(first.model_copy(update={"left": first.left + 1}))
        counts["left"] += 1
        return None
    memory = _new_memory(work, group)
    counts["made"] += 1
    counts["of observations"] += len(group)
    did.append(f"“{short(memory.text)}” is new, from {len(group)}")
    work.near[agent].add(memory.id, memory.vector(work.name))
    counts["superseded"] += work.settle(memory, replaced)
    if near and not surprises and not replaced:
        text = f"of the same, {score:.2f}"
        link(work.shelf, memory.id, near[0][0], "related", text=text, weight=RELATED, at=work.now)
        counts["edges"] += 1
    return memory


def _same(work: Work, group: Sequence[Observation], routed: gate.Routed | None) -> Memory | None:
    """The memory that already says the same; several turns together have to be very near."""
    if routed is not None:
        ids = [routed.memory] if routed.route == "merge" else []
    else:
        ids = [id for id, score in work.nearest(group[0].agent, work.middle(group)) if score > SAME]
    return next((each for each in work.shelf.pick(Memory, ids) if not work.why_separate(group, each)), None)


def _new_memory(work: Work, group: Sequence[Observation]) -> Memory:
    many_speakers = len({each.who for each in group}) > 1
    memory = Memory(
        id=digest("exchange", *(each.id for each in group)),
        text=work.wording(group),
        held="fact" if all(each.said == "fact" for each in group) else "event",
        who="" if many_speakers else group[0].who,
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
    memory = work.with_mean_vector(memory, group)
    work.shelf.put(memory, *(each.model_copy(update={"memory": memory.id}) for each in group))
    return memory
