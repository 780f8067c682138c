"""The commands and tools `recall`, `remember`, `goal` and `wander`.

Only what a person said is stored as a person's fact; what a loop rephrases is stored as its own note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel.document.model import root_id
from kernel.errors import DocumentError, FractalError, UsageError
from runtime.api.excerpt import excerpt
from runtime.api.remembered import Remembered
from runtime.memory import NOT_CERTAIN
from runtime.secrets.redaction import redact
from runtime.text.lines import flat, shortened

if TYPE_CHECKING:
    from pathlib import Path

    from kernel.loop.hooks import FolderChanges
    from kernel.loop.run_context import RunContext
    from kernel.tools.operations import Result
    from runtime.api.fractal import Fractal
    from runtime.memory.facts.goals import Step
    from runtime.memory.facts.mind import Mind
    from runtime.memory.facts.records import Goal, Memory, Observation
    from runtime.memory.facts.retrieval import Line, Mode

LIMIT = 8
MOST = 100
MODES: Mapping[str, Mode] = {"standard": "standard", "aggregated": "aggregated", "anchors": "multi-anchor"}
PERSON = "person"
ANSWERS = 0.5
"""The likeness from which the best result counts as an answer."""
QUERY_CHARS = 4_000
AT_ONCE = 1_000
"""Paragraphs that are remembered at once."""
SHOWN_CHARS = 400
NOTHING = "I know nothing about that"
PERHAPS = "perhaps: "
"""What a line begins with that is near to a question and does not answer it."""


@dataclass(frozen=True)
class Recalled:
    """A result; `parts` explain its score."""

    id: str
    kind: str  # observation or memory
    text: str
    score: float  # how much of the question it contains, 0 to 1
    rank: float = 0.0  # its share among all candidates
    at: str = ""
    who: str = ""
    source: str = ""
    said: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    why: str = ""
    since: str = ""  # from when it holds, if that is not when it was said
    until: str = ""  # when it ceases to hold
    memory: str = ""  # the id of the memory that it is, or is evidence of
    provenance: str = ""  # from when until when it holds, who said it, when and where, in a few words
    sure: float = 1.0  # how likely it answers the question
    perhaps: bool = False  # nothing is known; this is only near


def mind_of(fractal: Fractal | Remembered) -> Mind:
    """The mind of a workspace, with its clock."""
    from runtime.memory.facts.mind import Mind

    clock = fractal.memory.clock
    return Mind.of(fractal.brain, clock=lambda: clock().isoformat(timespec="milliseconds"))


def _caught_up(fractal: Fractal | Remembered) -> Mind | None:
    """The mind, with the latest runs; None if nothing is remembered."""
    if not fractal.memory.there and not waiting(fractal):
        return None
    if not isinstance(fractal, Remembered):
        fractal.brain.episodes.catch_up()
    return mind_of(fractal)


def recall(
    fractal: Fractal | Remembered, query: str, *, limit: int = LIMIT, mode: str = "standard"
) -> list[Recalled]:
    """What is known about something, the best first. Raises `UsageError` for an invalid query."""
    query = " ".join(query.split())
    if not query:
        raise UsageError("say what to recall, such as: my sister's birthday")
    if len(query) > QUERY_CHARS:
        raise UsageError(f"a question of {len(query)} characters is too long (at most {QUERY_CHARS})")
    if not 1 <= limit <= MOST:
        raise UsageError(f"limit: {limit} is not between 1 and {MOST}")
    if (mind := _caught_up(fractal)) is None:
        return []
    mind.take_in()
    hits = _search(mind, query, limit, mode)
    if known(hits):
        with suppress(FractalError):  # counting uses must not fail a question
            mind.used(_uses(hits))
    return hits


def _uses(hits: Sequence[Recalled]) -> dict[str, tuple[float, int]]:
    """By memory: its score, relative to the best if that is an answer, and how many edges away it was."""
    best = max((each.score for each in hits), default=0.0)
    best = best if best >= ANSWERS else 1.0
    scores = {each.memory: each for each in reversed(hits) if each.memory}
    return {id: (round(each.score / best, 4), int("spread" in each.parts)) for id, each in scores.items()}


def waiting(fractal: Fractal | Remembered) -> bool:
    """Whether memory has not read the latest runs yet."""
    from runtime.memory.episodes.pending import waiting as noted

    return bool(noted(fractal.memory.folder))


def _search(mind: Mind, query: str, limit: int, mode: str) -> list[Recalled]:
    """What answers a question, the best first; if that is unknown, the nearest."""
    from runtime.memory.facts.records import moment, normal
    from runtime.memory.facts.retrieval import answers_of, retrieval_of

    retrieval = retrieval_of(mind.shelf, mind.embedder, mind.systems)
    now = moment(normal(mind.clock()))
    found = answers_of(retrieval, query, limit, mode=MODES[mode], who=PERSON, now=now)
    return [_recalled(each, not found.known) for each in found.lines]


def _recalled(found: Line, perhaps: bool) -> Recalled:
    from runtime.memory.facts.records import Memory

    record, hit, standing = found.record, found.hit, found.standing
    if isinstance(record, Memory):
        values = {"at": record.since, "said": record.held, "memory": record.id}
    else:
        values = {"at": record.at, "said": record.said, "memory": record.memory}
    return Recalled(
        record.id,
        record.KIND,
        record.text,
        score=round(hit.likeness, 4),
        rank=round(hit.score, 6),
        who=record.who,
        source=record.source,
        why=hit.why,
        parts={name: round(value, 4) for name, value in hit.parts.items() if value},
        since=standing.since[:10],
        until=standing.until[:10],
        provenance=found.source,
        sure=round(found.sure, 3),
        perhaps=perhaps,
        **values,
    )


def as_text(hits: Sequence[Recalled], query: str) -> str:
    """Results as a loop reads them: a line each, with the source."""
    lines = [f"- {_marked(each, query)} ({each.provenance})" for each in hits]
    return "\n".join([*([] if known(hits) else [unknown(hits)]), *lines])


def unknown(hits: Sequence[Recalled]) -> str:
    """What is said where nothing answers: what is near may still be right."""
    return NOT_CERTAIN if hits else NOTHING


def _marked(hit: Recalled, query: str) -> str:
    return f"{PERHAPS if hit.perhaps else ''}{excerpt(hit.text, query, SHOWN_CHARS)}"


def remembered(
    fractal: Fractal, criterion: Mapping[str, Any], _folder: Path, _since: FolderChanges | None
) -> tuple[bool, str]:
    """The check of the criterion `remembered`: whether memory has a text as a person said it."""
    from runtime.memory.facts.records import Memory

    text = flat(_clean(str(criterion["text"])))
    there = fractal.memory.there
    found = there and any(flat(each.text) == text for each in fractal.brain.shelf.scan(Memory))
    return bool(found), "memory has it" if found else "memory does not have it"


def known(hits: Sequence[Recalled]) -> bool:
    """Whether these results answer what was asked."""
    return any(not each.perhaps for each in hits)


def _short(text: str) -> str:
    return shortened(flat(text), SHOWN_CHARS)


def remember(
    fractal: Fractal | Remembered,
    text: str,
    *,
    who: str = PERSON,
    at: str = "",
    names: Sequence[str] = (),
    source: str = "person",
) -> Memory:
    """Store what a person said, in their words, without secrets."""
    from runtime.api.spans import moment

    when = moment(at, fractal.memory.clock()) if at else ""
    fields: dict[str, Any] = {"names": tuple(names)} if names else {"names": None}
    return mind_of(fractal).remember(_clean(text), who=who, at=when, source=source, **fields)


def correct(fractal: Fractal | Remembered, id: str, text: str) -> Memory:
    """Store what a person says holds instead of a memory, which it supersedes.

    Raises `UsageError` if there is no such memory, or for an invalid text.
    """
    from runtime.memory.facts.records import Memory

    mind = mind_of(fractal)
    if not fractal.memory.there or mind.shelf.get(Memory, id) is None:
        raise UsageError(f"there is no memory {id}")
    memory = remember(fractal, text)
    if memory.id != id:
        mind.settle(memory.id, id, "a person corrected it")
    return memory


def remember_all(fractal: Fractal | Remembered, text: str, **fields: Any) -> list[Memory]:
    """Store each paragraph of a text separately; all are checked before the first is stored."""
    return [remember(fractal, part, **fields) for part in paragraphs(text)]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text. Raises `UsageError` if there are none, too many, or too long ones."""
    from runtime.memory.facts.mind import LONGEST

    parts = [part.strip() for part in re.split(r"\n[ \t\r]*\n", text) if part.strip()]
    if not parts:
        raise UsageError("there is nothing to remember: the text is empty")
    if len(parts) > AT_ONCE:
        raise UsageError(f"{len(parts)} paragraphs are too many at once (at most {AT_ONCE})")
    for number, part in enumerate(parts, 1):
        if len(part) > LONGEST:
            raise UsageError(f"paragraph {number} has {len(part)} characters (at most {LONGEST})")
    return parts


