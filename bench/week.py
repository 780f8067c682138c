"""A simulated week of a person, with a clock that is set by hand: runs, statements, dreams, reviews.

It measures what is due, fades and stays; what a goal changes; and whether memory notices that nothing is new
any more and that its graph falls apart. Only the clock is simulated: the store, the runs and the dreams are
real.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import Any

from bench.harness import read_tsv
from bench.week_shown import GRADES, table
from runtime.api.fractal import Fractal
from runtime.api.knowledge import mind_of, recall
from runtime.memory.dream.report import MemoryState, trend
from runtime.memory.dream.stages import ALL, Dream, DreamRecord, Stage
from runtime.memory.dream.work import Work
from runtime.memory.facts.records import Edge, Memory, Observation
from runtime.memory.facts.review import retrievability

__all__ = ["measure", "missed", "table"]

DATA = Path(__file__).with_name("week.tsv")
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
DAYS, AFTER = 7, 30
"""Simulated days, and the days after them without any question."""
GOAL, WANTED = "The tomatoes grow well in the garden bed.", "garden"
"""A goal, and the subject that it concerns."""
QUESTIONS: Mapping[str, Sequence[int]] = {
    "How is Bruno's paw?": range(1, 8),
    "What do I know about Lisbon and Casa Verde?": (2, 5),
}
"""The questions, and the evenings on which they are asked. Nothing is asked about the other subjects."""
TASKS: Mapping[int, Sequence[str]] = {
    1: ("remember that my sister's birthday is 4 May", "what is 15% of 240"),
    2: ("remember that the spare key is with our neighbour Ida",),
    3: ("what is 1840 / 23", "what do you know about my sister?"),
    5: ("remember that my sister moved to Aarhus",),
    6: ("what do you know about my sister?",),
}
WALKS = 100
USES = ("never used", "used once or twice", "used once or twice", "used more often")
"""By how often a memory was found for a question."""
STAYS, FADES = 0.9, 0.8
"""The retrievability from which a memory stays, and below which it counts as forgotten."""


@dataclass(frozen=True)
class Statement:
    """Something that the person said or noticed."""

    day: int
    hour: int
    subject: str
    said: str
    text: str


@dataclass
class Day:
    """The state of memory after the dream of a night."""

    day: int
    observations: int = 0
    memories: int = 0
    due: int = 0
    grades: dict[str, int] = field(default_factory=dict[str, int])
    fiedler: float = 0.0
    components: int = 0
    surprise: float | None = None  # of statements about oneself
    saturated: bool = False
    wanted_place: float | None = None  # of the wanted subject in the queue: 0 is first, 1 last
    known: dict[str, float] = field(default_factory=dict[str, float])  # retrievability before the dream


def read() -> list[Statement]:
    """The statements of the week."""
    return [
        Statement(int(row["day"]), int(row["hour"]), row["subject"], row["said"], row["text"])
        for row in read_tsv(DATA)
    ]


def stages() -> list[Stage]:
    """The stages of a dream that work on facts."""
    return [stage for stage in ALL if stage.group in ("a", "b")]


class Week:
    """One simulated week in a folder of its own."""

    def __init__(self, folder: Path, *, embedder: str = "auto", goal: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.now = MONDAY
        self.fractal = Fractal(folder, settings={"embedder": embedder, "fsync": False})
        self.fractal.memory.clock = lambda: self.now
        self.mind, self.shelf = mind_of(self.fractal), self.fractal.brain.shelf
        self.days: list[Day] = []
        self.runs = 0
        if goal:
            self.mind.set_goal(goal)

    def live(self, week: Sequence[Statement]) -> None:
        """Simulate all days, each with its dream at night."""
        for day in range(1, DAYS + 1):
            for task in TASKS.get(day, ()):
                self._set_clock(day, 7)
                asyncio.run(self.fractal.run(task))
                self.runs += 1
            turns: Counter[str] = Counter()
            for statement in (each for each in week if each.day == day):
                self._set_clock(day, statement.hour, turns.total())
                self._observe(statement, day, turn=turns[statement.subject])
                turns[statement.subject] += 1
            self._set_clock(day, 21)
            for question, evenings in QUESTIONS.items():
                if day in evenings:
                    recall(self.fractal, question, limit=5)
            self._set_clock(day, 23)
            self.days.append(self._night(day))

    def _set_clock(self, day: int, hour: int, minute: int = 0) -> None:
        self.now = MONDAY + timedelta(days=day - 1, hours=hour, minutes=minute)

    def _observe(self, statement: Statement, day: int, **options: Any) -> None:
        thread = f"day {day} {statement.subject}"
        fields = {"said": statement.said, "who": "I", "thread": thread, "names": None}
        self.mind.observe(statement.text, salience=None, **fields, **options)

    # ---- nights ------------------------------------------------------------------------------------------

    def _night(self, number: int) -> Day:
        self.mind.take_in()
        day = Day(number, due=len(self.mind.due()), wanted_place=self._wanted_place())
        day.known = self.retrievable(self.now)
        self.dream(f"night-{number}", stages())
        dream = self.shelf.get(DreamRecord, f"night-{number}")
        counts = dream.stages["score"].counts if dream and "score" in dream.stages else {}
        day.grades = {name: int(counts.get(name, 0)) for name in GRADES}
        graph, saturation = self.mind.connectivity(), self.mind.saturation()
        day.observations, day.memories = self.shelf.count(Observation), self.shelf.count(Memory)
        day.fiedler, day.components = round(graph.fiedler, 4), graph.components
        day.surprise = None if saturation.mean is None else round(saturation.mean, 4)
        day.saturated = saturation.saturated
        return day

    def dream(self, id: str, chosen: Sequence[Stage]) -> None:
        """One dream, at the time of the clock."""
        self.fractal.memory.dreamer.dream(id, chosen)

    def _wanted_place(self) -> float | None:
        """The mean place of the wanted subject among the observations that wait for the dream."""
        brain = self.fractal.brain
        queue = [_subject(each) for each in Work(Dream("look", brain, brain.shelf, self.now)).new()]
        places = [at / max(len(queue) - 1, 1) for at, subject in enumerate(queue) if subject == WANTED]
        return round(mean(places), 4) if places else None

    # ---- what is remembered ------------------------------------------------------------------------------

    def subjects(self) -> dict[str, str]:
        """The subject of each memory, by its evidence."""
        subjects: dict[str, str] = {}
        for memory in self.shelf.scan(Memory):
            evidence = self.shelf.pick(Observation, memory.evidence)
            counts = Counter(_subject(each) for each in evidence if each.thread.startswith("day "))
            if counts:
                subjects[memory.id] = counts.most_common(1)[0][0]
        return subjects

    def retrievable(self, when: datetime) -> dict[str, float]:
        """The retrievability of each memory at a time, if nothing happens until then."""
        return {each.id: round(retrievability(each.card, when), 4) for each in self.mind.memories()}

    def uses(self) -> dict[str, str]:
        """How often each memory from the first half of the week was found for a question."""
        half = (MONDAY + timedelta(days=DAYS // 2 + 1)).isoformat()
        return {each.id: USES[min(each.accessed, 3)] for each in self.mind.memories() if each.created < half}

    def remembered(self, when: datetime) -> dict[str, float]:
        """The mean retrievability by use, of memories of the same age."""
        return _by_use(self.uses(), self.retrievable(when))

    def left(self, days: int) -> dict[str, int]:
        """How many memories stay, fade and count as forgotten so many days after the week."""
        values = list(self.retrievable(MONDAY + timedelta(days=DAYS + days)).values())
        stay, gone = sum(each >= STAYS for each in values), sum(each < FADES for each in values)
        return {"stay": stay, "fade": len(values) - stay - gone, "forgotten": gone}

    def walked(self, walks: int = WALKS) -> float:
        """The share of the steps of random walks that are at the wanted subject."""
        subjects = self.subjects()
        steps = [
            subjects.get(step.memory.id) for seed in range(walks) for step in self.mind.wander(seed=seed)
        ]
        return round(steps.count(WANTED) / max(len(steps), 1), 4)

    def tear(self) -> dict[str, Any]:
        """Connect all memories in a ring, cut it in two, and compare the reports of two dreams."""
        only = [stage for stage in stages() if stage.name == "report"]
        self._set_clock(DAYS + 1, 23)
        ids = sorted(memory.id for memory in self.mind.memories())
        for at, id in enumerate(ids):  # with chords, as the graph of a week has many components
            for step in (1, 3):
                if (other := ids[(at + step) % len(ids)]) != id:
                    self.mind.link(id, other, text="joined on purpose")
        self.dream("before", only)
        edges = [each for each in self.shelf.scan(Edge) if each.source in ids and each.target in ids]
        half = set(ids[: len(ids) // 2])
        crossing = [each.id for each in edges if (each.source in half) != (each.target in half)]
        self.shelf.delete(Edge, *crossing)
        self._set_clock(DAYS + 2, 23)
        self.dream("after", only)
        before, after = self.shelf.get(MemoryState, "before"), self.shelf.get(MemoryState, "after")
        assert before is not None and after is not None
        names = ("fiedler", "components", "largest", "edges")
        return {
            "cut": len(crossing),
            "before": {name: getattr(before, name) for name in names},
            "after": {name: getattr(after, name) for name in names},
            "trend": trend(after, before),
        }

    def echo(self, week: Sequence[Statement], evenings: int = 21) -> int | None:
        """Repeat the statements about oneself after the week; the day on which saturation is noticed."""
        repeated = [each for each in week if each.said in ("identity", "reflection")]
        for day in range(DAYS + 1, DAYS + 1 + evenings):
            self._set_clock(day, 19)
            self._observe(repeated[day % len(repeated)], day, at_once=True)
            if self.mind.saturation().saturated:
                return day
        return None


def _subject(observation: Observation) -> str:
    return observation.thread.rpartition(" ")[2]


def measure(embedder: str = "auto") -> dict[str, Any]:
    """The week without a goal, and the same week with one."""
    week = read()
    with tempfile.TemporaryDirectory() as folder:
        plain = Week(Path(folder) / "plain", embedder=embedder)
        plain.live(week)
        with_goal = Week(Path(folder) / "goal", embedder=embedder, goal=GOAL)
        with_goal.live(week)
        return {
            "embedder": plain.fractal.brain.embedder.name,
            "runs": plain.runs,
            "experiences": len(list(plain.fractal.brain.episodes.all())),
            "days": [
                {name: value for name, value in vars(day).items() if name != "known"} for day in plain.days
            ],
            "curves": _curves(plain),
            "left": {str(days): plain.left(days) for days in (0, 7, AFTER)},
            "goal": {
                "place": {"without": mean_place(plain.days), "with": mean_place(with_goal.days)},
                "walks": {"without": plain.walked(), "with": with_goal.walked()},
            },
            "torn": plain.tear(),
            "saturated_on": plain.echo(week),
        }


def mean_place(days: Sequence[Day]) -> float:
    """The mean place of the wanted subject in the queues of all nights."""
    places = [day.wanted_place for day in days if day.wanted_place is not None]
    return round(sum(places) / max(len(places), 1), 4)


def _curves(week: Week) -> dict[str, list[tuple[float, float]]]:
    """Retrievability by use, on each evening of the week and on days after it."""
    uses = week.uses()
    evenings = [(day.day, _by_use(uses, day.known)) for day in week.days]
    for days in (1, 2, 4, 7, 10, 14, 21, AFTER):
        then = MONDAY + timedelta(days=DAYS - 1 + days, hours=23)
        evenings.append((DAYS + days, week.remembered(then)))
    return {
        use: [(float(day), values[use]) for day, values in evenings if use in values]
        for use in dict.fromkeys(reversed(USES))
        if use in uses.values()
    }


def _by_use(uses: Mapping[str, str], known: Mapping[str, float]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for id, use in uses.items():
        if id in known:
            values.setdefault(use, []).append(known[id])
    return {use: round(sum(some) / len(some), 4) for use, some in values.items()}


def missed(figures: Mapping[str, Any]) -> list[str]:
    """The missed goals."""
    place, walks = figures["goal"]["place"], figures["goal"]["walks"]
    goals = {
        "a goal moves its subject forward in consolidation": place["with"] < place["without"],
        "a goal attracts walks": walks["with"] > walks["without"],
        "saturation is noticed": bool(figures["saturated_on"]),
        "a cut graph is noticed": figures["torn"]["trend"] == "falling",
    }
    return [goal for goal, holds in goals.items() if not holds]
