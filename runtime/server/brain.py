"""/brain: what memory knows, for any agent; and what other agents tell it.

Endpoints that read the store are plain functions, which run in threads; the shelf is safe for these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic, perf_counter
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from kernel.errors import FractalError, StorageError, UsageError
from kernel.events import now
from runtime import __version__
from runtime.memory.context import awareness
from runtime.memory.context.announced import Announced, announce
from runtime.memory.context.context import FILES, OTHERS, PATTERNS, SHARES, TASKS, Context
from runtime.memory.context.sources import from_files
from runtime.memory.dream.stages import DreamRecord
from runtime.memory.episodes.experience import Experience
from runtime.memory.episodes.tally import Tally
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.kinds import kinds_of
from runtime.memory.learning.patterns import Pattern, named, write_practice
from runtime.memory.run_memory import RunMemory
from runtime.secrets.redaction import redact
from runtime.server import schemas
from runtime.server.leaving import Json, Markdown
from runtime.server.service import Served, Service
from runtime.workspace.workspace import DEFAULT

router = APIRouter(tags=["brain"], responses=schemas.refusals(400, 503))

KEYS: Mapping[str, str] = {FILES: "memory", PATTERNS: "patterns", TASKS: "experiences", OTHERS: "swarm"}
"""The parts of a context as the API names them. Source: the seed's §3.5."""
HEADINGS: Mapping[str, str] = {
    FILES: "Facts and files that the task needs",
    PATTERNS: "Learned patterns (from past experience)",
    TASKS: "Similar past tasks",
    OTHERS: "What others do now",
}
MEDIUM = 8
"""Samples from which a recommendation is of medium confidence."""
PATTERNS_SHOWN = 5


async def _remembers(service: Served) -> None:
    if not service.fractal.config.remember:
        raise UsageError("this workspace remembers nothing (remember: false), so it takes no reports")


Remembers = Depends(_remembers)
"""What an endpoint needs that writes to memory."""


@router.post("/context")
def context(asked: schemas.ContextRequest, service: Served) -> schemas.ContextResponse:
    """What memory has for a task: facts and files, patterns, similar tasks, and what others do now."""
    began = perf_counter()
    found, degraded = _context(service, asked)
    shown = [part for part in found.parts if part.shown]
    return schemas.ContextResponse(
        context="\n\n".join(f"## {HEADINGS[part.name]}\n\n{part.text}" for part in shown),
        token_count=found.tokens,
        breakdown={KEYS[part.name]: part.tokens for part in found.parts},
        shares={KEYS[name]: share for name, share in SHARES.items()},
        sources=[
            schemas.Source(part=KEYS[part.name], text=line.text, source=line.source, why=line.why)
            for part in shown
            for line, _ in part.shown
        ],
        degraded=degraded,
        latency_ms=round((perf_counter() - began) * 1000, 1),
    )


def _context(service: Service, asked: schemas.ContextRequest) -> tuple[Context, str]:
    """The context, and why it is of files alone, if so."""
    fractal, memory = service.fractal, service.fractal.memory
    agent, space = asked.agent_type or "", asked.swarm_name or ""
    library = memory.library_of(named(agent)) if agent else memory.library
    room = asked.max_tokens - 10 * len(SHARES)  # for the headings
    why = ""
    try:
        if memory.there:
            left_out = {
                PATTERNS: not asked.include_patterns,
                TASKS: not asked.include_experiences,
                OTHERS: not asked.include_swarm_state,
            }
            sources = memory.sources(fractal.workspace.folder)
            parts = [each for each in sources.parts if not left_out.get(each)]
            sources = replace(sources, library=library, parts=parts, agent=agent, space=space)
            with service.recalling:
                return sources.context(asked.task_prompt, room), ""
    except StorageError as error:
        why = f"the store cannot be used, so this is of markdown files alone: {error}"
    runs = fractal.workspace.runs
    return from_files(library, fractal.systems, runs, asked.task_prompt, room, space), why


# ---- patterns ----


@router.get("/patterns/export", response_model=None)
def export(service: Served, format: Annotated[Literal["markdown", "json"], Query()] = "markdown") -> Response:
    """All patterns as one markdown file that `fractal learn --import` reads; or as JSON by task type."""
    patterns = service.fractal.memory.library.patterns()
    if format == "markdown":
        return Markdown(write_practice(patterns))
    types = sorted({type for each in patterns for type in each.types})
    by_type = {
        type: [_pattern(each).model_dump() for each in patterns if type in each.types] for type in types
    }
    return Json(by_type)