def _clean(text: str) -> str:
    return redact(text.strip())


def note(fractal: Fractal, text: str, run: str) -> Observation:
    """Store what a loop noted, which is not a person's fact."""
    mind = mind_of(fractal)
    return mind.observe(
        _clean(text), at_once=True, said="note", source=f"run:{run}", names=None, salience=None
    )


def goals(fractal: Fractal, *, past: bool = False) -> list[tuple[Goal, float | None]]:
    """The goals, the most important first, each with its distance from what is known (None: unknown)."""
    if not fractal.memory.there:
        return []
    mind = mind_of(fractal)
    return [(goal, mind.gap(goal)) for goal in mind.goals(past=past)]


def nearness(gap: float | None) -> str:
    """How near a goal is, in words."""
    return "unknown how near" if gap is None else f"{1 - gap:.0%} near"


def goal_by(fractal: Fractal, id: str) -> Goal:
    """A goal by its id or a prefix of it. Raises `UsageError`."""
    all_goals = mind_of(fractal).goals(past=True) if fractal.memory.there else []
    matches = [goal for goal in all_goals if goal.id.startswith(id)] if id else []
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(goal.id[:8] for goal in (matches or all_goals)[:10]) or "none"
    raise UsageError(f"{id!r} is {'more than one goal' if matches else 'no goal'}; there are: {names}")


