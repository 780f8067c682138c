"""What a workspace knows, told and asked: what `fractal recall|remember|goal|wander` and their tools do.

A fact is a person's only where the person said it: what a loop tells memory in other words is its own note.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel.errors import DocumentError, FractalError, UsageError
from kernel.operations import OperationContext, Result
from kernel.screening import redact
from kernel.workspace import root_id
from runtime.remembering.excerpt import excerpt

if TYPE_CHECKING:
    from kernel.world import World
    from runtime.fractal import Fractal
    from runtime.memory.semantic.mind import Mind
    from runtime.memory.semantic.records import Goal, Memory, Observation
    from runtime.memory.semantic.retrieval import Found, Mode
    from runtime.memory.semantic.wander import Step

LIMIT = 8
MOST = 100
MODES: Mapping[str, Mode] = {"standard": "standard", "aggregated": "aggregated", "anchors": "multi-anchor"}
PERSON = "person"
LIKE = 0.3
"""How much of a question has to stand in what is shown, by words or meaning (0 to 1)."""
BESIDE = 0.01
"""Of the best's share in all that may answer, what another has at least that came along an edge alone."""
ANSWERS = 0.5
"""From here on the best of what is found is taken for an answer."""
QUERY_CHARS = 4_000
AT_ONCE = 1_000
"""Things that are remembered in one go; more of them are a data set."""
SHOWN_CHARS = 400
NOTHING = "nothing is known of that"


@dataclass(frozen=True)
class Recalled:
    """Something that memory has for a question; `parts` say how its score came about."""

    id: str
    kind: str  # observation or memory
    text: str
    score: float  # how much of the question stands in it, 0 to 1
    rank: float = 0.0  # its share among all that may answer
    at: str = ""
    who: str = ""
    source: str = ""
    said: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    why: str = ""
    until: str = ""  # when it ceased to be so
    memory: str = ""  # the id of the memory that it is, or has become evidence of

    @property
    def whence(self) -> str:
        """Who said it, when, and where it stands, in a few words."""
        who = "you" if self.who == PERSON else self.who
        past = f"no longer so ({self.until})" if self.until else ""
        told = [past, self.said, f"said by {who}" if who else "", self.at[:10], self.source]
        return ", ".join(each for each in told if each)


def mind_of(fractal: Fractal) -> Mind:
    """The mind of a workspace, which reads the time where the workspace does."""
    from runtime.memory.semantic.mind import Mind

    clock = fractal.memory.clock
    return Mind.of(fractal.brain, clock=lambda: clock().isoformat(timespec="milliseconds"))


# ---- recall ----------------------------------------------------------------------------------------------


def recall(fractal: Fractal, query: str, *, limit: int = LIMIT, mode: str = "standard") -> list[Recalled]:
    """What is known of something, the best first. Raises `UsageError` for a query that is none."""
    query = " ".join(query.split())
    if not query:
        raise UsageError("say what is to be recalled, such as: my sister's birthday")
    if len(query) > QUERY_CHARS:
        raise UsageError(f"a question of {len(query)} characters is too long; {QUERY_CHARS} are the most")
    if mode not in MODES:
        raise UsageError(f"mode: {mode!r} is not {', '.join(MODES)}")
    if not 1 <= limit <= MOST:
        raise UsageError(f"limit: {limit} is not from 1 to {MOST}")
    if not fractal.memory.there and not waiting(fractal):
        return []
    fractal.brain.episodes.catch_up()
    mind = mind_of(fractal)
    mind.take_in()
    found = _found(mind, query, limit, mode)
    with suppress(FractalError):  # what was of use is counted, where that can be written
        mind.used(_uses(found))
    return found


def _uses(found: Sequence[Recalled]) -> dict[str, tuple[float, int]]:
    """How well each memory did for a question, and how far away it was; beside a good answer others are less.

    How much of a question stands in an answer depends on how it is put; so where the best one answers it, the
    others are held against that one.
    """
    best = max((each.score for each in found), default=0.0)
    best = best if best >= ANSWERS else 1.0
    scores = {each.memory: each for each in reversed(found) if each.memory}
    return {id: (round(each.score / best, 4), int("spread" in each.parts)) for id, each in scores.items()}


def waiting(fractal: Fractal) -> bool:
    """Whether runs have ended that memory has not taken in."""
    from runtime.memory.noted import waiting as noted

    return bool(noted(fractal.memory.folder))


