"""All trials: what they need, the points to try, and two workers that try them."""

from __future__ import annotations

import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.crash import scenario
from bench.crash.server import ModelServer
from bench.crash.trial import Death, Goal, Nursery, Outcome, Point, Trial

WORKERS = 2
HALVED = frozenset({"write", "pwrite", "sendfile"})
"""Calls that can be cut off half-way."""
AGAIN_EVERY, FRESH_EVERY = 10, 30
"""One point in so many has a second death; one moment in so many is also tried with new interpreters."""
Observe = Callable[[int, int, Outcome], None]


# ---- preparation -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ground:
    """`goal` is the undisturbed run, `fresh` the same in new interpreters: made only if needed."""

    server: ModelServer
    nurseries: Sequence[Nursery]
    sandbox: str
    goal: Goal
    fresh: Callable[[], Goal]

    def attempt(
        self, point: Point, nursery: Nursery | None = None, meddle: Callable[[Path], object] | None = None
    ) -> Outcome:
        """One trial; `meddle` changes the folder after each death, to test that the change is noticed."""
        trial = Trial(nursery or self.nurseries[0], self.server, point.name, self.sandbox)
        outcome = trial.disturbed(point, self.goal, meddle)
        outcome.kind = _kind(point, outcome)
        return outcome


def _kind(point: Point, outcome: Outcome) -> str:
    if not outcome.died:
        return "not reached"
    if point.fresh:
        return "SIGKILL of a new interpreter"
    if not point.death.at:
        return "SIGKILL"
    call = outcome.died[0].partition(" ")[0]  # parallel steps may change the order a little
    where = "after" if point.death.where == "half" and call not in HALVED else point.death.where
    return f"{call}, {where}{', and once more' if point.again else ''}"


@contextmanager
def prepared(sandbox: str, workers: int = WORKERS) -> Generator[Ground]:
    """Everything that trials need, for so many at a time."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fractal-crash-")))
        server = stack.enter_context(ModelServer(scenario.answer).running())
        nurseries = [Nursery(base / f"worker-{number}") for number in range(workers)]
        for nursery in nurseries:
            stack.callback(nursery.close)
        imports, first = base / "imports", nurseries[0]
        Trial(first, server, "first", sandbox).undisturbed(first.warm, imports)
        for nursery in nurseries[1:]:
            nursery.warm(imports)
        goal = Trial(first, server, "goal", sandbox).undisturbed()
        fresh = cache(lambda: Trial(first, server, "fresh", sandbox).undisturbed(fresh=True))
        yield Ground(server, nurseries, sandbox, goal, fresh)


# ---- points ----------------------------------------------------------------------------------------------


def points_of(ground: Ground, rng: random.Random, kills: int, most: int | None) -> list[Point]:
    """The points to try: every call before, half-way and after; or `most` of them, spread over the kinds."""
    goal = ground.goal
    every: list[tuple[str, str, Death]] = []
    for stage, labels in goal.calls.items():
        counts: Counter[str] = Counter()
        for name in (label.partition(" ")[0] for label in labels):
            counts[name] += 1  # by name, as parallel steps change the order of all calls
            for where in ("before", "half", "after") if name in HALVED else ("before", "after"):
                every.append((stage, name, Death(counts[name], where, match=f"{name} ")))
    chosen = every if most is None else _spread(every, most, rng)
    points = [
        Point(f"{name}-{death.where}-{stage}-{death.at}", stage, death) for stage, name, death in chosen
    ]
    length = len(goal.calls["resume"])
    for stage, name, death in rng.sample(chosen, len(chosen) // AGAIN_EVERY):
        again = Death(rng.randint(1, max(length // 4, 1)), rng.choice(("before", "after")))
        points.append(Point(f"twice-{name}-{stage}-{death.at}-{again.at}", stage, death, again))
    stages = [stage for stage in goal.seconds if stage != "answer"]
    for number in range(kills):
        moment = rng.uniform(0, sum(goal.seconds[stage] for stage in stages))
        stage = stages[0] if moment < goal.seconds[stages[0]] else stages[1]
        moment -= 0.0 if stage == stages[0] else goal.seconds[stages[0]]
        points.append(Point(f"kill-{number}", stage, Death(kill=max(moment, 0.001))))
    for number in range(kills // FRESH_EVERY):
        stage = rng.choice(stages)
        moment = rng.uniform(0.1, ground.fresh().seconds[stage])
        points.append(Point(f"fresh-{number}", stage, Death(kill=moment), fresh=True))
    return points


def _spread(
    every: Sequence[tuple[str, str, Death]], most: int, rng: random.Random
) -> list[tuple[str, str, Death]]:
    """Some of the points, evenly from each kind of call and place in it."""
    groups: dict[tuple[str, str], list[tuple[str, str, Death]]] = {}
    for point in every:
        groups.setdefault((point[1], point[2].where), []).append(point)
    for group in groups.values():
        rng.shuffle(group)
    chosen: list[tuple[str, str, Death]] = []
    while len(chosen) < min(most, len(every)):
        for group in groups.values():
            if group and len(chosen) < most:
                chosen.append(group.pop())
    return chosen


# ---- trials ----------------------------------------------------------------------------------------------


def try_all(ground: Ground, points: Sequence[Point], observe: Observe) -> list[Outcome]:
    """Try the points, one per worker at a time; `observe` is called after each."""
    queue, outcomes, errors = list(reversed(points)), list[Outcome](), list[BaseException]()
    lock = threading.Lock()

    def work(nursery: Nursery) -> None:
        while not errors:
            with lock:
                if not queue:
                    return
                point = queue.pop()
            try:
                outcome = ground.attempt(point, nursery)
            except BaseException as error:  # raised below, by the thread that waits
                errors.append(error)
                return
            with lock:
                outcomes.append(outcome)
                observe(len(outcomes), len(points), outcome)

    threads = [threading.Thread(target=work, args=(nursery,)) for nursery in ground.nurseries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return outcomes
