"""The views of runs: the list, one run with its documents, and the forms that decide about it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from runtime.api.run_view import loop_ids
from runtime.server.deciding import By, refuse_client
from runtime.server.leaving import Html
from runtime.server.page.export import as_file
from runtime.server.page.forms import Fields
from runtime.server.page.rendering import Link, fingerprint
from runtime.server.page.run_page import as_markdown, as_text, changes_of, run_page
from runtime.server.page.views import HEADERS, View, html, seen
from runtime.server.runs import Room
from runtime.server.service import Served
from runtime.workspace.prompts import shown_messages

router = APIRouter(route_class=View, include_in_schema=False)
ON_A_PAGE = 50
"""Runs that the list shows at once."""
FIELDS = {"answer": "text", "approve": "", "reject": "why", "nudge": "why", "veto": "why", "cancel": ""}
"""What a form tells a run, as `Fractal.tell` names it, and the field that goes with it."""


@router.get("/")
def runs(
    request: Request,
    served: Served,
    text: Annotated[str, Query(max_length=200)] = "",
    status: Annotated[str, Query(max_length=20)] = "",
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """The list of runs, newest first; with `text` in their task or id, and with this status."""
    found = served.listing.page(ON_A_PAGE, skip=(page - 1) * ON_A_PAGE, status=status, text=text)
    loops = {each.run: len(loop_ids(served.fractal, each.run)) for each in found.runs}
    last = max(1, -(-found.total // ON_A_PAGE))
    values = {"text": text, "status": status, "page": page, "last": last, "loops": loops}
    return html(request, "runs.html", runs=found.runs, total=found.total, all=found.all, **values)


@router.get("/runs/{run}")
def show(
    request: Request,
    served: Served,
    run: str,
    doc: str = "",
    text: bool = False,
    prompt: bool = False,
    call: str = "",
    step: int | None = None,
) -> HTMLResponse:
    """A run, and beside it one of its documents: rendered, or as `text`.

    Instead of it the `prompt` of its next call, what an earlier `call` sent, or what a `step` changed.
    """
    fractal = served.fractal
    shown = run_page(fractal, run)
    chosen = doc or str(shown.root["id"])
    if chosen not in shown.documents:
        raise HTTPException(404, f"run {shown.run} has no document {chosen}")
    sent = shown.prompt(call) if call else ""
    if call and not sent:
        raise HTTPException(404, f"run {shown.run} keeps no prompt of a call {call}")
    source = as_text(fractal, chosen)
    built = fractal.prompt(chosen) if prompt else None
    rendered = not (text or prompt or call or step is not None)
    return html(
        request,
        "run.html",
        page=shown,
        waits=fractal.review(shown.run),
        doc=chosen,
        source=source,
        body=as_markdown(source, _links(shown.run, shown.documents)) if rendered else None,
        prompt=built,
        texts=shown_messages(built[1]) if built else [],
        call=call,
        sent=sent,
        step=step,
        changed=None if step is None else changes_of(fractal, shown.run, step, chosen),
    )


def _links(run: str, documents: Collection[str]) -> Link:
    def link(target: str) -> str:
        id = target.removesuffix(".md")
        return f"/runs/{run}?doc={id}" if id in documents else ""

    return link


@router.get("/runs/{run}/export.html")
def export(served: Served, run: str) -> Response:
    """A run as one file."""
    fractal = served.fractal
    name = fractal.find(run)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="run-{name}.html"'}
    return Html(as_file(fractal, name), headers=headers)


@router.post("/runs/{run}/fork")
def fork(served: Served, run: str, fields: Fields) -> Response:
    """Copy a run up to a step of its root; show the copy."""
    step = fields.get("step", "").strip()
    if step and not step.isdecimal():
        raise HTTPException(400, f"{step} is no number of a step")
    return seen(f"/runs/{served.fractal.fork(run, int(step) if step else None)}")


@router.post("/runs/{run}/resume", dependencies=[Room])
async def resume(served: Served, run: str, fields: Fields) -> Response:
    """Continue a run."""
    return seen(f"/runs/{await served.runs.resume(run)}")


@router.post("/runs/{run}/{decision}")
async def decide(served: Served, run: str, decision: str, fields: Fields, by: By) -> Response:
    """Answer, approve, reject, send back, veto or stop a run, and continue it."""
    if decision not in FIELDS:
        raise HTTPException(404, f"nothing is called {decision}")
    field = FIELDS[decision]
    values = {field: fields.get(field, "").strip()} if field else {}
    if decision == "answer" and not values["text"]:
        raise HTTPException(400, "the answer is empty")
    if decision == "approve":
        refuse_client(by, f"fractal approve {run}")
    asked = fields.get("asked", "")
    if asked and asked not in map(fingerprint, served.fractal.review(run)):
        raise HTTPException(409, f"run {run} asks something else by now; look at it again")
    return seen(f"/runs/{await served.runs.send(run, decision, by, **values)}")
