"""What memory has for a task, by part, each line with its source; `context.py` selects from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.asking.responder import estimate_tokens
from runtime.memory.context import awareness
from runtime.memory.context.context import (
    FILES,
    OTHERS,
    PATTERNS,
    SHARES,
    TASKS,
    Context,
    Count,
    Line,
    synthesized,
)
from runtime.memory.context.ways import Way, ways
from runtime.text.lines import flat
from runtime.text.shown import shown_name

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.memory.episodes.experience import Experience
    from runtime.memory.learning.library import Library
    from runtime.memory.learning.patterns import Pattern


LIKE = 0.5
"""The least cosine of a solved task that a model is shown."""
LOOKED_AT = 40
"""Experiences to consider, those most like a new task."""
READ = 16
"""Experiences whose documents are read for the way they were done."""
ALL_PATTERNS = 5_000
"""Tokens of patterns to choose from."""
OFTEN = 0.5
"""The least share of similar tasks that used a file, for it to be shown."""
LIFT = 2.0
"""How much more often than other tasks they must use it: a file that every task reads says nothing."""
FILES_SHOWN = 6
HEAD_CHARS = 240
"""Characters of a table that are shown."""
HEAD_LINES = 3
TABLES = (".csv", ".tsv")
"""Files of which a prompt shows the first lines: their columns. The head of another file rarely helps."""
LONGEST_LINE = 120


@dataclass
class ContextSources:
    """The memory of one workspace, asked for what bears on a task."""

    brain: Brain
    folder: Path  # that the tools act on
    runs: Path
    hidden: Sequence[Path] = ()  # what no operation reads
    library: Library | None = None
    parts: Collection[str] = tuple(SHARES)  # that are shown
    now: datetime | None = None
    space: str = ""  # whose agents are shown; "" for all
    agent: str = ""  # that asks, unless it is a run

    def context(self, task: str, room: int, *, run: str = "", count: Count = estimate_tokens) -> Context:
        """What is shown for a task within `room` tokens; `run` is the asking run."""
        near = self._near(task, run)
        examples = ways([each for each in near if each[1] >= LIKE][:READ], self.runs.parent)
        makers: dict[str, Callable[[], Sequence[Line]]] = {
            FILES: lambda: [*facts(self.brain, task, self.now), *self._files(near)],
            PATTERNS: lambda: self._patterns(task, near),
            TASKS: lambda: [*self._guided(task), *map(_line, examples)],
            OTHERS: lambda: [*self._others(run), *_best(near)],
        }
        offers = {name: make() for name, make in makers.items() if name in self.parts}
        return synthesized(offers, room, count)

    def _near(self, task: str, run: str) -> list[tuple[Experience, float]]:
        """Experiences of other runs, the most similar task first."""
        return [each for each in self.brain.episodes.similar(task, LOOKED_AT) if each[0].run != run]

    def _files(self, near: Sequence[tuple[Experience, float]]) -> list[Line]:
        """Existing files that similar tasks used clearly more often than others."""
        alike = [each for each, score in near if score >= LIKE and each.success]
        unlike = [each for each, score in near if score < LIKE and each.success]
        used = Counter(name for each in alike for name in dict.fromkeys(each.files))
        elsewhere = Counter(name for each in unlike for name in dict.fromkeys(each.files))
        lines: list[tuple[int, Line]] = []
        for name, times in used.items():
            share, usual = times / len(alike), elsewhere[name] / max(len(unlike), 1)
            if share < OFTEN or share < LIFT * usual or (place := self._place(name)) is None:
                continue
            runs = [each.run for each in alike if name in each.files]
            source = f"used by run {', '.join(runs[:3])}{' …' if len(runs) > 3 else ''}"
            why = f"used in {times} of the {len(alike)} tasks most like it that went well"
            text = f"{shown_name(name)} {place.stat().st_size}"
            lines.append((times, Line(text, source, why, _head(place))))
        ranked = sorted(lines, key=lambda each: (-each[0], each[1].text))
        return [line for _, line in ranked[:FILES_SHOWN]]

    def _place(self, name: str) -> Path | None:
        """The file of that name below the folder; None if it does not exist or is hidden."""
        if not name or len(name) > 300 or "\0" in name or any(part[:1] == "." for part in Path(name).parts):
            return None
        root = self.folder.resolve()
        try:
            place = (root / name).resolve()
            if root not in place.parents or not place.is_file():
                return None
        except (OSError, RuntimeError):
            return None
        hidden = (each.resolve() for each in self.hidden)
        return None if any(each == place or each in place.parents for each in hidden) else place

    def _patterns(self, task: str, near: Sequence[tuple[Experience, float]]) -> list[Line]:
        """What was learned for such tasks, without habits that only other tasks have."""
        if self.library is None:
            return []
        alike = {each.document for each, score in near if score >= LIKE and each.success and each.document}
        fitting = self.library.relevant(self.brain.kinds.of(task), ALL_PATTERNS)
        return _as_lines(
            each
            for each in fitting
            if not alike
            or each.origin != "distilled"
            or each.fixed
            or not each.sources  # agents that leave no documents taught it
            or alike & {*each.sources}
        )

    def _guided(self, task: str) -> Iterator[Line]:
        if text := self.brain.guided(task):
            yield Line(text, "a learned method", "the method for tasks like it")

    def _others(self, run: str) -> list[Line]:
        from runtime.memory.context.announced import at_work

        lines = runs_at_work(self.runs, but=run, space=self.space)
        now = self.now or datetime.now(UTC)
        for other in at_work(self.brain.shelf, now, self.space, self.agent)[: awareness.SHOWN]:
            task = f": {flat(other.recent[-1])[:LONGEST_LINE]}" if other.recent else " is at work"
            lines.append(Line(f"{other.agent}{task}", "announced", f"seen {other.seconds(now)} s ago"))
        return lines


def runs_at_work(runs: Path, *, but: str = "", space: str = "") -> list[Line]:
    """The runs that are active now, of one space or (by "") of all; `but` is left out."""
    lines: list[Line] = []
    for other in awareness.active(runs, but=but):
        if space in ("", other.space):
            who = "" if other.agent == awareness.DEFAULT else f"{other.agent}: "
            task = f"{who}{' '.join(other.task.split())[:LONGEST_LINE]} (in {other.phase.upper()})"
            lines.append(Line(task, f"run {other.run}", f"it wrote {other.seconds} s ago"))
    return lines


def from_files(
    library: Library, systems: tuple[Path, ...], runs: Path, task: str, room: int, space: str = ""
) -> Context:
    """What is known without the store: the patterns, which are markdown, and the active runs."""
    from runtime.memory.learning.kinds import kinds_of

    patterns = library.relevant(kinds_of(systems, None).of(task), ALL_PATTERNS)
    offers = {PATTERNS: _as_lines(patterns), OTHERS: runs_at_work(runs, space=space)}
    return synthesized(offers, room, estimate_tokens)


def _as_lines(patterns: Iterable[Pattern]) -> list[Line]:
    return [
        Line(each.line()[2:], each.source, f"for {', '.join(each.types)}; confidence {each.confidence:.2f}")
        for each in patterns
    ]


def _best(near: Sequence[tuple[Experience, float]]) -> list[Line]:
    """Which agent does tasks like this one best, where more than one has done some."""
    alike = [each for each, score in near if score >= LIKE]
    profiles = awareness.profiles(alike, lambda each: "")
    records = awareness.totals(profiles, "")
    best = awareness.best(records) if len(records) > 1 else None
    if best is None or best[1].samples < awareness.FEW:
        return []
    agent, record = best
    text = f"agent {agent} does tasks like this one best: {record.successes} of {record.samples} went well"
    return [Line(text, f"{len(alike)} tasks like it", f"score {record.score:.2f}")]


def _line(way: Way) -> Line:
    runs = f"run {', '.join(way.good[:3])}{' …' if len(way.good) > 3 else ''}"
    often = f"; done so {len(way.good)} times, rejected {way.bad}" if len(way.good) + way.bad > 1 else ""
    return Line(way.text, runs, f"{way.score:.2f} like the task{often}")


def _head(place: Path) -> str:
    """The first lines of a table; "" for other files."""
    if place.suffix.lower() not in TABLES:
        return ""
    try:
        with place.open("rb") as file:
            raw = file.read(4 * HEAD_CHARS)
    except OSError:
        return ""
    if b"\0" in raw:
        return ""
    text = raw.decode("utf-8", "replace")[:HEAD_CHARS]
    return "\n".join(shown_name(line)[:LONGEST_LINE] for line in text.splitlines()[:HEAD_LINES])


MOST_FACTS = 5
MOST_ANSWERS = 10
"""Facts that a question is shown: a model reads them better than their ranks tell."""
FACT_LIKE = 0.3
"""The likeness from which on a fact bears on a task, by words or meaning."""
SHARE = 0.05
"""The least share of a hit in all that retrieval finds."""
SAID = ("fact", "identity")
"""Kinds of observations that are facts; results and failures are in experiences."""


def facts(brain: Brain, task: str, now: datetime | None = None) -> list[Line]:
    """The facts that bear on a task and hold, the best first, each with its date. Raises `FractalError`.

    A question also gets the day, and what is only near to it.
    """
    from runtime.memory.facts.mind import Mind
    from runtime.memory.facts.records import Memory, Observation
    from runtime.memory.facts.retrieval import Scope, answers_of, retrieval_of

    if not (brain.shelf.has(Memory) or brain.shelf.has(Observation)):
        return []
    Mind.of(brain).take_in()
    lines: dict[str, Line] = {}
    retrieval = retrieval_of(brain.shelf, brain.embedder, brain.settings.systems)
    now = now or datetime.now(UTC)
    answers = answers_of(retrieval, task, MOST_ANSWERS, scope=Scope(keep=_is_fact), now=now)
    asks = answers.wanted.asks
    for found in answers.near if asks else answers.lines:
        if asks or (found.share >= SHARE and found.likeness >= FACT_LIKE):
            why = f"{found.hit.why or 'like the task'} ({found.likeness:.2f})"
            lines.setdefault(flat(found.text), Line(found.text, found.source, why))
    if not (asks and lines):
        return list(lines.values())[:MOST_FACTS]
    return [Line(f"today is {now.day} {now:%B %Y}", "the clock"), *lines.values()]


def _is_fact(fields: Mapping[str, Any]) -> bool:
    return fields.get("said", "fact") in SAID
