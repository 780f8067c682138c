"""Streams of tasks that memory answers or a teacher solves, with true or false words on what came of each.

The tasks are those of the families of variations: some of each family are taught, the rest comes in shuffled
order, traps among them. Whatever is not answered from memory is solved by a teacher, as the next rung would,
and learned. The code is that of a run: recall, decisions, `settle`, and methods in files of their own.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import data_file, percentiles, share
from runtime.memory.tasks import Parts

if TYPE_CHECKING:
    from runtime.memory.embed import Array, Embedder
    from runtime.memory.store import Shelf
    from runtime.memory.tasks.exemplar import Exemplar
    from runtime.memory.tasks.words import Words
    from runtime.reflexes.trial import Trial

FILE = "variations/families.jsonl"
FAMILIES = 60
CLOSE = Fraction(1, 100)
FALSE = 0.15
"""Share of outcomes that are told the wrong way round, where feedback is wrong."""
POISONED = 0.2
"""Share of families whose first program is wrong, where exemplars are poisoned: half beside the right one."""
SEVERAL = 5
"""Tasks of a family that are taught where several are: of so many a method is born."""
_REFERENCE = re.compile(r"\{\{ steps\[(\d+)\]\.result \}\}")
_SWAPPED = {"+": "*", "-": "+", "*": "+", "/": "*"}


@dataclass(frozen=True)
class Stream:
    """What a stream is like: shares of false outcomes and of poisoned families, and tasks that are taught."""

    false: float = 0.0
    poison: float = 0.0
    taught: int = 1
    part: float = 1.0  # of the families, where it would take long


STREAMS: Mapping[str, Stream] = {
    "true": Stream(),
    "false": Stream(false=FALSE),
    "poisoned": Stream(false=FALSE, poison=POISONED),
    "several": Stream(taught=SEVERAL, part=1 / 3),
}


@dataclass(frozen=True)
class Item:
    """A task of a stream; a trap has no answer that memory could know."""

    family: int
    task: str
    answer: str | None


@dataclass
class Counts:
    """What came of a stream."""

    answered: int = 0
    right: int = 0
    variations: int = 0
    replayed_traps: int = 0
    traps: int = 0
    taught: int = 0
    by_method: int = 0
    typed: int = 0

    def figures(self, times: Sequence[float], stored: int) -> dict[str, float]:
        """As they are shown: shares between 0 and 1, milliseconds, bytes."""
        return {
            "answered": share(self.answered, self.variations),
            "right_of_answered": share(self.right, self.answered),
            "wrong": self.answered - self.right + self.replayed_traps,
            "false_replay": share(self.replayed_traps, self.traps),
            "taught": self.taught,
            "by_method": self.by_method,
            "typed": share(self.typed, self.variations),
            "p50_ms": percentiles(times, 3)["p50_ms"],
            "bytes": stored,
        }


# ---- the data --------------------------------------------------------------------------------------------


def families(count: int, seed: int, odd: bool | None = None) -> list[dict[str, Any]]:
    """Some families, chosen by chance; `odd` takes those with odd or even numbers only."""
    found = [json.loads(line) for line in data_file(FILE).read_text("utf-8").splitlines() if line.strip()]
    found = [each for each in found if odd is None or each["id"] % 2 == odd]
    random.Random(seed).shuffle(found)
    return sorted(found[:count], key=lambda each: each["id"])


def items(found: Sequence[Mapping[str, Any]], seed: int) -> list[Item]:
    """All variations and traps, in an order of chance."""
    stream = [
        Item(each["id"], told["question"], told.get("answer"))
        for each in found
        for told in [*each["variations"], *each["traps"]]
    ]
    random.Random(seed + 1).shuffle(stream)
    return stream


def solved(question: str, program: Sequence[str]) -> Exemplar:
    """A program of calculator steps as an exemplar."""
    from runtime.memory.tasks.exemplar import Exemplar

    steps: list[dict[str, Any]] = [
        {
            "tool": "calc",
            "args": {"expression": each},
            "needs": sorted({int(n) for n in _REFERENCE.findall(each)}),
        }
        for each in program
    ]
    return Exemplar(
        task=question,
        steps=tuple(steps),
        output=f"{{{{ steps[{len(steps)}].result }}}}",
        verified=True,
    )


def poisoned(program: Sequence[str], rng: random.Random) -> list[str]:
    """The same program with one operation that is another."""
    places = [
        (at, hit.start())
        for at, each in enumerate(program)
        for hit in re.finditer(r"(?<=[\d}) ])[-+*/]", each)
    ]
    made = list(program)
    if places:
        at, place = rng.choice(places)
        made[at] = made[at][:place] + _SWAPPED[made[at][place]] + made[at][place + 1 :]
    return made


def worked_out(steps: Sequence[Mapping[str, Any]]) -> Fraction | None:
    """The last result of calculator steps; None where they cannot be done."""
    from runtime.memory.tasks.binding import calculated

    told = [{"tool": step["tool"], "args": step["args"]} for step in steps]
    results = calculated(told)
    return Fraction(results[-1].replace("…", "")) if results else None


def same(result: Fraction | None, answer: str) -> bool:
    """Whether a result is the answer, which is told in two places."""
    return result is not None and abs(result - Fraction(answer.replace(",", ""))) <= CLOSE


class Once:
    """An embedder that makes the vectors of each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.size = embedder.name, embedder.size
        self._one = cache(lambda text: embedder.embed([text])[0])
        self.embed_tokens = cache(embedder.embed_tokens)

    def warm(self, texts: Sequence[str]) -> None:
        """Make the vectors of all that will be asked for."""
        self.embed(texts)
        for text in texts:
            self.embed_tokens(text)

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text."""
        import numpy as np

        return np.stack([self._one(text) for text in texts])


# ---- a stream --------------------------------------------------------------------------------------------


def played(
    found: Sequence[Mapping[str, Any]], parts: Parts, embedder: Embedder, stream: Stream, seed: int = 1
) -> dict[str, float]:
    """The figures of one stream, by the same code that a run uses."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return _Pupil(found, parts, embedder, Path(folder), stream, seed).figures()


