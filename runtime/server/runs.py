"""The endpoints of runs: what the commands do, typed. Each works on any run of the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Response
from starlette.concurrency import run_in_threadpool

from kernel import disk
from kernel.document.model import Document
from kernel.store.files import FileStore
from runtime.api.run_view import as_object, costs, tree_of
from runtime.secrets.redaction import redact
from runtime.server.deciding import By, refuse_unproven
from runtime.server.leaving import Json, Markdown
from runtime.server.run_schemas import (
    Answer,
    Approval,
    Feedback,
    Fork,
    Guidance,
    Listed,
    Loop,
    LoopStep,
    NewRun,
    PhaseCost,
    RunPage,
    RunState,
    Saying,
    Seen,
    Status,
    Why,
)
from runtime.server.schemas import refusals
from runtime.server.service import Served, Service
from runtime.workspace.deciders import Decider

MOST_AT_WORK = 64
"""Runs that a server works on at the same time."""
TASK_CHARS = 500
"""Characters of a task in a list."""

router = APIRouter(prefix="/api/runs", tags=["runs"], responses=refusals(400, 403, 404, 409, 503))


def _existing(run: str, served: Served) -> str:
    if not served.fractal.workspace.has(run):
        raise HTTPException(404, f"there is no run {run}; GET /api/runs lists them")
    return run


Run = Annotated[str, Depends(_existing)]
"""The run in the path: its whole id."""


def _room(served: Served) -> None:
    if len(served.runs.at_work) >= MOST_AT_WORK:
        raise HTTPException(503, f"{MOST_AT_WORK} runs are at work; try again when one has ended")


Room = Depends(_room)


@router.get("")
def list_runs(
    served: Served,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    before: str = "",
    status: Status | None = None,
    text: Annotated[str, Query(max_length=200, description="words of the task or the id")] = "",
) -> RunPage:
    """Runs, newest first, by META alone."""
    page = served.listing.page(limit, before=before, status=status or "", text=text)
    found = [Listed(**{**asdict(each), "task": each.task[:TASK_CHARS]}) for each in page.runs]
    return RunPage(runs=found, more=max(page.total - limit, 0))


@router.post("", status_code=202, dependencies=[Room])
async def start(
    body: NewRun, served: Served, response: Response, trace: Annotated[str, Header(alias="traceparent")] = ""
) -> Seen:
    """Start a run. A `traceparent` is kept in its META. Commands and changes of files wait for approval."""
    own = {name: value for name in ("agent", "space") if (value := getattr(body, name))}
    options = {"after": body.after, "plan_only": body.plan_only, "worktree": body.worktree, "trace": trace}
    after = served.events.newest
    run = await served.runs.start(body.task, model=body.model, settings=own, **options)
    response.headers["location"] = f"{router.prefix}/{run}"
    return _seen(served, run, after)


@router.get("/{run}")
def state(run: Run, served: Served) -> RunState:
    """The state of a run, and the tree of its loops with phases, steps, tokens and cost."""
    seen = _seen(served, run, served.events.newest)
    tree = tree_of(served.fractal, run)
    return RunState(**dict(seen), tree=_loop(tree.root, tree.documents))


@router.get("/{run}/documents")
def documents(run: Run, served: Served) -> list[str]:
    """The ids of the documents of a run, parents before children."""
    return _store(served, run).list()


@router.get("/{run}/documents/{doc}", response_class=Markdown)
def document(
    run: Run, doc: str, served: Served, format: Literal["markdown", "json"] = "markdown"
) -> Response:
    """A document by its id: the markdown of the file, or the object that `fractal show --json` prints."""
    store = _store(served, run)
    if doc not in store.list():
        raise HTTPException(404, f"run {run} has no document {doc}; GET /api/runs/{run}/documents lists them")
    if format == "json":
        return Json(as_object(store.peek(doc)))
    with disk.reading_state(path := store.path(doc)):
        return Markdown(path.read_bytes())


@router.post("/{run}/answer")
async def answer(run: Run, body: Answer, served: Served, by: By) -> Seen:
    """Answer the question of a waiting run; the run continues."""
    _same_question(served, run, body.question)
    return await _decided(served, run, "answer", by, text=body.text)


@router.post("/{run}/approve")
async def approve(run: Run, served: Served, by: By, body: Approval | None = None) -> Seen:
    """Approve the plan or the steps that a run waits for; the run continues.

    It needs the person at the page (`X-Fractal-Person`), or a client with the server's token. A serious
    danger needs the person, or a client that the setting `trusted_clients` names.
    """
    refuse_unproven(by, served, f"fractal approve {run}")
    body = body or Approval()
    _same_question(served, run, body.question)
    return await _decided(served, run, "approve", by, **({"scope": body.scope} if body.scope else {}))


@router.post("/{run}/reject")
async def reject(run: Run, served: Served, by: By, body: Why | None = None) -> Seen:
    """Reject what a run waits for. With a reason it plans again; a plan rejected without one ends it."""
    return await _decided(served, run, "reject", by, why=body.why if body else "")


@router.post("/{run}/nudge")
async def nudge(run: Run, body: Guidance, served: Served, by: By) -> Seen:
    """Send the plan or step back: the run plans again, and its prompt has `why`."""
    return await _decided(served, run, "nudge", by, why=body.why)


@router.post("/{run}/veto")
async def veto(run: Run, served: Served, by: By, body: Why | None = None) -> Seen:
    """End a run by a decision that is kept in the log."""
    return await _decided(served, run, "veto", by, why=body.why if body else "")


@router.post("/{run}/cancel")
async def cancel(run: Run, served: Served, by: By) -> Seen:
    """Cancel a run that is running or waiting."""
    return await _decided(served, run, "cancel", by)


@router.post("/{run}/say")
async def say(run: Run, body: Saying, served: Served, by: By) -> Seen:
    """Say something to a run while it works: its next turn sees the text."""
    after = served.events.newest
    served.fractal.tell(run, "say", by=by, text=body.text)
    return _seen(served, run, after)


@router.post("/{run}/resume", status_code=202, dependencies=[Room])
async def resume(run: Run, served: Served) -> Seen:
    """Continue a run that was interrupted, or whose documents a person has edited."""
    after = served.events.newest
    return _seen(served, await served.runs.resume(run), after)


@router.post("/{run}/feedback", status_code=204)
async def feedback(run: Run, body: Feedback, served: Served, by: By) -> None:
    """Record whether the result of a run was good; learning takes it as a person's word.

    It needs what an approval needs.
    """
    refuse_unproven(by, served, f"fractal feedback {run}")
    served.fractal.feedback(run, body.good, body.why)


@router.post("/{run}/fork", status_code=202, dependencies=[Room])
async def fork(run: Run, served: Served, response: Response, body: Fork | None = None) -> Seen:
    """Copy a run up to a step of its root as a new one, which goes on differently."""
    body, after = body or Fork(), served.events.newest
    served.runs.refuse_model(body.model)
    new = await run_in_threadpool(served.fractal.fork, run, body.step, worktree=body.worktree)
    if body.start:
        await served.runs.resume(new, model=body.model)
    response.headers["location"] = f"{router.prefix}/{new}"
    return _seen(served, new, after)


async def _decided(served: Service, run: str, kind: str, by: Decider, **values: Any) -> Seen:
    after = served.events.newest
    return _seen(served, await served.runs.send(run, kind, by, **values), after)


def _same_question(served: Service, run: str, question: str) -> None:
    """Refuse what was decided about another question than the one that a run asks now."""
    if question and question != (asked := _seen(served, run, "").question):
        raise HTTPException(409, f"run {run} asks something else by now: {asked or 'nothing'}")


def _seen(served: Service, run: str, after: str) -> Seen:
    """The state of a run; `next` names the endpoints instead of the tools of MCP."""
    found = served.runs.state(run)
    if not served.token:  # then no client may approve anything
        found.question = redact(found.question)
    calls = {"answer": ("answer",), "approval": ("approve", "nudge", "reject")}.get(found.waits_for, ())
    if found.status == "running":
        found.next = f"GET /api/events?run={run}&after={after}"
    elif found.next:
        found.next = " or ".join(f"POST {router.prefix}/{run}/{each}" for each in calls or ("resume",))
    return Seen(**dict(found), after=after)


def _store(served: Service, run: str) -> FileStore:
    return FileStore(served.fractal.workspace.runs / run)


def _loop(loop: Mapping[str, Any], documents: Mapping[str, Document | str]) -> Loop:
    """A loop of `tree_of`, with what META says of its phases."""
    document = documents.get(loop["id"], "")
    if isinstance(document, str):
        return Loop(**loop)
    meta = document.meta
    steps = [
        LoopStep(**{**each, **({"loop": _loop(each["loop"], documents)} if "loop" in each else {})})
        for each in loop["steps"]
    ]
    more = {"phase": meta.phase, "attempt": meta.attempt, "waiting": meta.waiting}
    phases = [PhaseCost(**row) for row in costs([document])]
    return Loop(**{**loop, **more, "steps": steps, "phases": phases})
