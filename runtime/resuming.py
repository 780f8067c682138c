"""What `resume` does before a run goes on: larger limits, a person's edits, what is thought of open steps."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from kernel.budget import Bounds
from kernel.document import Document
from kernel.edits import survey
from kernel.errors import UsageError
from kernel.events import Event
from kernel.frontmatter import peek
from kernel.returning import look_at_the_log
from kernel.world import Held, World

QUIET = 300.0
"""Seconds at most that count as activity between two times that a dead process left: clocks can be wrong."""


def assumed(root: str, words: str | Sequence[str]) -> dict[str, str]:
    """What to think of steps that may have happened, by `LOOP:STEP`; "" means any. Raises `UsageError`."""
    known: dict[str, str] = {}
    for word in [words] if isinstance(words, str) and words else words:
        hit = re.fullmatch(r"(?:(?:(\S+?)(?:\.md)?:)?(\d+)=)?(rerun|done)", word)
        if not hit:
            raise UsageError(f"--assume {word}: rerun or done, for one step such as 3=done or LOOP:3=rerun")
        known[f"{hit[1] or root}:{hit[2]}" if hit[2] else ""] = hit[3]
    return known


def active_before(folder: Path, root: Document) -> float:
    """Seconds of activity of the sessions before this one.

    A process that died has not written its last ones down: they are told from the times in what it wrote
    since its root's document. What was under way at its end, and wrote nothing, is not counted.
    """
    known = float(root.meta.spent.get("seconds", 0.0))
    waits = root.meta.waiting or {}
    if root.ended or root.meta.status == "interrupted" or waits.get("for", "children") != "children":
        return known
    saved = _seconds(root.meta.updated)
    told = (_seconds(peek(path, "updated")) for path in folder.glob("*.md"))
    times = sorted({saved, *(each for each in (*told, *_calls(folder / "calls.jsonl")) if each > saved)})
    return known + sum(min(after - before, QUIET) for before, after in pairwise(times)) if saved else known


def _calls(path: Path) -> Iterator[float]:
    """The times in the log of replies."""
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            yield _seconds(str(json.loads(line)["ts"]))


def begin_session(world: World, root: Document) -> None:
    """Write down that a run goes on from now: what it stood still for is no activity."""
    if (root.meta.waiting or {}).get("for", "children") == "children":  # else no time passes yet
        held = Held(world, world.store.load(root.meta.id))
        held.meta(status="running" if root.meta.status == "interrupted" else root.meta.status)
        held.save()


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


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
    return {name: value for name, value in limits.items() if value is not None}


def go_back(world: World, root: Document, limits: Mapping[str, Any], *, redo: bool) -> None:
    """Set the limits, set every loop back to where a person's edits make it go on, and tell each `stale`."""
    look_at_the_log(world)
    if world.snapshots:
        world.snapshots.sweep()
    if limits != root.meta.budget:
        held = Held(world, world.store.load(root.meta.id))
        held.meta(budget=limits)
        if held.doc.meta.status == "exhausted":
            held.meta(status="ready")
        held.save()
    for stale in survey(world, root.meta.id, redo=redo):
        data = {"message": str(stale), **asdict(stale)}
        world.listener(Event("stale", root.meta.run, data.pop("loop"), data=data))