@router.get("/patterns/{task_type}")
def patterns(
    task_type: schemas.TaskType,
    service: Served,
    agent_type: schemas.Name | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = PATTERNS_SHOWN,
    max_tokens: Annotated[int, Query(ge=1, le=100_000)] = 500,
) -> schemas.PatternResponse:
    """The learned patterns for a task type, the best first."""
    memory = service.fractal.memory
    library = memory.library_of(named(agent_type)) if agent_type else memory.library
    found = library.relevant(_types(service, task_type), max_tokens)[:limit]
    text = "\n".join([f"## {HEADINGS[PATTERNS]}", "", *(each.shown() for each in found)]) if found else ""
    return schemas.PatternResponse(task_type=task_type, patterns=list(map(_pattern, found)), text=text)


def _pattern(pattern: Pattern) -> schemas.PatternInfo:
    fields = {
        name: getattr(pattern, name) for name in schemas.PatternInfo.model_fields if name != "task_types"
    }
    return schemas.PatternInfo(**fields, task_types=list(pattern.types))


def _types(service: Service, task_type: str) -> list[str]:
    """A client's task type, and those of ours that its words mean: `code-change` is also `code`."""
    kinds = kinds_of(service.fractal.systems, None)
    return [task_type] if task_type in kinds.types else [task_type, *kinds.of(task_type.replace("-", " "))]


# ---- outcomes ----


@router.post("/learn", status_code=202, dependencies=[Remembers])
@router.post("/experience", status_code=202, dependencies=[Remembers])
async def learn(report: schemas.LearnRequest, service: Served) -> schemas.Accepted:
    """Take what came of a task: it becomes an experience and is compared with others in the background."""
    return await _accept(service, report)


@router.post("/distill", status_code=202, dependencies=[Remembers])
async def distill(report: schemas.DistillRequest, service: Served) -> schemas.Distilled:
    """Take the habits of a successful task: which tools follow each other, how its files are written."""
    if report.outcome_name != "success":
        return schemas.Distilled(id="", processed=False)
    accepted = await _accept(service, report)
    return schemas.Distilled(id=accepted.id, processed=True)


@router.post("/swarm/task-complete", status_code=202, dependencies=[Remembers])
async def task_complete(report: schemas.TaskCompleteRequest, service: Served) -> schemas.Accepted:
    """Count a task for its agent. What was reported to /brain/learn is counted already."""
    return await _accept(service, report)


async def _accept(
    service: Service, report: schemas.LearnRequest | schemas.DistillRequest | schemas.TaskCompleteRequest
) -> schemas.Accepted:
    outcome = report.to_outcome()
    await service.outcomes.accept(outcome)
    return schemas.Accepted(id=outcome.id)


# ---- experiences ----


@router.post("/experience/search")
def search(asked: schemas.SearchRequest, service: Served) -> schemas.SearchResponse:
    """The experiences with the tasks that are most like the query."""
    memory = service.fractal.memory
    where = {"agent": asked.agent_type, "type": asked.task_type, "success": asked.success_only or None}
    where = {name: wanted for name, wanted in where.items() if wanted is not None}
    found = memory.brain.episodes.similar(asked.query, asked.limit, where) if memory.there else []
    infos = [_experience(each, score) for each, score in found if each.text]
    return schemas.SearchResponse(experiences=infos, count=len(infos))


@router.get("/experience/search")
def search_by_query(
    asked: Annotated[schemas.SearchRequest, Query()], service: Served
) -> schemas.SearchResponse:
    """The experiences with the tasks that are most like the query, which is in the address."""
    return search(asked, service)


def _experience(experience: Experience, score: float) -> schemas.ExperienceInfo:
    return schemas.ExperienceInfo(
        id=experience.id,
        run=experience.run if experience.document else "",
        task_prompt=experience.text,
        task_type=experience.type,
        agent_type=experience.agent,
        swarm_name=experience.space,
        success=experience.success,
        outcome_signal=experience.signal,
        tools=list(experience.tools),
        files=list(experience.files),
        duration_seconds=experience.seconds,
        token_count=experience.tokens,
        at=experience.at,
        similarity=round(score, 4),
    )