class _Pupil:
    """A memory, what it is asked, and what came of it."""

    def __init__(
        self,
        found: Sequence[Mapping[str, Any]],
        parts: Parts,
        embedder: Embedder,
        folder: Path,
        stream: Stream,
        seed: int,
    ) -> None:
        from runtime.api.fractal import shipped_system
        from runtime.memory.store import open_shelf
        from runtime.memory.tasks.methods import Methods
        from runtime.memory.tasks.recall import ProceduralMemory
        from runtime.memory.tasks.types import Types
        from runtime.memory.tasks.words import words_of
        from runtime.reflexes.trial import Trial

        words = words_of((shipped_system(),))
        self.stream, self.parts = stream, parts
        self.shelf = open_shelf("memory", folder)
        self.memory = ProceduralMemory(self.shelf, embedder, words, parts=parts)
        self.trial = Trial((shipped_system(),))
        self.methods = Methods(self.shelf, embedder, words, folder / "methods", self.trial, parts)
        self.files: dict[str, str] = {}
        self.types = Types(self.shelf, embedder, parts)
        self.type_of: dict[int, str] = {}  # by family, as it was taught first
        self.teacher = Teacher(found, words)
        self.rng = random.Random(seed + 2)
        self.counts = Counts()
        self._teach(found)
        self.items = self._several(items(found, seed))

    def _teach(self, found: Sequence[Mapping[str, Any]]) -> None:
        for each in found:
            lot = self.rng.random()
            if lot < self.stream.poison:
                self._learn(solved(each["question"], poisoned(each["program"], self.rng)), each["id"])
            if lot >= self.stream.poison / 2:  # half of the poison has the right one beside it
                self._learn(solved(each["question"], each["program"]), each["id"])

    def _several(self, stream: Sequence[Item]) -> list[Item]:
        """What is left to ask, after more than one task of each family was taught."""
        taught: dict[int, int] = {}
        left: list[Item] = []
        for item in stream:
            known = taught.get(item.family, 1)
            told = self.teacher.solves(item) if known < self.stream.taught else None
            if told:
                self._learn(told, item.family)
                taught[item.family] = known + 1
            else:
                left.append(item)
        return left

    def _learn(self, exemplar: Exemplar, family: int) -> str:
        tree = self.memory.learn(exemplar)
        self.type_of.setdefault(family, self.types.learn(exemplar.task))
        if self.stream.taught > 1 and self.methods.consider(tree):
            active = (each for each in self.methods.listed() if each.status == "active")
            self.files = {each.name: each.file.read_text("utf-8") for each in active}
        return tree.id

    def figures(self) -> dict[str, float]:
        times = [self._met(item, f"{n:06}") for n, item in enumerate(self.items)]
        return self.counts.figures(times, stored(self.shelf))

    def _met(self, item: Item, id: str) -> float:
        from runtime.memory.tasks.decisions import Decision, of_recall
        from runtime.memory.tasks.rewards import settle

        began = time.perf_counter()
        known = self.types.recognise(item.task)
        method, steps = method_of(self.trial, self.files, item.task)
        found = None if method else self.memory.recall(item.task)
        spent = (time.perf_counter() - began) * 1000
        decision = of_recall(id, item.task, found) if found else Decision(id=id, path="method", method=method)
        told = {
            "ms": {},
            "type": known.type,
            "recognition": known.kind,
        }  # times would take other bytes each time
        decision = decision.model_copy(update=told)
        self.types.used(known, item.task)
        answered = bool(method) or decision.replayed
        result = worked_out(steps or (found.steps if found else ())) if answered else None
        good = item.answer is not None and same(result, item.answer)
        self._count(item, answered, good, bool(method))
        self.counts.typed += item.answer is not None and bool(known.type == self.type_of[item.family] != "")
        if not answered and (taught := self.teacher.solves(item)):
            decision = decision.model_copy(update={"tree": self._learn(taught, item.family)})
            self.counts.taught += 1
        self.shelf.put(decision)
        lie = answered and self.rng.random() < self.stream.false
        source = "check" if self.stream.false else "criteria"
        heard = good is not lie if answered else True
        settle(self.shelf, id, heard, source, parts=self.parts, moved=self.types.moved)
        if method:
            self.methods.settle(method, good is not lie, source)
        return spent

    def _count(self, item: Item, answered: bool, good: bool, method: bool) -> None:
        counts = self.counts
        counts.by_method += method
        if item.answer is None:
            counts.traps += 1
            counts.replayed_traps += answered
        else:
            counts.variations += 1
            counts.answered += answered
            counts.right += good


