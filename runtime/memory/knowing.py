"""What memory has for a task, by part, and where each thing came from: what `context.py` chooses from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.budget import estimate_tokens
from kernel.screening import shown_name
from runtime.memory import awareness
from runtime.memory.brain import EXAMPLES, LIKE, example
from runtime.memory.context import (
    FILES,
    GUIDANCE,
    OTHERS,
    PATTERNS,
    TASKS,
    Context,
    Count,
    Line,
    flat,
    synthesized,
)

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.memory.learning.library import Library
    from runtime.memory.procedural.trees import NeuronTree

LOOKED_AT = 12
"""Solved tasks like a new one whose files are counted."""
FILES_SHOWN = 6
HEAD_CHARS = 240
"""Of a file, what is shown: its first lines tell a table's columns, or what a module is."""
HEAD_LINES = 3
LONGEST_LINE = 120
LONGEST_TASK = 200
"""Characters of a task that went well."""
MOST_FACTS = 5
FACT_LIKE = 0.3
"""The cosine from which something that was told bears on a task."""


@dataclass(frozen=True)
class Past:
    """A task that went well, in short."""

    text: str
    run: str
    score: float
    files: tuple[str, ...] = ()


@dataclass
class Knowing:
    """One workspace's memory, asked for what bears on a task."""

    brain: Brain
    folder: Path  # that the tools act on
    runs: Path
    hidden: Sequence[Path] = ()  # what no operation reads
    library: Library | None = None
    kinds: Callable[[str], Sequence[str]] | None = None  # the types that a task may be of

    def context(self, task: str, room: int, *, run: str = "", count: Count = estimate_tokens) -> Context:
        """What is shown of memory for a task, inside the room; `run` is the one that asks."""
        past = self._past(task, run)
        offers: dict[str, Sequence[Line]] = {
            FILES: [*self._facts(task), *self._files(past)],
            PATTERNS: self._patterns(task),
            TASKS: [*self._guided(task), *map(_line, past[:EXAMPLES])],
            OTHERS: self._others(run),
        }
        return synthesized(offers, room, count)

    def _past(self, task: str, run: str) -> list[Past]:
        """The tasks like this one that went well, the most alike first, each way of doing it once."""
        found: dict[str, Past] = {}
        bad: set[str] = set()
        for each, score in self.brain.episodes.similar(task, LOOKED_AT):
            if each.run == run or score < LIKE:
                continue
            if not each.success:
                bad.add(each.run)
                continue
            told = f"“{flat(each.text)[:LONGEST_TASK]}” went well with: {', '.join(each.moves) or 'no step'}"
            found[each.run] = Past(told, each.run, score, each.files)
        for tree, score in self.brain.similar(task, LOOKED_AT):
            if tree.run in bad or tree.run == run:  # a person's word counts more than CHECK's
                continue
            files = tuple(dict.fromkeys(_read(tree)))
            known = found.get(tree.run)
            files = tuple(dict.fromkeys((*files, *(known.files if known else ()))))
            found[tree.run] = Past(example(tree), tree.run, score, files)
        ranked = sorted(found.values(), key=lambda each: (-each.score, each.run))
        return list({each.text: each for each in reversed(ranked)}.values())[::-1]

    # ---- files and facts ---------------------------------------------------------------------------------

    def _facts(self, task: str) -> list[Line]:
        """What was told or found out, and bears on the task."""
        from runtime.memory.semantic.mind import Mind
        from runtime.memory.semantic.records import Memory, Observation

        kinds = self.brain.shelf.kinds()
        if not {Memory.KIND, Observation.KIND} & set(kinds):
            return []
        Mind.of(self.brain).take_in()
        found: dict[str, tuple[float, Line]] = {}
        for kind in (Memory, Observation):
            if not kinds.get(kind.KIND):
                continue
            (vector,) = self.brain.embedder.embed([task])
            hits = self.brain.shelf.nearest(kind, self.brain.embedder.name, vector, 2 * MOST_FACTS)
            scores = {hit.id: hit.score for hit in hits if hit.score >= FACT_LIKE}
            for each in self.brain.shelf.pick(kind, scores):
                if isinstance(each, Memory) and each.superseded:
                    continue
                if isinstance(each, Observation) and each.said not in ("fact", "identity"):
                    continue
                line = Line(each.text, each.source or kind.KIND, f"{scores[each.id]:.2f} like the task")
                found.setdefault(" ".join(each.text.split()), (scores[each.id], line))
        ranked = sorted(found.values(), key=lambda each: -each[0])
        return [line for _, line in ranked[:MOST_FACTS]]

    def _files(self, past: Sequence[Past]) -> list[Line]:
        """Files that tasks like this one used and that are still there, those of the most tasks first."""
        used: dict[str, list[Past]] = {}
        for each in past:
            for name in each.files:
                used.setdefault(name, []).append(each)
        found: list[tuple[float, Line]] = []
        for name, by in used.items():
            if (place := self._place(name)) is None:
                continue
            runs = list(dict.fromkeys(each.run for each in by))
            source = f"used by run {', '.join(runs[:3])}{' …' if len(runs) > 3 else ''}"
            why = f"used in {len(by)} of the {len(past)} solved tasks most like it"
            text = f"{shown_name(name)} {place.stat().st_size}"
            found.append((sum(each.score for each in by), Line(text, source, why, _head(place))))
        ranked = sorted(found, key=lambda each: (-each[0], each[1].text))
        return [line for _, line in ranked[:FILES_SHOWN]]

    def _place(self, name: str) -> Path | None:
        """The file of that name below the folder; None where there is none, or it is not to be seen."""
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

    def _patterns(self, task: str) -> list[Line]:
        """What was learned for tasks of this one's types, the surest first."""
        if self.library is None:
            return []
        types = self.kinds(task) if self.kinds else ()
        return [
            Line(
                each.told()[2:], each.source, f"for {', '.join(each.types)}; confidence {each.confidence:.2f}"
            )
            for each in self.library.relevant(types, GUIDANCE)
        ]

    # ---- solved tasks, and others ------------------------------------------------------------------------

    def _guided(self, task: str) -> Iterator[Line]:
        if text := self.brain.guided(task):
            yield Line(text, "a learned method", "the method for tasks like it")

    def _others(self, run: str) -> list[Line]:
        lines: list[Line] = []
        for each in awareness.active(self.runs, but=run):
            who = "" if each.agent == awareness.DEFAULT else f"{each.agent}: "
            told = f"{who}{' '.join(each.task.split())[:LONGEST_LINE]} (in {each.phase.upper()})"
            lines.append(Line(told, f"run {each.run}", f"it wrote {each.seconds} s ago"))
        return lines


def _line(past: Past) -> Line:
    return Line(past.text, f"run {past.run}" if past.run else "memory", f"{past.score:.2f} like the task")


def _read(tree: NeuronTree) -> Iterator[str]:
    """Names of files that a solved task's steps had to find there: what it wrote itself is none."""
    for step in tree.exemplar.steps:
        if step.get("tool") != "write":
            yield from _texts(step.get("args"))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():  # type: ignore[reportUnknownVariableType]
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:  # type: ignore[reportUnknownVariableType]
            yield from _texts(each)


def _head(place: Path) -> str:
    """The first lines of a text file; "" for what is none."""
    try:
        with place.open("rb") as file:
            raw = file.read(4 * HEAD_CHARS)
    except OSError:
        return ""
    if b"\0" in raw:
        return ""
    text = raw.decode("utf-8", "replace")[:HEAD_CHARS]
    return "\n".join(shown_name(line)[:LONGEST_LINE] for line in text.splitlines()[:HEAD_LINES])
