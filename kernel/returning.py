"""Coming back to a run: which of its loops go on, and what of its files is broken or missing."""

from __future__ import annotations

from kernel.document import Document
from kernel.errors import DocumentError
from kernel.events import Event
from kernel.responder import Usage
from kernel.workspace import root_id
from kernel.world import World

TOLD = 3
"""Broken lines of the log that are told one by one."""


def open_loops(world: World) -> tuple[dict[str, Document], set[str]]:
    """The loops that go on, parents before children, and the ids of unfinished ones that do not.

    Those are the broken ones (their parents decide what becomes of their steps), and those that no open step
    of an open parent waits for. Raises `DocumentError` when the root is broken.
    """
    open_: dict[str, Document] = {}
    left: set[str] = set()
    for loop_id in world.store.unfinished():
        try:
            document = world.store.load(loop_id)
        except DocumentError as error:
            if loop_id == root_id(world.run):
                raise
            why = str(error)
        else:
            if not document.meta.parent or _awaited(document, open_.get(document.meta.parent)):
                open_[loop_id] = document
                continue
            why = f"{loop_id} does not go on: no open step waits for it any more"
        left.add(loop_id)
        _warn(world, loop_id, why)
    _look_at_the_log(world, open_)
    return open_, left


def _awaited(document: Document, parent: Document | None) -> bool:
    link = f"{document.meta.id}.md"
    return parent is not None and any(step.link == link and not step.ended for step in parent.steps.values())


def _look_at_the_log(world: World, open_: dict[str, Document]) -> None:
    """Tell what the log of replies has lost; the calls that only documents know stay charged."""
    lost = False
    for loop_id, document in open_.items():
        missing = _missing(world, document)
        if missing.calls > 0:
            world.log.failed(f"{loop_id}/0/lost/0/0/-", "the lines of these calls are missing here", missing)
            lost = True
    problems = world.log.problems
    for problem in problems[:TOLD]:
        _warn(world, root_id(world.run), problem)
    if len(problems) > TOLD:
        more = len(problems) - TOLD
        _warn(world, root_id(world.run), f"{world.log.path}: {more} more lines were left out")
    if lost:
        why = f"{world.log.path}: calls that documents know are missing; they stay charged, and what they"
        _warn(world, root_id(world.run), f"{why} answered is asked again where it is needed")


def _missing(world: World, document: Document) -> Usage:
    """What the document says that its loop's own calls cost, beyond what the log knows of."""
    known = world.log.spent(document.meta.id)
    steps = document.steps.values()
    below = [step.evidence.get(each, {}) for step in steps for each in ("spent", "earlier")]

    def beyond(name: str, logged: float) -> float:
        own = document.meta.spent.get(name, 0) - sum(each.get(name, 0) for each in below)
        return max(0, own - logged)

    return Usage(
        int(beyond("prompt_tokens", known.prompt_tokens)),
        int(beyond("completion_tokens", known.completion_tokens)),
        beyond("usd", known.usd),
        int(beyond("calls", known.calls)),
    )


def _warn(world: World, loop_id: str, message: str) -> None:
    world.listener(Event("warning", world.run, loop_id, data={"message": message}))
