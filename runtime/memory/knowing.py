"""What memory has for a task, by part, and where each thing came from: what `context.py` chooses from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.budget import estimate_tokens
from kernel.screening import shown_name
from runtime.memory import awareness
from runtime.memory.brain import EXAMPLES, example
from runtime.memory.context import FILES, GUIDANCE, OTHERS, PATTERNS, TASKS, Context, Count, Line, synthesized

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
MOST_FACTS = 5
FACT_LIKE = 0.3
"""The cosine from which something that was told bears on a task."""


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
        """What is shown of memory for a task, inside the room."""
        near = [each for each in self.brain.similar(task, LOOKED_AT) if each[0].run != run or not run]
        offers: dict[str, Sequence[Line]] = {
            FILES: [*self._facts(task), *self._files(near)],
            PATTERNS: self._patterns(task),
            TASKS: [*self._guided(task), *map(_past, near[:EXAMPLES])],
            OTHERS: self._others(run),
        }
        return synthesized(offers, room, count)

    # ---- files and facts ---------------------------------------------------------------------------------

    def _facts(self, task: str) -> list[Line]:
        """What was told or found out, and bears on the task."""
        from runtime.memory.semantic.records import Memory, Observation

        kinds = self.brain.shelf.kinds()
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

    def _files(self, near: Sequence[tuple[NeuronTree, float]]) -> list[Line]:
        """Files that tasks like this one used and that are still there, those of the most tasks first."""
        used: dict[str, list[tuple[str, float]]] = {}
        for tree, score in near:
            for name in dict.fromkeys(_texts([step.get("args") for step in tree.exemplar.steps])):
                used.setdefault(name, []).append((tree.run, score))
        found: list[tuple[float, Line]] = []
        for name, by in used.items():
            if (place := self._place(name)) is None:
                continue
            runs = list(dict.fromkeys(run for run, _ in by))
            source = f"used by run {', '.join(runs[:3])}{' …' if len(runs) > 3 else ''}"
            why = f"used in {len(by)} of the {len(near)} solved tasks most like it"
            text = f"{shown_name(name)} {place.stat().st_size}"
            found.append((sum(score for _, score in by), Line(text, source, why, _head(place))))
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


def _past(near: tuple[NeuronTree, float]) -> Line:
    tree, score = near
    return Line(example(tree), f"run {tree.run}" if tree.run else "memory", f"{score:.2f} like the task")


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
