"""What trials stand on: the model's server, the processes that fork commands, the undisturbed run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.crash import scenario
from bench.crash.server import ModelServer
from bench.crash.trial import Goal, Nursery, Outcome, Point, Trial

WORKERS = 2
HALVED = frozenset({"write", "pwrite", "sendfile"})
"""Calls that may be cut off half-way."""


@dataclass(frozen=True)
class Ground:
    """`goal` is the undisturbed run, `fresh` the same in new interpreters, which takes longer."""

    server: ModelServer
    nurseries: Sequence[Nursery]
    sandbox: str
    goal: Goal
    fresh: Goal

    def attempt(
        self, point: Point, nursery: Nursery | None = None, meddle: Callable[[Path], object] | None = None
    ) -> Outcome:
        """One trial; `meddle` does something to the folder after each death, to see that it is found."""
        trial = Trial(nursery or self.nurseries[0], self.server, point.name, self.sandbox)
        outcome = trial.disturbed(point, self.goal, meddle)
        outcome.kind = _kind(point, outcome)
        trial.clean()
        return outcome


@contextmanager
def prepared(sandbox: str) -> Generator[Ground]:
    """Everything that trials need, for as long as the context lasts."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fractal-crash-")))
        server = stack.enter_context(ModelServer(scenario.answer).running())
        nurseries = [Nursery(base / f"worker-{number}") for number in range(WORKERS)]
        for nursery in nurseries:
            stack.callback(nursery.close)
        imports, first = base / "imports", nurseries[0]
        Trial(first, server, "first", sandbox).undisturbed(imports=str(imports))
        fresh = Trial(first, server, "fresh", sandbox).undisturbed(fresh=True)
        for nursery in nurseries:
            nursery.warm(imports)
        goal = Trial(first, server, "goal", sandbox).undisturbed()
        yield Ground(server, nurseries, sandbox, goal, fresh)


def _kind(point: Point, outcome: Outcome) -> str:
    if not outcome.died:
        return "not reached"
    if point.fresh:
        return "SIGKILL of a new interpreter"
    if not point.death.at:
        return "SIGKILL"
    call = outcome.died[0].partition(" ")[0]  # with siblings side by side the order may differ a little
    where = "after" if point.death.where == "half" and call not in HALVED else point.death.where
    return f"{call}, {where}{', and once more' if point.again else ''}"
