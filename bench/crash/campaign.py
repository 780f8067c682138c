"""All trials: which points there are, two workers that try them, and what came of it by kind of call."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from bench.crash.ground import HALVED, Ground, prepared
from bench.crash.trial import FAULTS, Death, Goal, Nursery, Outcome, Point

KILLS, QUICK_KILLS, QUICK_POINTS = 300, 30, 72
AGAIN_EVERY, FRESH_EVERY = 10, 30
Told = Callable[[int, int, Outcome], None]


@dataclass
class Tally:
    """What came of all trials."""

    seed: int
    sandbox: str
    calls: int = 0  # of the undisturbed run that change files
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    seconds: float = 0.0

    def count(self, name: str) -> int:
        """How often something went wrong, over all trials."""
        return sum(len(getattr(each, name)) for each in self.outcomes)

    def by_kind(self) -> dict[str, dict[str, int]]:
        """The same by the kind of death."""
        kinds: dict[str, dict[str, int]] = {}
        for each in sorted(self.outcomes, key=lambda each: each.kind):
            row = kinds.setdefault(each.kind, dict.fromkeys(("points", "finished", *FAULTS), 0))
            row["points"] += 1
            row["finished"] += each.finished
            for name in FAULTS:
                row[name] += len(getattr(each, name))
        return kinds

    def figures(self) -> dict[str, Any]:
        """For programs."""
        outcomes = self.outcomes
        return {
            "points": len(outcomes),
            "finished": sum(each.finished for each in outcomes),
            **{name: self.count(name) for name in FAULTS},
            "calls_in_flight_repeated": sum(each.in_flight for each in outcomes),
            "runs_that_asked_a_person": sum(bool(each.asked) for each in outcomes),
            "processes_left": sum(each.left for each in outcomes),
            "deaths": sum(len(each.died) for each in outcomes),
            "calls_that_change_files": self.calls,
            "distinct_places": len({call for each in outcomes for call in each.died}),
            "by_kind": self.by_kind(),
            "sandbox": self.sandbox,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }


def points_of(goal: Goal, fresh: Goal, rng: random.Random, kills: int, most: int | None) -> list[Point]:
    """The points to try: every call before, half-way and after; or `most` of them, spread over the kinds.

    `fresh` is the undisturbed run in new interpreters, which takes longer.
    """
    every = [
        (stage, label.partition(" ")[0], Death(at, where))
        for stage, labels in goal.calls.items()
        for at, label in enumerate(labels, 1)
        for where in ("before", "half", "after")
        if where != "half" or label.partition(" ")[0] in HALVED
    ]
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
        moment = rng.uniform(0.1, fresh.seconds[stage])
        points.append(Point(f"fresh-{number}", stage, Death(kill=moment), fresh=True))
    return points


def _spread(
    every: Sequence[tuple[str, str, Death]], most: int, rng: random.Random
) -> list[tuple[str, str, Death]]:
    """Some of the points: as many of each kind of call and place in it as there is room for."""
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


def campaign(
    *,
    kills: int = KILLS,
    points: int | None = None,
    seed: int = 1,
    sandbox: str = "auto",
    told: Told = lambda done, of, outcome: None,
    ground: Ground | None = None,
) -> Tally:
    """Try all points (`points`: so many of them), and `kills` moments; `told` is called after each."""
    began = time.monotonic()
    with nullcontext(ground) if ground else prepared(sandbox) as ground:
        tally = Tally(seed, sandbox, sum(map(len, ground.goal.calls.values())))
        queue = points_of(ground.goal, ground.fresh, random.Random(seed), kills, points)
        tally.outcomes = try_all(ground, queue, told)
    tally.seconds = time.monotonic() - began
    return tally


def try_all(ground: Ground, points: Sequence[Point], told: Told) -> list[Outcome]:
    """Try the points, as many at a time as there are workers."""
    queue, outcomes, faults = list(reversed(points)), list[Outcome](), list[BaseException]()
    lock = threading.Lock()

    def work(nursery: Nursery) -> None:
        while not faults:
            with lock:
                if not queue:
                    return
                point = queue.pop()
            try:
                outcome = ground.attempt(point, nursery)
            except BaseException as error:  # told by the thread that waits for this one
                faults.append(error)
                return
            with lock:
                outcomes.append(outcome)
                told(len(outcomes), len(points), outcome)

    threads = [threading.Thread(target=work, args=(nursery,)) for nursery in ground.nurseries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return outcomes


def summary(tally: Tally) -> Counter[str]:
    """The causes of what went wrong, most frequent first."""
    return Counter(
        f"{name}: {each}" for one in tally.outcomes for name in FAULTS for each in getattr(one, name)
    )
