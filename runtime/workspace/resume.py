"""What `resume` does before a run continues: raises limits, applies edits and assumptions on open steps."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from kernel.asking.responder import Usage
from kernel.document.frontmatter import peek
from kernel.document.model import Document, root_id
from kernel.errors import DocumentError, UsageError
from kernel.events import Event
from kernel.loop.budget import Bounds
from kernel.loop.run_context import RunContext, Session
from runtime.workspace.edits import survey
from runtime.workspace.hand_edits import as_left
from runtime.workspace.workspace import moment

REPORTED = 3
"""Broken lines of the log that are reported one by one."""
ROUNDED = 1e-5
"""Lifeforce in documents is rounded to less than this."""
QUIET = 300.0
"""Seconds at most that count as activity between two times that a dead process left: clocks can be wrong."""


def assumed(root: str, words: str | Sequence[str]) -> dict[str, str]:
    """What to think of steps that may have happened, by `LOOP:STEP`; "" means any. Raises `UsageError`."""
    values: dict[str, str] = {}
    for word in [words] if isinstance(words, str) and words else words:
        hit = re.fullmatch(r"(?:(?:(\S+?)(?:\.md)?:)?(\d+)=)?(rerun|done)", word)
        if not hit:
            raise UsageError(f"--assume {word}: rerun or done, for one step such as 3=done or LOOP:3=rerun")
        values[f"{hit[1] or root}:{hit[2]}" if hit[2] else ""] = hit[3]
    return values


def active_before(folder: Path, root: Document) -> float:
    """Seconds of activity of the sessions before this one.

    A killed process has not saved its last seconds: they are estimated from the times in what it wrote after
    its root document. Work that wrote nothing is not counted.
    """
    earlier = float(root.meta.spent.get("seconds", 0.0))
    waits = root.meta.waiting or {}
    if root.ended or root.meta.status == "interrupted" or waits.get("for", "children") != "children":
        return earlier
    saved = _seconds(root.meta.updated)
    updates = (_seconds(peek(path).get("updated", "")) for path in folder.glob("*.md"))
    times = sorted({saved, *(each for each in (*updates, *_calls(folder / "calls.jsonl")) if each > saved)})
    return earlier + sum(min(b - a, QUIET) for a, b in pairwise(times)) if saved else earlier


def _calls(path: Path) -> Iterator[float]:
    """The times in the log of replies."""
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            yield _seconds(str(json.loads(line)["ts"]))


def begin_session(run_context: RunContext, root: Document) -> None:
    """Record that a run continues now: the pause is not activity."""
    if (root.meta.waiting or {}).get("for", "children") == "children":  # else no time passes yet
        session = Session(run_context, run_context.store.load(root.meta.id))
        session.meta(status="running" if root.meta.status == "interrupted" else root.meta.status)
        session.save()


def _seconds(text: str) -> float:
    time = moment(text)
    return time.timestamp() if time else 0.0


def raised(root: Document, bounds: Bounds, *, flags: Container[str]) -> Mapping[str, Any]:
    """The root's limits, raised to the settings': of a run that reached one, or where a flag says so.

    A limit that the settings lift altogether is lifted; one that a person has removed is the settings'.
    """
    limits = {name: getattr(bounds, name) for name in ("calls", "tokens", "seconds")} | dict(root.meta.budget)
    for name in ("calls", "tokens", "usd", "seconds"):
        value = getattr(bounds, name)
        more = name in limits and (value is None or value > limits[name])
        if more and (root.meta.status == "exhausted" or name in flags or value is None):
            limits[name] = value
    limits["lifeforce"] = bounds.lifeforce  # what is reserved now
    return {name: value for name, value in limits.items() if value is not None}


def go_back(run_context: RunContext, root: Document, limits: Mapping[str, Any], *, redo: bool) -> None:
    """Set the limits, reset every loop to where a person's edits make it continue, and emit `stale`."""
    look_at_the_log(run_context)
    for strange in run_context.snapshots.sweep() if run_context.snapshots else ():
        run_context.warn(f"{strange} is not of Fractal and is left alone; move it to another place")
    if limits != as_left(run_context.store, root).meta.budget:  # raised in the settings, or by hand
        session = Session(run_context, run_context.store.load(root.meta.id))
        session.meta(budget=limits)
        if session.doc.meta.status == "exhausted":
            session.meta(status="ready")
        session.save()
    for stale in survey(run_context, root.meta.id, redo=redo):
        data = {"message": str(stale), **asdict(stale)}
        run_context.listener(Event("stale", root.meta.run, data.pop("loop"), data=data))


def look_at_the_log(run_context: RunContext) -> None:
    """Warn of missing lines in the log of replies; calls that only documents record stay charged.

    Call this before any document is saved: saving takes the spending from the log.
    """
    root = root_id(run_context.id)
    missing = False
    for loop_id in reversed(list(dict.fromkeys([root, *run_context.store.unfinished()]))):
        # children first: what they spent is their parents' too
        with suppress(DocumentError):  # a broken one is reported later
            missing |= _charge_missing_of(run_context, run_context.store.load(loop_id))
    problems = run_context.log.problems
    for problem in problems[:REPORTED]:
        run_context.warn(problem)
    if len(problems) > REPORTED:
        run_context.warn(f"{run_context.log.path}: {len(problems) - REPORTED} more lines were left out")
    if missing:
        why = (
            f"{run_context.log.path}: calls that documents know are missing; they stay charged, and what they"
        )
        run_context.warn(f"{why} answered is asked again where it is needed")


def _charge_missing_of(run_context: RunContext, document: Document) -> bool:
    missing = False
    for step in document.steps.values():
        if spent := step.evidence.get("spent"):
            missing |= _charge_missing(run_context, step.child, spent)
    return _charge_missing(run_context, document.meta.id, document.meta.spent) or missing


def _charge_missing(run_context: RunContext, loop_id: str, spent: Mapping[str, Any]) -> bool:
    """Charge what a document says of a loop and all below it, and the log does not know of."""
    logged = run_context.log.spent_by(loop_id).as_dict()
    prompt, completion, usd, calls, lifeforce = (
        max(0, spent.get(name, 0) - logged.get(name, 0))
        for name in ("prompt_tokens", "completion_tokens", "usd", "calls", "lifeforce")
    )
    if calls or lifeforce > ROUNDED:
        why = "the lines of these calls are missing here"
        run_context.log.failed(
            f"{loop_id}/0/lost/0/0/-", why, Usage(prompt, completion, usd, calls, lifeforce)
        )
    return bool(calls)