@dataclass
class Teacher:
    """The next rung: it solves a variation as its family is solved, where that can be told to be right."""

    found: Sequence[Mapping[str, Any]]
    words: Words

    def __post_init__(self) -> None:
        self._by_number = {each["id"]: each for each in self.found}

    def solves(self, item: Item) -> Exemplar | None:
        """What a run of the higher rung would teach; None for a trap, or where its steps cannot be told."""
        from runtime.memory.tasks import Refusal
        from runtime.memory.tasks.alignment import align
        from runtime.memory.tasks.binding import bind
        from runtime.memory.tasks.reading import Reading

        if item.answer is None:
            return None
        family = self._by_number[item.family]
        told = solved(family["question"], family["program"])
        old, new = (Reading.read(text, self.words) for text in (told.task, item.task))
        aligned = align(old, new, self.words)
        steps = aligned if isinstance(aligned, Refusal) else bind(told.steps, aligned)
        if isinstance(steps, Refusal) or not same(worked_out(steps), item.answer):
            return None
        return told.model_copy(update={"task": item.task, "steps": tuple(steps)})


def method_of(trial: Trial, files: Mapping[str, str], task: str) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """The method that answers a task, and its steps; none where two would do different things."""
    plans = {name: trial.plan(text, task) for name, text in files.items()}
    found = {name: steps for name, steps in plans.items() if steps is not None}
    if len({repr(steps) for steps in found.values()}) != 1:
        return "", ()
    return next(iter(found.items()))


def stored(shelf: Shelf) -> int:
    """Bytes of all records and their vectors."""
    return sum(
        len(row.body.encode()) + sum(map(len, row.vectors.values()))
        for kind in shelf.kinds()
        for row in shelf.rows(kind)
    )