def _found(mind: Mind, query: str, limit: int, mode: str) -> list[Recalled]:
    """What answers a question, each thing once; what no longer holds says so and stands behind the rest."""
    from runtime.memory.semantic.dates import moment, normal
    from runtime.memory.semantic.records import Memory, Observation
    from runtime.memory.semantic.retrieval import once, search

    told = {"systems": mind.settings.systems, "who": PERSON, "now": moment(normal(mind.clock()))}
    hits = search(mind.shelf, mind.embedder, query, 3 * limit, mode=MODES[mode], **told)
    memories = {each.id: each for each in mind.shelf.pick(Memory, [hit.id for hit in hits])}
    said = {each.id: each for each in mind.shelf.pick(Observation, [hit.id for hit in hits])}
    records = {**said, **memories}
    least = BESIDE * max((hit.score for hit in hits), default=0.0)
    fitting = [hit for hit in hits if hit.likeness >= LIKE or ("spread" in hit.parts and hit.score >= least)]
    made_of = {id: each.evidence for id, each in memories.items()}
    found = [_recalled(records[hit.id], hit) for hit in once(fitting, made_of) if hit.id in records]
    return sorted(found, key=lambda found: bool(found.until))[:limit]


def _recalled(each: Memory | Observation, hit: Found) -> Recalled:
    from runtime.memory.semantic.records import Memory

    whose = {
        "who": each.who,
        "source": each.source,
        "score": round(hit.likeness, 4),
        "rank": round(hit.score, 6),
    }
    parts = {name: round(value, 4) for name, value in hit.parts.items() if value}
    told = {"id": each.id, "kind": each.KIND, "text": each.text, "parts": parts, "why": hit.why, **whose}
    if isinstance(each, Memory):
        past = each.until[:10] or ("later" if each.superseded else "")
        return Recalled(**told, at=each.since, said=each.held, until=past, memory=each.id)
    return Recalled(**told, at=each.at, said=each.said, memory=each.memory)


def told(found: Sequence[Recalled], query: str) -> str:
    """What was recalled, as a loop reads it: a line each, with where it came from."""
    if not found:
        return NOTHING
    return "\n".join(f"- {excerpt(each.text, query, SHOWN_CHARS)} ({each.whence})" for each in found)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"


# ---- remember --------------------------------------------------------------------------------------------


def remember(
    fractal: Fractal,
    text: str,
    *,
    who: str = PERSON,
    at: str = "",
    names: Sequence[str] = (),
    source: str = "person",
) -> Memory:
    """Keep what a person said, in their words, without the secrets in it."""
    from runtime.remembering.dreaming import moment

    when = moment(at, fractal.memory.clock()) if at else ""
    fields: dict[str, Any] = {"names": tuple(names)} if names else {"names": None}
    return mind_of(fractal).remember(_clean(text), who=who, at=when, source=source, **fields)


def remember_all(fractal: Fractal, text: str, **fields: Any) -> list[Memory]:
    """Each paragraph of a text by itself; all are looked at before the first is kept."""
    from runtime.memory.semantic.mind import LONGEST

    parts = [part.strip() for part in re.split(r"\n[ \t\r]*\n", text) if part.strip()]
    if not parts:
        raise UsageError("there is nothing to remember: the text is empty")
    if len(parts) > AT_ONCE:
        raise UsageError(f"{len(parts)} paragraphs are too many at once; {AT_ONCE} are the most")
    for number, part in enumerate(parts, 1):
        if len(part) > LONGEST:
            raise UsageError(
                f"paragraph {number} has {len(part)} characters; {LONGEST} are the most of one thing"
            )
    return [remember(fractal, part, **fields) for part in parts]


def _clean(text: str) -> str:
    return redact(text.strip(), os.environ)


def note(fractal: Fractal, text: str, run: str) -> Observation:
    """Keep what a loop noted: no person's fact, and so weighed as what it is."""
    mind = mind_of(fractal)
    return mind.observe(
        _clean(text), at_once=True, said="note", source=f"run:{run}", names=None, salience=None
    )


# ---- goals and walks -------------------------------------------------------------------------------------


def goals(fractal: Fractal, *, past: bool = False) -> list[tuple[Goal, float]]:
    """The goals, the most important first, each with how far it is from what is believed (0 to 1)."""
    if not fractal.memory.there:
        return []
    mind = mind_of(fractal)
    return [(goal, mind.gap(goal)) for goal in mind.goals(past=past)]


