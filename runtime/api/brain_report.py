"""The figures of `fractal brain report`: what memory decided, how often correctly, and what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kernel.document.model import ACCEPTED
from runtime.api.fractal import Fractal
from runtime.api.learning import trials_of
from runtime.memory.learning.library import Library
from runtime.memory.mechanisms import mechanisms
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks import decisions as figures
from runtime.memory.tasks.decisions import Decision, Met
from runtime.memory.tasks.snapshots import Snapshot, all_of
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import ProblemType
from runtime.reflexes.dreaming import KIND as DREAM


@dataclass(frozen=True)
class BrainReport:
    """The figures in all, and what they are made of, oldest first."""

    totals: Mapping[str, Any]  # as `figures.report` returns them, with the `mechanisms`
    decisions: Sequence[Decision]
    tasks: Sequence[Met]  # of these decisions and all others
    snapshots: Sequence[Snapshot]


@contextmanager
def shelf_or_empty(fractal: Fractal) -> Iterator[Shelf]:
    """The store of a workspace; where nothing is remembered, an empty one that is not kept."""
    memory = fractal.memory
    store = memory.config.store if memory.there else "memory"
    with closing(open_shelf(store, memory.folder, fsync=memory.config.fsync)) as shelf:
        yield shelf


def report_of(fractal: Fractal, runs: Collection[str] | None = None) -> BrainReport:
    """The figures of a workspace; with `runs`, of the decisions of these only."""
    with shelf_or_empty(fractal) as shelf:
        decisions = figures.in_order(shelf, runs)
        tasks = tasks_of(fractal, decisions, runs)
        totals = figures.report(decisions, shelf.scan(NeuronTree), tasks)
        patterns = Library(fractal.memory.folder / "patterns").all()
        found = mechanisms(shelf, decisions, patterns, datetime.now(UTC))
        taken = all_of(shelf)
    if trials := trials_of(fractal).all():
        found["trials"] = dict(Counter(each.did.partition(" ")[0] or "undecided" for each in trials))
    return BrainReport({**totals, "mechanisms": found}, decisions, tasks, taken)


def tasks_of(
    fractal: Fractal, decisions: Sequence[Decision], runs: Collection[str] | None = None
) -> list[Met]:
    """How each task was met, oldest first: those of `decisions`, and those on which memory decided nothing.

    The others are what shipped code did, and what waits, failed or is unanswered.
    """
    decided = {each.run for each in decisions}
    others = [
        Met(each.created, each.status in ACCEPTED and not each.spent.get("calls"))
        for each in fractal.runs()
        if each.type != DREAM and each.run not in decided and (runs is None or each.run in runs)
    ]
    return sorted([*map(figures.met, decisions), *others], key=lambda each: each.at)


def named(shelf: Shelf, types: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Figures by the names of problem types, not by their ids; the end of an id tells equal names apart."""
    labels = {each.id: each.label for each in shelf.pick(ProblemType, types)}
    named: dict[str, Mapping[str, Any]] = {}
    for id, counts in types.items():
        name = labels.get(id, id)
        named[f"{name} ({id[-4:]})" if name in named else name] = counts
    return named