@router.get("/experience/stats")
def stats(service: Served) -> schemas.StatsResponse:
    """How many experiences there are, of whom and of what, and how often they went well."""
    memory = service.fractal.memory
    tally = _tally(memory)
    agents, types, ended = (tally.agents, tally.types, tally.ended) if tally else (Counter(),) * 3
    return schemas.StatsResponse(
        total_experiences=agents.total(),
        by_agent=dict((+agents).most_common()),
        by_task_type=dict((+types).most_common()),
        success_rate=round(ended[True] / ended.total(), 4) if ended.total() else None,
        patterns_learned=len(memory.library.patterns()),
    )


def _tally(memory: RunMemory) -> Tally | None:
    """Counts of the experiences; None where nothing is remembered."""
    if not memory.there:
        return None
    memory.brain.episodes.catch_up()
    return Tally.of(memory.brain.shelf)


# ---- swarm ----


@router.post("/swarm/agent-active", dependencies=[Remembers])
def agent_active(report: schemas.AgentActiveRequest, service: Served) -> schemas.Recorded:
    """Say who is at work; others are shown it for five minutes."""
    space = report.swarm_name or DEFAULT
    announced = Announced(
        id=f"{space}:{report.agent_type}",
        agent=report.agent_type,
        space=space,
        capabilities=tuple(report.capabilities),
        recent=tuple(report.recent_tasks),
        at=now(),
    )
    announce(service.fractal.brain.shelf, announced)
    return schemas.Recorded()


@router.get("/swarm/recommend-agent")
def recommend_agent(task_type: schemas.TaskType, service: Served) -> schemas.AgentRecommendation:
    """Who does tasks of a type best, with the evidence. With fewer than three samples nobody is named."""
    tally = _tally(service.fractal.memory)
    by_type = {type: tally.records(type) if tally else {} for type in _types(service, task_type)}
    type, candidates = next((each for each in by_type.items() if each[1]), (task_type, {}))
    best = awareness.best(candidates)
    samples = sum(each.samples for each in candidates.values())
    agent, record = best if best and best[1].samples >= awareness.FEW else (None, None)
    why = f"no agent has done {awareness.FEW} tasks of type {type}"
    if record:
        went = f"{record.successes} of {record.samples} tasks of type {type} went well"
        why = f"{went} (score {record.score:.2f})"
    return schemas.AgentRecommendation(
        task_type=type,
        recommended_agent=agent,
        confidence=_confidence(record.samples) if record else "none",
        based_on_samples=samples,
        why=why,
        candidates=[
            schemas.Candidate(
                agent_type=name,
                samples=each.samples,
                successes=each.successes,
                score=round(each.score, 4),
                seconds=round(each.seconds / each.samples, 3),
            )
            for name, each in sorted(candidates.items(), key=lambda pair: (-pair[1].score, pair[0]))
        ],
    )


def _confidence(samples: int) -> str:
    return "high" if samples >= awareness.MANY else "medium" if samples >= MEDIUM else "low"


# ---- health ----


@router.get("/health")
def health(service: Served) -> schemas.HealthResponse:
    """Whether memory works, what it holds, and which outcomes wait."""
    memory = service.fractal.memory
    trouble, dreamed = "", ""
    counts: dict[str, int] = {"patterns": len(memory.library.patterns())}
    try:
        if memory.there:
            shelf = memory.brain.shelf
            kinds = shelf.kinds()
            named_kinds = {
                "experiences": Experience,
                "attempts": StoredAttempt,
                "agents": Announced,
                "dreams": DreamRecord,
            }
            counts |= {name: kinds.get(kind.KIND, 0) for name, kind in named_kinds.items()}
            dreamed = max((each.latest for each in shelf.scan(DreamRecord)), default="")
    except FractalError as error:
        trouble = redact(str(error))
    outcomes = service.outcomes
    return schemas.HealthResponse(
        status="degraded" if trouble or outcomes.trouble else "healthy",
        version=__version__,
        components={
            "store": not trouble,
            "learning": not outcomes.trouble,
            "experience": counts.get("experiences", 0) > 0,
            "patterns": counts["patterns"] > 0,
            "swarm_aware": counts.get("agents", 0) > 0,
        },
        trouble=trouble,
        embedder=memory.brain.embedder.name,
        counts=counts,
        last_dream=dreamed,
        learning=schemas.Learning(queue=outcomes.journal.count(), trouble=outcomes.trouble),
        uptime_seconds=round(monotonic() - service.began, 1),
    )
