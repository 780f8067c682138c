"""A week of a person, simulated with a clock that is set by hand: runs, what is said, dreams, reviews.

What is due, what fades and what stays; what a goal draws; whether it is noticed that nothing surprises any
more and that what is known falls apart. All but the clock is real: the store, the runs, the dreams.
"""

from __future__ import annotations

import asyncio
import csv
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import show
from runtime.api.knowledge import mind_of, recall

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal
    from runtime.memory.dream.stage import Dream, Stage
    from runtime.memory.facts.records import Edge, Memory

DATA = Path(__file__).with_name("week.tsv")
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
DAYS, AFTER = 7, 30
"""Days that are lived, and days after them in which nobody asks anything."""
GOAL, WANTED = "The tomatoes grow well in the garden bed.", "garden"
ASKED: Mapping[str, tuple[str, Sequence[int]]] = {
    "dog": ("How is Bruno's paw?", range(1, 8)),
    "trip": ("What do I know about Lisbon and Casa Verde?", (2, 5)),
}
"""What is asked on which evenings; of the other subjects nothing is."""
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
"""Retrievability from which a memory stays, and below which it is as good as forgotten."""


@dataclass(frozen=True)
class Said:
    """Something that the person said or noticed."""

    day: int
    hour: int
    subject: str
    said: str
    text: str


@dataclass
class Day:
    """How things stood on an evening, after the dream of that night."""

    day: int
    observations: int = 0
    memories: int = 0
    due: int = 0
    grades: dict[str, int] = field(default_factory=dict[str, int])
    fiedler: float = 0.0
    components: int = 0
    surprise: float | None = None  # of what is told about oneself
    saturated: bool = False
    wanted_place: float | None = None  # where what concerns the goal stands in the queue, 0 first, 1 last
    known: dict[str, float] = field(
        default_factory=dict[str, float]
    )  # retrievability before the dream, by id


