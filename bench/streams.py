"""Streams of tasks that memory answers or a teacher solves, with right or wrong feedback on each answer.

Some tasks of each family are taught; the rest comes in random order, traps among them. What memory does not
answer, a teacher solves, as the next rung of the ladder would, and memory learns it. All parts are those of
a run: recall, decisions, `settle`, and methods in files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.families import Family, Question, exemplar_of, is_right
from bench.harness import cost, percentiles, share
from runtime.api.fractal import shipped_system
from runtime.memory.embed import Embedder
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks import Parts, Refusal
from runtime.memory.tasks.alignment import align
from runtime.memory.tasks.binding import bind
from runtime.memory.tasks.decisions import Decision, of_recall
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.methods import Methods
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.rewards import Verdict, settle
from runtime.memory.tasks.types import Types
from runtime.memory.tasks.words import Words, words_of
from runtime.reflexes.trial import Trial

FALSE = 0.15
"""The share of wrong feedback, where feedback is wrong."""
POISONED = 0.2
"""The share of families with a wrong first program, where exemplars are poisoned."""
SEVERAL = 5
"""Tasks taught per family, where several are: enough for a method."""
_OTHER_OPERATION = {"+": "*", "-": "+", "*": "+", "/": "*"}
Item = tuple[Family, Question]


@dataclass(frozen=True)
class Stream:
    """The shares of wrong feedback and of poisoned families, tasks taught per family, and families used."""

    false: float = 0.0
    poison: float = 0.0
    taught: int = 1
    part: float = 1.0


STREAMS: Mapping[str, Stream] = {
    "true": Stream(),
    "false": Stream(false=FALSE),
    "poisoned": Stream(false=FALSE, poison=POISONED),
    "several": Stream(taught=SEVERAL, part=1 / 3),
}


@dataclass
class Counts:
    """Outcomes of a stream."""

    answered: int = 0
    right: int = 0
    variations: int = 0
    replayed_traps: int = 0
    traps: int = 0
    by_method: int = 0

    def add(self, question: Question, answered: bool, right: bool, by_method: bool) -> None:
        """Count the outcome of one question."""
        self.by_method += by_method
        if question.answer is None:
            self.traps += 1
            self.replayed_traps += answered
        else:
            self.variations += 1
            self.answered += answered
            self.right += answered and right

    def figures(self) -> dict[str, float]:
        """Shares and counts."""
        return {
            "answered": share(self.answered, self.variations),
            "right_of_answered": share(self.right, self.answered),
            "false_replay": share(self.replayed_traps, self.traps),
            "wrong": self.answered - self.right + self.replayed_traps,
            "by_method": self.by_method,
        }


# ---- teaching --------------------------------------------------------------------------------------------


def first_lessons(
    families: Sequence[Family], poison: float, random: Random
) -> Iterator[tuple[Family, Exemplar]]:
    """The first lessons of each family: a share is wrong, half of these are followed by the right one."""
    for family in families:
        draw = random.random()
        if draw < poison:
            yield family, exemplar_of(family.question, poisoned(family.program, random))
        if draw >= poison / 2:
            yield family, exemplar_of(family.question, family.program)


def poisoned(program: Sequence[str], random: Random) -> list[str]:
    """The program with one other operation."""
    places = [
        (number, match.start())
        for number, expression in enumerate(program)
        for match in re.finditer(r"(?<=[\d}) ])[-+*/]", expression)
    ]
    changed = list(program)
    if places:
        number, at = random.choice(places)
        expression = changed[number]
        changed[number] = expression[:at] + _OTHER_OPERATION[expression[at]] + expression[at + 1 :]
    return changed


def teach(family: Family, question: Question, words: Words) -> Exemplar | None:
    """What a run of the next rung would teach: the family's program for a variation.

    None for a trap, or where the program does not give the answer.
    """
    if question.answer is None:
        return None
    exemplar = exemplar_of(family.question, family.program)
    old, new = (Reading.read(text, words) for text in (exemplar.task, question.text))
    aligned = align(old, new)
    steps = aligned if isinstance(aligned, Refusal) else bind(exemplar.steps, aligned)
    if isinstance(steps, Refusal) or not is_right(steps, question):
        return None
    return exemplar.model_copy(update={"task": question.text, "steps": tuple(steps)})


# ---- a stream --------------------------------------------------------------------------------------------


def play(
    families: Sequence[Family], parts: Parts, embedder: Embedder, stream: Stream, seed: int = 1
) -> dict[str, float]:
    """The figures of one stream."""
    with TemporaryDirectory() as folder:
        return _Play(families, parts, embedder, Path(folder), stream, seed).figures()


def items_of(families: Sequence[Family], seed: int) -> list[Item]:
    """All variations and traps, in random order."""
    items = [(family, question) for family in families for question in family.questions]
    Random(seed + 1).shuffle(items)
    return items


class _Play:
    """A memory that learns and answers one stream."""

    def __init__(
        self,
        families: Sequence[Family],
        parts: Parts,
        embedder: Embedder,
        folder: Path,
        stream: Stream,
        seed: int,
    ) -> None:
        words = words_of((shipped_system(),))
        self.stream, self.parts = stream, parts
        self.shelf = open_shelf("memory", folder)
        self.memory = ProceduralMemory(self.shelf, embedder, words, parts=parts)
        self.trial = Trial((shipped_system(),))
        self.methods = Methods(self.shelf, embedder, words, folder / "methods", self.trial, parts)
        self.active: Mapping[str, str] = {}
        self.types = Types(self.shelf, embedder, parts)
        self.type_of: dict[int, str] = {}  # the first type of each family
        self.random = Random(seed + 2)
        self.counts = Counts()
        self.taught = self.typed = 0
        for family, exemplar in first_lessons(families, stream.poison, self.random):
            self._learn(exemplar, family)
        self.items = self._teach_several(items_of(families, seed))

    def _teach_several(self, items: Sequence[Item]) -> list[Item]:
        """Teach further tasks of each family; returns the others."""
        taught: dict[int, int] = {}
        left: list[Item] = []
        for family, question in items:
            count = taught.get(family.id, 1)
            lesson = teach(family, question, self.memory.words) if count < self.stream.taught else None
            if lesson:
                self._learn(lesson, family)
                taught[family.id] = count + 1
            else:
                left.append((family, question))
        return left

    def _learn(self, exemplar: Exemplar, family: Family) -> str:
        tree = self.memory.learn(exemplar)
        self.type_of.setdefault(family.id, self.types.learn(exemplar.task))
        if self.stream.taught > 1 and self.methods.consider(tree):
            self.active = active_methods(self.methods)
        return tree.id

    def figures(self) -> dict[str, float]:
        """Play the stream."""
        times = [self._ask(family, question, f"{n:06}") for n, (family, question) in enumerate(self.items)]
        return {
            **self.counts.figures(),
            "taught": self.taught,
            "typed": share(self.typed, self.counts.variations),
            "p50_ms": percentiles(times, 3)["p50_ms"],
            "bytes": _stored_bytes(self.shelf),
        }

    def _ask(self, family: Family, question: Question, id: str) -> float:
        """One task as a run meets it, with feedback; returns the milliseconds of the answer."""
        with cost() as spent:
            recognition = self.types.recognise(question.text)
            method, steps = answer_by_method(self.trial, self.active, question.text)
            recall = None if method else self.memory.recall(question.text)
        task = question.text
        decision = of_recall(id, task, recall) if recall else Decision(id=id, path="method", method=method)
        # measured times would change the number of stored bytes
        update = {"ms": {}, "type": recognition.type, "recognition": recognition.kind}
        decision = decision.model_copy(update=update)
        self.types.used(recognition, task)
        answered = bool(method) or decision.replayed
        right = answered and is_right(steps or (recall.steps if recall else ()), question)
        self.counts.add(question, answered, right, bool(method))
        if question.answer is not None:
            self.typed += recognition.type == self.type_of[family.id] != ""
        if not answered and (lesson := teach(family, question, self.memory.words)):
            decision = decision.model_copy(update={"tree": self._learn(lesson, family)})
            self.taught += 1
        self.shelf.put(decision)
        wrong_feedback = answered and self.random.random() < self.stream.false
        source = "check" if self.stream.false else "criteria"
        accepted = right is not wrong_feedback
        moved = self.types.moved
        settle(self.shelf, id, accepted or not answered, source, parts=self.parts, moved=moved)
        if method:
            self.methods.settle(method, Verdict(accepted, 1.0, source))
        return spent.wall * 1000


def active_methods(methods: Methods) -> dict[str, str]:
    """The files of the active methods, by name."""
    return {each.name: each.file.read_text("utf-8") for each in methods.listed() if each.status == "active"}


def answer_by_method(
    trial: Trial, methods: Mapping[str, str], task: str
) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """The method that answers a task, and its steps; "" if there is none, or if two give different steps."""
    plans = {name: trial.plan(text, task) for name, text in methods.items()}
    answers = {name: steps for name, steps in plans.items() if steps is not None}
    if len({repr(steps) for steps in answers.values()}) != 1:
        return "", ()
    return next(iter(answers.items()))


def _stored_bytes(shelf: Shelf) -> int:
    """Bytes of all records and their vectors."""
    return sum(
        len(row.body.encode()) + sum(map(len, row.vectors.values()))
        for kind in shelf.kinds()
        for row in shelf.rows(kind)
    )
