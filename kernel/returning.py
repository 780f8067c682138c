"""Coming back to a run: which of its loops go on, and what of its files is broken or missing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kernel.document import Document
from kernel.errors import DocumentError
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
        world.warn(why, loop_id)
    return open_, left


def _awaited(document: Document, parent: Document | None) -> bool:
    link = f"{document.meta.id}.md"
    return parent is not None and any(step.link == link and not step.ended for step in parent.steps.values())


def look_at_the_log(world: World) -> None:
    """Tell what the log of replies has lost; the calls that only documents know stay charged.

    To be done before any document is saved: what it says of its spending is then told by the log.
    """
    root = root_id(world.run)
    lost = False
    for loop_id in reversed(list(dict.fromkeys([root, *world.store.unfinished()]))):
        # children first: what they spent is their parents' too
        with suppress(DocumentError):  # a broken one is told of later
            lost |= _charge_missing_of(world, world.store.load(loop_id))
    problems = world.log.problems
    for problem in problems[:TOLD]:
        world.warn(problem)
    if len(problems) > TOLD:
        world.warn(f"{world.log.path}: {len(problems) - TOLD} more lines were left out")
    if lost:
        why = f"{world.log.path}: calls that documents know are missing; they stay charged, and what they"
        world.warn(f"{why} answered is asked again where it is needed")


def _charge_missing_of(world: World, document: Document) -> bool:
    lost = False
    for step in document.steps.values():
        if spent := step.evidence.get("spent"):
            lost |= _charge_missing(world, step.link.removesuffix(".md"), spent)
    return _charge_missing(world, document.meta.id, document.meta.spent) or lost


def _charge_missing(world: World, loop_id: str, spent: Mapping[str, Any]) -> bool:
    """Charge what a document says of a loop and all below it, and the log does not know of."""
    known = world.log.below(loop_id).as_dict()
    prompt, completion, usd, calls = (
        max(0, spent.get(name, 0) - known[name])
        for name in ("prompt_tokens", "completion_tokens", "usd", "calls")
    )
    if calls:
        why = "the lines of these calls are missing here"
        world.log.failed(f"{loop_id}/0/lost/0/0/-", why, Usage(prompt, completion, usd, calls))
    return bool(calls)
