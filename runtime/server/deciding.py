"""Who decides over HTTP: a client, or the person at the page.

A client may be a program, even a command of a worker that reaches this machine's network. So a person is
recognised by a proof that no program gets: `fractal serve` prints a link with a code at its terminal, and the
page exchanges the code once for a proof, which it sends as a header with each decision. It is no cookie:
browsers send cookies to every port of a host, also to a web server that a worker has started.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException
from pydantic import BaseModel, Field

from runtime.server.request import StrictRequest
from runtime.server.schemas import refusals
from runtime.server.service import Served
from runtime.workspace.deciders import PAGE, Decider, plain_name

NO_TERMINAL = "no person can be recognised at the page: `fractal serve` was not started at a terminal"
STALE = "this page is not recognised any more; open the newest link that `fractal serve` has printed"

router = APIRouter(prefix="/api/person", tags=["person"], responses=refusals(403))


class Code(StrictRequest):
    """The code of a link."""

    code: str = Field(max_length=100)


class Proof(BaseModel):
    """What a page sends as `X-Fractal-Person`."""

    proof: str


class Recognised(BaseModel):
    """Whether a request comes from the person at the page."""

    person: bool
    possible: bool = Field(description="whether the server has a terminal to print a link at")


@router.post("")
async def admit(body: Code, served: Served) -> Proof:
    """Exchange the code of the newest link for a proof. A code works once."""
    if proof := served.persons.admit(body.code):
        return Proof(proof=proof)
    raise HTTPException(403, STALE if served.persons.possible else NO_TERMINAL)


@router.get("")
async def recognised(served: Served, x_fractal_person: Annotated[str, Header()] = "") -> Recognised:
    """Whether the proof in `X-Fractal-Person` holds."""
    persons = served.persons
    return Recognised(person=persons.knows(x_fractal_person), possible=persons.possible)


def _decider(
    served: Served, x_fractal_person: Annotated[str, Header()] = "", user_agent: Annotated[str, Header()] = ""
) -> Decider:
    if not x_fractal_person:
        return Decider("client", plain_name(user_agent.partition("/")[0]))
    if served.persons.knows(x_fractal_person):
        return PAGE
    raise HTTPException(403, STALE)


By = Annotated[Decider, Depends(_decider)]
"""The parameter of an endpoint that needs to know who decides: the person at the page, else a client.

The client is named as in its `User-Agent`.
"""


def refuse_unproven(by: Decider, served: Served, command: str) -> None:
    """Raise an error for what a person says (`command` says it too), if a client has shown nothing.

    Without a token of the server, any program of this machine is a client, also a command of the worker.
    """
    if not served.token:
        refuse_client(by, command)


def refuse_client(by: Decider, command: str) -> None:
    """Raise an error for what only a person says, from anybody but the person at the page.

    Forms of the page are checked by this: who has signed in with the token counts as a client without it,
    because the cookie may be in other hands.
    """
    if by.kind == "client":
        raise HTTPException(
            403,
            "over HTTP this needs the person at the page, or a client with the server's token "
            f"(FRACTAL_TOKEN); or at a terminal: {command}",
        )