def read(path: Path = DATA) -> list[Said]:
    """What is said in the week."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [Said(int(r["day"]), int(r["hour"]), r["subject"], r["said"], r["text"]) for r in rows]


class Week:
    """One simulated week in a folder of its own."""

    def __init__(self, folder: Path, *, embedder: str = "auto", goal: str = "") -> None:
        from runtime.api.fractal import Fractal

        folder.mkdir(parents=True, exist_ok=True)
        self.now = MONDAY
        settings = {"embedder": embedder, "fsync": False}
        self.fractal: Fractal = Fractal(folder, settings=settings)
        self.fractal.memory.clock = lambda: self.now
        self.days: list[Day] = []
        self.runs = 0
        if goal:
            mind_of(self.fractal).set_goal(goal)

    def live(self, week: Sequence[Said], tasks: Mapping[int, Sequence[str]] = TASKS) -> None:
        """Live all days, each with its dream at night."""
        for day in range(1, DAYS + 1):
            for task in tasks.get(day, ()):
                self._at(day, 7)
                asyncio.run(self.fractal.run(task))
                self.runs += 1
            turns: Counter[str] = Counter()
            for each in (each for each in week if each.day == day):
                self._at(day, each.hour, turns.total())
                thread = f"day {day} {each.subject}"
                mind_of(self.fractal).observe(
                    each.text,
                    said=each.said,
                    who="I",
                    thread=thread,
                    turn=turns[thread],
                    names=None,
                    salience=None,
                )
                turns[thread] += 1
            self._at(day, 21)
            for question, evenings in ASKED.values():
                if day in evenings:
                    recall(self.fractal, question, limit=5)
            self._at(day, 23)
            self.days.append(self._night(day))

    def _at(self, day: int, hour: int, minute: int = 0) -> None:
        self.now = MONDAY + timedelta(days=day - 1, hours=hour, minutes=minute)

    # ---- nights ------------------------------------------------------------------------------------------

    def _night(self, day: int) -> Day:
        mind = mind_of(self.fractal)
        mind.take_in()
        told = Day(day, due=len(mind.due()), wanted_place=self._place())
        told.known = self.retrievable(self.now)
        self.dream(f"night-{day}", stages())
        counts = self._counts(f"night-{day}", "score")
        told.grades = {name: int(counts.get(name, 0)) for name in ("again", "hard", "good", "easy")}
        self._standing(told)
        return told

    def dream(self, id: str, chosen: Sequence[Stage]) -> None:
        """One dream, at the time that the clock shows."""
        self.fractal.memory.dreamer.dream(id, chosen)

    def _counts(self, dream: str, stage: str) -> Mapping[str, float]:
        from runtime.memory.dream.stage import Dreamt

        known = self.fractal.brain.shelf.get(Dreamt, dream)
        return known.stages[stage].counts if known and stage in known.stages else {}

    def _standing(self, told: Day) -> None:
        from runtime.memory.facts.records import Memory, Observation

        mind, shelf = mind_of(self.fractal), self.fractal.brain.shelf
        graph, tired = mind.connectivity(), mind.saturation()
        told.observations, told.memories = shelf.count(Observation), shelf.count(Memory)
        told.fiedler, told.components = round(graph.fiedler, 4), graph.components
        told.surprise = None if tired.mean is None else round(tired.mean, 4)
        told.saturated = tired.saturated

    def _place(self) -> float | None:
        """The mean place of what concerns the wanted subject among what waits for tonight's dream."""
        from runtime.memory.dream.stage import Dream
        from runtime.memory.dream.work import Work

        brain = self.fractal.brain
        dream: Dream = Dream("look", brain, brain.shelf, self.now)
        queue = [each.thread.rpartition(" ")[2] for each in Work(dream).new()]
        places = [at / max(len(queue) - 1, 1) for at, subject in enumerate(queue) if subject == WANTED]
        return round(sum(places) / len(places), 4) if places else None

    # ---- what is remembered ------------------------------------------------------------------------------

    def subjects(self) -> dict[str, str]:
        """The subject of each memory, by its evidence."""
        from runtime.memory.facts.records import Memory, Observation

        found: dict[str, str] = {}
        for memory in self.fractal.brain.shelf.scan(Memory):
            evidence = self.fractal.brain.shelf.pick(Observation, memory.evidence)
            told = Counter(
                each.thread.rpartition(" ")[2] for each in evidence if each.thread.startswith("day ")
            )
            if told:
                found[memory.id] = told.most_common(1)[0][0]
        return found

    def memories(self) -> list[Memory]:
        """Those that hold."""
        return list(mind_of(self.fractal).memories())

    def retrievable(self, when: datetime) -> dict[str, float]:
        """How likely each memory is to be known at a time, if nothing happens until then."""
        from runtime.memory.facts.review import retrievability

        return {memory.id: round(retrievability(memory.card, when), 4) for memory in self.memories()}

    def uses(self) -> dict[str, str]:
        """How often each memory of the first half of the week was found for a question."""
        half = (MONDAY + timedelta(days=DAYS // 2 + 1)).isoformat()
        return {
            memory.id: USES[min(memory.accessed, 3)] for memory in self.memories() if memory.created < half
        }

    def remembered(self, when: datetime) -> dict[str, float]:
        """The mean of that by how often memories of the same age were used."""
        return _by_use(self.uses(), self.retrievable(when))

    def left(self, days: int) -> dict[str, int]:
        """How many memories stay, fade and are as good as forgotten so many days after the week."""
        values = list(self.retrievable(MONDAY + timedelta(days=DAYS + days)).values())
        stay, gone = sum(each >= STAYS for each in values), sum(each < FADES for each in values)
        return {"stay": stay, "fade": len(values) - stay - gone, "forgotten": gone}

    def walked(self, walks: int = WALKS) -> float:
        """The share of the steps of many walks that are at the wanted subject."""
        subjects, mind = self.subjects(), mind_of(self.fractal)
        steps = [subjects.get(step.memory.id) for seed in range(walks) for step in mind.wander(seed=seed)]
        return round(steps.count(WANTED) / max(len(steps), 1), 4)

    def tear(self) -> dict[str, Any]:
        """Join all that is known into one piece, cut that in two, and let a dream's report look at both."""
        from runtime.memory.dream.report import Standing, trend
        from runtime.memory.facts.records import Edge

        shelf = self.fractal.brain.shelf
        only = [stage for stage in stages() if stage.name == "report"]
        self._at(DAYS + 1, 23)
        held = sorted(memory.id for memory in self.memories())
        for at, id in enumerate(held):  # a ring with chords: what a week knows by itself is in many pieces
            for step in (1, 3):
                if (other := held[(at + step) % len(held)]) != id:
                    mind_of(self.fractal).link(id, other, text="joined on purpose")
        self.dream("before", only)
        edges = [each for each in shelf.scan(Edge) if each.source in held and each.target in held]
        half = _half(edges)
        crossing = [each.id for each in edges if (each.source in half) != (each.target in half)]
        shelf.delete(Edge, *crossing)
        self._at(DAYS + 2, 23)
        self.dream("after", only)
        before, after = shelf.get(Standing, "before"), shelf.get(Standing, "after")
        assert before is not None and after is not None
        names = ("fiedler", "components", "largest", "edges")
        return {
            "cut": len(crossing),
            "before": {name: getattr(before, name) for name in names},
            "after": {name: getattr(after, name) for name in names},
            "trend": trend(after, before),
        }

    def echo(self, week: Sequence[Said], evenings: int = 21) -> int | None:
        """After the week only what was told of oneself is told again; the day on which that is noticed."""
        told = [each for each in week if each.said in ("identity", "reflection")]
        for day in range(DAYS + 1, DAYS + 1 + evenings):
            each = told[day % len(told)]
            self._at(day, 19)
            fields = {"said": each.said, "who": "I", "thread": f"day {day} {each.subject}", "names": None}
            mind_of(self.fractal).observe(each.text, salience=None, at_once=True, **fields)
            if mind_of(self.fractal).saturation().saturated:
                return day
        return None


def _half(edges: Sequence[Edge]) -> set[str]:
    """The first half of the largest piece, by how far its nodes are from one at its rim."""
    near: dict[str, set[str]] = {}
    for edge in edges:
        near.setdefault(edge.source, set()).add(edge.target)
        near.setdefault(edge.target, set()).add(edge.source)
    pieces: list[list[str]] = []
    left = set(near)
    while left:
        piece = _outwards(_outwards(min(left), near)[-1], near)
        pieces.append(piece)
        left -= set(piece)
    largest = max(pieces, key=len, default=[])
    return set(largest[: len(largest) // 2])


def _outwards(start: str, near: Mapping[str, set[str]]) -> list[str]:
    found = [start]
    for node in found:
        found += sorted(near[node] - set(found))
    return found


def stages() -> list[Stage]:
    """The stages that work on what is known."""
    from runtime.memory.dream.stages import ALL

    return [stage for stage in ALL if stage.group in ("a", "b")]


def measure(embedder: str = "auto", walks: int = WALKS) -> dict[str, Any]:
    """The week with a goal, and the same week without."""
    week = read()
    with tempfile.TemporaryDirectory() as folder:
        plain = Week(Path(folder) / "plain", embedder=embedder)
        plain.live(week)
        wished = Week(Path(folder) / "goal", embedder=embedder, goal=GOAL)
        wished.live(week)
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
                "place": {"without": _mean(plain.days), "with": _mean(wished.days)},
                "walks": {"without": plain.walked(walks), "with": wished.walked(walks)},
            },
            "torn": plain.tear(),
            "saturated_on": plain.echo(week),
        }


def _mean(days: Sequence[Day]) -> float:
    places = [day.wanted_place for day in days if day.wanted_place is not None]
    return round(sum(places) / max(len(places), 1), 4)


def _curves(week: Week) -> dict[str, list[tuple[float, float]]]:
    """Retrievability by use: each evening of the week, then what becomes of it."""
    uses = week.uses()
    told = [(day.day, _by_use(uses, day.known)) for day in week.days]
    for days in (1, 2, 4, 7, 10, 14, 21, AFTER):
        then = MONDAY + timedelta(days=DAYS - 1 + days, hours=23)
        told.append((DAYS + days, week.remembered(then)))
    return {
        use: [(float(day), values[use]) for day, values in told if use in values]
        for use in dict.fromkeys(reversed(USES))
        if use in uses.values()
    }


def _by_use(uses: Mapping[str, str], known: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for id, use in uses.items():
        if id in known:
            found.setdefault(use, []).append(known[id])
    return {use: round(sum(values) / len(values), 4) for use, values in found.items()}


def missed(figures: Mapping[str, Any]) -> list[str]:
    """What the week should show and does not."""
    place, walks = figures["goal"]["place"], figures["goal"]["walks"]
    holds = {
        "a goal draws consolidation": place["with"] < place["without"],
        "a goal draws walks": walks["with"] > walks["without"],
        "saturation is noticed": bool(figures["saturated_on"]),
        "the tear is noticed": figures["torn"]["trend"] == "falling",
    }
    return [each for each, held in holds.items() if not held]


def main(as_json: bool = False, plot: Path | None = None, embedder: str = "auto") -> None:
    """Measure and print."""
    from bench.week_shown import draw, shown

    figures = measure(embedder)
    show(figures, shown(figures), as_json, missed(figures))
    if plot:
        draw(figures, plot)