def wander(fractal: Fractal, about: str, *, steps: int, seed: int) -> list[Step]:
    """A walk through memory."""
    if not 1 <= steps <= MOST:
        raise UsageError(f"steps: {steps} is not between 1 and {MOST}")
    mind = _caught_up(fractal)
    return mind.wander(seed=seed, about=about, steps=steps) if mind else []


async def act_recall(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """A call of the tool `recall`."""
    import asyncio

    from kernel.tools.operations import Result

    limit, mode = int(args.get("limit") or LIMIT), str(args.get("mode") or "standard")
    query = str(args["query"])
    hits = await asyncio.to_thread(recall, fractal, query, limit=limit, mode=mode)
    evidence = {"found": len(hits), "known": known(hits), "ids": [each.id for each in hits]}
    return Result(as_text(hits, query), evidence=evidence)


async def act_remember(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """A call of the tool `remember`: a person's fact if the person said it in this run, else a note."""
    import asyncio

    from kernel.tools.operations import Result

    text = str(args["text"]).strip()
    if not text:
        raise UsageError("text: there is nothing to remember")
    run = run_context.id if run_context else ""
    if run_context is None or _said_by_person(run_context, text):
        at, source = str(args.get("at") or ""), f"run:{run}" if run else "person"
        memory = await asyncio.to_thread(remember, fractal, text, at=at, source=source)
        return Result(f"remembered: {memory.text}", evidence={"memory": memory.id})
    noted = await asyncio.to_thread(note, fractal, text, run)
    return Result(f"noted as this run's own words: {noted.text}", evidence={"observation": noted.id})


def _said_by_person(run_context: RunContext, text: str) -> bool:
    """Whether a person said this in the run."""
    try:
        root = run_context.store.load(root_id(run_context.id))
    except (DocumentError, FractalError):
        return False
    texts = [note.text for note in root.section(1).notes if note.origin == "person" and note.key != "context"]
    plain = " ".join(text.split()).casefold().rstrip(".!")
    return any(plain in " ".join(each.split()).casefold() for each in texts)


async def act_goal(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """A call of the tool `goal`: set one, mark one as reached, or list them."""
    import asyncio

    from kernel.tools.operations import Result

    if args.get("reached"):
        goal = await asyncio.to_thread(goal_by, fractal, str(args["reached"]))
        reached = await asyncio.to_thread(mind_of(fractal).reached, goal.id)
        return Result(f"reached: {reached.text}", evidence={"goal": reached.id})
    if args.get("text"):
        goal = await asyncio.to_thread(mind_of(fractal).set_goal, _clean(str(args["text"])))
        return Result(f"goal {goal.id[:8]}: {goal.text}", evidence={"goal": goal.id})
    listed = await asyncio.to_thread(goals, fractal)
    lines = [f"- {goal.id[:8]}: {_short(goal.text)} ({nearness(gap)})" for goal, gap in listed]
    return Result("\n".join(lines) or "there is no goal", evidence={"goals": len(listed)})


async def act_wander(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """A call of the tool `wander`."""
    import asyncio

    from kernel.tools.operations import Result

    steps, seed = int(args.get("steps") or 6), int(args.get("seed") or 0)
    way = await asyncio.to_thread(wander, fractal, str(args.get("about") or ""), steps=steps, seed=seed)
    return Result(walk_lines(way, str(args.get("about") or "")), evidence={"steps": len(way)})


def walk_lines(walk: Sequence[Step], about: str = "") -> str:
    """A walk, a line for each step, with its reasons."""
    texts = [f"{_short(each.memory.text)} ({', '.join(each.why) or 'by chance'})" for each in walk]
    lines = [f"{n}. {text}" for n, text in enumerate(texts, 1)]
    return "\n".join(lines) or (NOTHING if about else "there is nothing to walk through yet")
