"""The views of memory: figures and facts, learned patterns, and the forms that change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from runtime.api import brain_report, knowledge
from runtime.api.dreaming import shown
from runtime.api.fractal import Fractal
from runtime.api.learning import trials_of
from runtime.memory.dream.stages import DreamRecord
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.forgetting.forgetting import Forgetting
from runtime.memory.forgetting.request import Request as Forget
from runtime.memory.learning.patterns import write_practice
from runtime.memory.tasks import decisions as figures
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.snapshots import problems
from runtime.memory.tasks.types import ProblemType
from runtime.server.leaving import Markdown
from runtime.server.page import charts
from runtime.server.page.forms import Fields
from runtime.server.page.views import HEADERS, View, html, seen
from runtime.server.service import Served

router = APIRouter(route_class=View, include_in_schema=False)
FACTS = 50
"""Facts that the view shows at once."""
DREAMS = 10
"""Dreams that the view shows, newest first."""


@dataclass(frozen=True)
class Fact:
    """A memory, what it replaced, and what it rests on."""

    memory: Memory
    ended: bool
    before: Sequence[Memory] = ()  # that it superseded, the latest first
    after: Memory | None = None  # that superseded it
    evidence: Sequence[Observation] = ()
    found: str = ""  # where a search found it: how it is said, by whom and when


@router.get("/brain")
def brain(
    request: Request,
    served: Served,
    query: Annotated[str, Query(max_length=500)] = "",
    past: bool = False,
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Figures, the learning curve, dreams, and facts: all of them, or those that answer a query."""
    fractal = served.fractal
    report = brain_report.report_of(fractal)
    with brain_report.shelf_or_empty(fractal) as shelf:
        dreams = sorted(shelf.scan(DreamRecord), key=lambda each: each.at, reverse=True)[:DREAMS]
        types = brain_report.named(shelf, report.totals["types"])
        sizes = {
            "trees": report.totals["trees"]["count"],
            "substrates": sum(each.origin != "archived" for each in shelf.scan(ProblemType)),
            "methods": shelf.count(Method),
        }
        recognised = problems(shelf).recognised
    found, total = _search(fractal, query) if query.strip() else _facts(fractal, past, page)
    return html(
        request,
        "brain.html",
        sizes=sizes,
        recognised=recognised,
        totals=report.totals,
        curve=charts.curve(figures.curve(report.tasks)) if report.tasks else "",
        accuracy=charts.accuracy(types),
        dreams=[(each, {name: shown(stage) for name, stage in each.stages.items()}) for each in dreams],
        facts=found,
        query=query,
        past=past,
        page=page,
        last=max(1, -(-total // FACTS)),
        total=total,
    )


def _facts(fractal: Fractal, past: bool, page: int) -> tuple[list[Fact], int]:
    """The facts that hold, or with `past` all of them, the last changed first; and how many there are."""
    if not fractal.memory.there:
        return [], 0
    mind = knowledge.mind_of(fractal)
    known = {each.id: each for each in mind.memories(past=True)}
    now = mind.now
    chosen = [each for each in known.values() if past or not each.ended(now)]
    chosen.sort(key=lambda each: (each.changed or each.created, each.id), reverse=True)
    first = (page - 1) * FACTS
    return _with_history(fractal, known, chosen[first : first + FACTS], {}), len(chosen)


def _search(fractal: Fractal, query: str) -> tuple[list[Fact], int]:
    hits = [each for each in knowledge.recall(fractal, query, limit=20) if each.memory]
    if not hits:
        return [], 0
    known = {each.id: each for each in knowledge.mind_of(fractal).memories(past=True)}
    said = {each.memory: f"{knowledge.PERHAPS if each.perhaps else ''}{each.provenance}" for each in hits}
    found = [known[id] for id in said if id in known]
    return _with_history(fractal, known, found, said), len(found)


def _with_history(
    fractal: Fractal, known: Mapping[str, Memory], chosen: Iterable[Memory], found: Mapping[str, str]
) -> list[Fact]:
    mind = knowledge.mind_of(fractal)
    replaced: dict[str, list[Memory]] = {}
    for each in known.values():
        if each.superseded:
            replaced.setdefault(each.superseded, []).append(each)
    return [
        Fact(
            each,
            each.ended(mind.now),
            _line(replaced, each.id),
            known.get(each.superseded),
            mind.shelf.pick(Observation, each.evidence),
            found.get(each.id, ""),
        )
        for each in chosen
    ]


def _line(replaced: Mapping[str, Sequence[Memory]], id: str) -> list[Memory]:
    """What a memory replaced, and what that replaced, the latest first."""
    found: dict[str, Memory] = {}
    ahead = [id]
    while ahead:
        for each in replaced.get(ahead.pop(), ()):
            if each.id not in found and each.id != id:
                found[each.id] = each
                ahead.append(each.id)
    return sorted(found.values(), key=lambda each: each.until, reverse=True)


@router.post("/facts/{id}/correct")
def correct(served: Served, id: str, fields: Fields) -> Response:
    """Say what holds instead of a fact."""
    knowledge.correct(served.fractal, id, fields.get("text", ""))
    return seen("/brain")


@router.get("/facts/forget")
def preview(
    request: Request, served: Served, words: Annotated[str, Query(max_length=500)] = "", id: str = ""
) -> HTMLResponse:
    """What would be forgotten: what contains all `words`, or one fact by its `id`."""
    looked = _forgetting(served.fractal).look(Forget(words, id))
    return html(request, "forget.html", preview=looked, words=words, id=id)


@router.post("/facts/forget")
def forget(served: Served, fields: Fields) -> Response:
    """Forget it for good."""
    _forgetting(served.fractal).do(Forget(fields.get("words", ""), fields.get("id", "")))
    return seen("/brain")


def _forgetting(fractal: Fractal) -> Forgetting:
    if not fractal.memory.there:
        raise HTTPException(400, "nothing is remembered here yet")
    return Forgetting(fractal.brain, fractal.workspace.state)


@router.get("/patterns")
def patterns(request: Request, served: Served) -> HTMLResponse:
    """What was learned, and the trials of it."""
    library = served.fractal.memory.library
    own = {each.name: each for each in library.all()}
    by_name = {each.name: each for each in library.patterns()} | own
    found = sorted(by_name.values(), key=lambda each: (each.status, -each.confidence, each.name))
    faults = [str(each) for each in library.faults.values()]
    trials = trials_of(served.fractal).all()
    return html(request, "patterns.html", patterns=found, own=own, faults=faults, trials=trials)


@router.get("/patterns.md")
def export(served: Served) -> Response:
    """All learned patterns as one file, which `fractal learn import` reads."""
    text = write_practice(served.fractal.memory.library.patterns())
    headers = {**HEADERS, "content-disposition": 'attachment; filename="patterns.md"'}
    return Markdown(text, headers=headers)


@router.post("/patterns/{name}/{switch}")
def switch(served: Served, name: str, switch: str, fields: Fields) -> Response:
    """Switch a pattern on or off."""
    if switch not in ("on", "off"):
        raise HTTPException(404, f"a pattern is switched on or off, not {switch}")
    status = "active" if switch == "on" else "off"
    served.fractal.memory.library.update(name, person=True, status=status)
    return seen("/patterns")