def goal_by(fractal: Fractal, id: str) -> Goal:
    """A goal by its id or the beginning of it. Raises `UsageError`."""
    known = mind_of(fractal).goals(past=True) if fractal.memory.there else []
    found = [goal for goal in known if goal.id.startswith(id)] if id else []
    if len(found) == 1:
        return found[0]
    names = ", ".join(goal.id[:8] for goal in (found or known)[:10]) or "none"
    raise UsageError(f"{id!r} is {'more than one goal' if found else 'no goal'}; there are: {names}")


def wander(fractal: Fractal, about: str, *, steps: int, seed: int) -> list[Step]:
    """A walk through what is known."""
    if not 1 <= steps <= MOST:
        raise UsageError(f"steps: {steps} is not from 1 to {MOST}")
    if not fractal.memory.there and not waiting(fractal):
        return []
    fractal.brain.episodes.catch_up()
    return mind_of(fractal).wander(seed=seed, about=about, steps=steps)


# ---- the tools -------------------------------------------------------------------------------------------


async def act_recall(
    fractal: Fractal, world: World | None, ctx: OperationContext, args: Mapping[str, Any]
) -> Result:
    """A call of the tool `recall`."""
    limit, mode = int(args.get("limit") or LIMIT), str(args.get("mode") or "standard")
    query = str(args["query"])
    found = await asyncio.to_thread(recall, fractal, query, limit=limit, mode=mode)
    return Result(told(found, query), evidence={"found": len(found), "ids": [each.id for each in found]})


async def act_remember(
    fractal: Fractal, world: World | None, ctx: OperationContext, args: Mapping[str, Any]
) -> Result:
    """A call of the tool `remember`: a person's fact where the person said it in this run, else a note."""
    text = str(args["text"]).strip()
    if not text:
        raise UsageError("text: there is nothing to remember")
    run = world.run if world else ""
    if world is None or _said_by_person(world, text):
        at, source = str(args.get("at") or ""), f"run:{run}" if run else "person"
        kept = await asyncio.to_thread(remember, fractal, text, at=at, source=source)
        return Result(f"remembered: {kept.text}", evidence={"memory": kept.id})
    noted = await asyncio.to_thread(note, fractal, text, run)
    return Result(f"noted as this run's own words: {noted.text}", evidence={"observation": noted.id})


def _said_by_person(world: World, text: str) -> bool:
    """Whether a person said this in the run, in the task or since."""
    try:
        root = world.store.load(root_id(world.run))
    except (DocumentError, FractalError):
        return False
    said = [note.text for note in root.section(1).notes if note.origin == "person" and note.key != "context"]
    plain = " ".join(text.split()).casefold().rstrip(".!")
    return any(plain in " ".join(each.split()).casefold() for each in said)


async def act_goal(
    fractal: Fractal, world: World | None, ctx: OperationContext, args: Mapping[str, Any]
) -> Result:
    """A call of the tool `goal`: set one, say that one is reached, or list them."""
    if args.get("reached"):
        goal = await asyncio.to_thread(goal_by, fractal, str(args["reached"]))
        reached = await asyncio.to_thread(mind_of(fractal).reached, goal.id)
        return Result(f"reached: {reached.text}", evidence={"goal": reached.id})
    if args.get("text"):
        goal = await asyncio.to_thread(mind_of(fractal).set_goal, _clean(str(args["text"])))
        return Result(f"goal {goal.id[:8]}: {goal.text}", evidence={"goal": goal.id})
    found = await asyncio.to_thread(goals, fractal)
    lines = [f"- {goal.id[:8]}: {_short(goal.text)} ({1 - gap:.0%} near)" for goal, gap in found]
    return Result("\n".join(lines) or "there is no goal", evidence={"goals": len(found)})


async def act_wander(
    fractal: Fractal, world: World | None, ctx: OperationContext, args: Mapping[str, Any]
) -> Result:
    """A call of the tool `wander`."""
    steps, seed = int(args.get("steps") or 6), int(args.get("seed") or 0)
    way = await asyncio.to_thread(wander, fractal, str(args.get("about") or ""), steps=steps, seed=seed)
    return Result(walked(way), evidence={"steps": len(way)})


def walked(way: Sequence[Step]) -> str:
    """A walk, a line a step, with what drew it there."""
    lines = [
        f"{n}. {_short(each.memory.text)} ({', '.join(each.why) or 'by chance'})"
        for n, each in enumerate(way, 1)
    ]
    return "\n".join(lines) or "there is nothing to walk through yet"
