"""A dream over solved tasks: what memory answers before and after it, and without each stage.

First a store is lived in: families of tasks are taught, a fifth of them with a wrong program, half of their
tasks are asked three times with feedback that is wrong in 15 %, and those without an answer are taught now
and then. The other half is asked before and after the dream. In the store `lived`, types, merging and methods
were at work whenever a task was learned. The store `imported` received the same tasks from elsewhere: nothing
was merged, typed or made a method.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench import recalling
from bench.families import Family, is_right, sample_families
from bench.harness import CachedEmbedder, Figures, cost, markdown
from bench.streams import (
    FALSE,
    POISONED,
    Counts,
    Item,
    active_methods,
    answer_by_method,
    first_lessons,
    teach,
)
from runtime.api.fractal import shipped_system
from runtime.memory.brain import Brain, Settings
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.stages import ALL
from runtime.memory.embed import choose
from runtime.memory.tasks.decisions import Decision, of_recall
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.rewards import settle
from runtime.memory.tasks.trees import NeuronTree
from runtime.reflexes.trial import Trial
from runtime.workspace.settings import Config

SEED = 1
LIVED = datetime(2026, 10, 1, tzinfo=UTC)
DREAMT = LIVED + timedelta(days=45)
"""Late enough for trees in quarantine to be rehabilitated."""
GROWTH = 12.0
"""How much longer a dream may take with ten times the trees. Source: dream.md."""
EAGER = 3
"""One family in so many is taught further tasks; five make a method."""
TAUGHT = 8
"""Tasks taught at most in such a family."""
DAYS = 3
"""How often the first half of the tasks is asked."""
TEACHES = 0.3
"""The share of unanswered tasks that a higher rung solves and teaches."""


def measure(
    path: Path | None, count: int, embedder: str = "auto", sizes: Sequence[int] = ()
) -> dict[str, Any]:
    """The figures of both stores, and CPU seconds by number of trees."""
    cached = CachedEmbedder(choose(embedder))
    families = sample_families(count, SEED, path)
    cached.warm([family.question for family in families])
    cached.warm([question.text for family in families for question in family.questions])
    stores = {kind: _measure(families, cached, imported=kind == "imported") for kind in ("lived", "imported")}
    seconds = {str(size): _seconds(size, path) for size in sizes}
    return {"embedder": cached.name, "families": len(families), **stores, "seconds": seconds}


def _measure(families: Sequence[Family], embedder: CachedEmbedder, *, imported: bool) -> dict[str, Any]:
    stages = [stage.name for stage in ALL if stage.group == "p" or stage.name == "decay"]
    with TemporaryDirectory() as place, Memory(Path(place) / "one", embedder) as memory:
        asked = memory.live(families, imported=imported)

        def dreamt(name: str, stages: Sequence[str]) -> dict[str, Any]:
            with memory.copy(Path(place) / name) as copy:
                with cost() as spent:
                    did = copy.dream(stages)
                return {**copy.ask(asked), "cpu_s": round(spent.cpu, 2), "did": did}

        return {
            "questions": len(asked),
            "before": memory.ask(asked),
            "after": dreamt("all", stages),
            "without": {name: dreamt(name, [each for each in stages if each != name]) for name in stages},
        }


def brain_in(folder: Path, **settings: Any) -> Brain:
    """A memory with the instructions that ship, the lexical embedder and without fsync."""
    systems = (shipped_system(),)
    trial = Trial(systems)
    config = Config.model_validate({"embedder": "lexical", "fsync": False, **settings})
    return Brain(Settings(folder, systems, lambda: trial, config))


class Memory:
    """A memory that learns, answers and dreams, in a folder of its own."""

    def __init__(self, place: Path, embedder: CachedEmbedder) -> None:
        self.place, self.embedder = place, embedder
        self.trial = Trial((shipped_system(),))
        self.brain = brain_in(place / "memory", store="memory")
        self.brain.__dict__["embedder"] = embedder
        self.asked = 0

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.brain.close()
        shutil.rmtree(self.place, ignore_errors=True)

    @contextmanager
    def copy(self, place: Path) -> Iterator[Memory]:
        """The same records and files in another folder."""
        with Memory(place, self.embedder) as other:
            shelf = other.brain.shelf
            with shelf.transaction():
                for kind in self.brain.shelf.kinds():
                    shelf.keeper.write(list(self.brain.shelf.rows(kind)))
            if self.brain.methods_folder.is_dir():
                shutil.copytree(self.brain.methods_folder, other.brain.methods_folder)
            yield other

    def dream(self, names: Sequence[str]) -> dict[str, dict[str, int | float]]:
        """Run these stages; returns the counts of those that changed something."""
        dreamer = Dreamer(self.brain, clock=lambda: DREAMT)
        dream = dreamer.dream("night", [stage for stage in ALL if stage.name in names])
        return {name: each.counts for name, each in dream.stages.items() if each.changed}

    # ---- learning ----------------------------------------------------------------------------------------

    def live(self, families: Sequence[Family], *, imported: bool) -> list[Item]:
        """Learn and answer the first half of the tasks, with feedback; returns the other half."""
        random = Random(SEED + 1)
        memory = self.brain.memory
        memory.parts = replace(memory.parts, merging=not imported)
        for _, exemplar in first_lessons(families, POISONED, random):
            self._learn(exemplar, imported)
        left: list[Item] = []
        for family in families:
            items = [(family, question) for question in family.questions]
            random.shuffle(items)
            half = len(items) // 2
            taught = 1
            for item in items[:half]:
                lesson = teach(*item, memory.words) if taught < TAUGHT and family.id % EAGER == 0 else None
                if lesson:
                    self._learn(lesson, imported)
                    taught += 1
            for item in items[:half] * DAYS:
                self._ask(item, random, imported)
            left += items[half:]
        memory.parts = replace(memory.parts, merging=True)
        return left

    def _learn(self, exemplar: Exemplar, imported: bool) -> str:
        tree = self.brain.memory.learn(exemplar, at=LIVED.isoformat())
        if not imported and not tree.type:
            type = self.brain.types.learn(tree.text, at=LIVED.isoformat())
            tree = tree.model_copy(update={"type": type})
            self.brain.shelf.put(tree)
            self.brain.methods.consider(tree, type)
        return tree.id

    def _ask(self, item: Item, random: Random, imported: bool) -> None:
        """One task as a run meets it: recalled or taught, with feedback."""
        _, question = item
        recall = self.brain.memory.recall(question.text)
        self.asked += 1
        at = (LIVED + timedelta(minutes=self.asked)).isoformat()
        decision = of_recall(f"{self.asked:06}", question.text, recall).model_copy(
            update={"ms": {}, "at": at}
        )
        right = is_right(recall.steps, question)
        asks = not decision.replayed and random.random() < TEACHES
        if asks and (lesson := teach(*item, self.brain.memory.words)):
            decision = decision.model_copy(update={"tree": self._learn(lesson, imported)})
        self.brain.shelf.put(decision)
        wrong_feedback = decision.replayed and random.random() < FALSE
        accepted = right is not wrong_feedback if decision.replayed else True
        settle(self.brain.shelf, decision.id, accepted, "check", moved=self.brain.types.moved)

    # ---- answering ---------------------------------------------------------------------------------------

    def ask(self, items: Sequence[Item]) -> dict[str, Any]:
        """What is answered, with nothing learned from it, and the size of the memory."""
        counts = Counts()
        methods = active_methods(self.brain.methods)
        for _, question in items:
            method, steps = answer_by_method(self.trial, methods, question.text)
            answered = bool(method)
            if not method:
                recall = self.brain.memory.recall(question.text)
                answered, steps = recall.kind != "novel", recall.steps
            counts.add(question, answered, is_right(steps, question), bool(method))
        trees = list(self.brain.shelf.scan(NeuronTree))
        return {
            **counts.figures(),
            "trees": len(trees),
            "neurons": sum(len(tree.neurons) for tree in trees),
            "synapses": sum(len(tree.synapses) for tree in trees),
            "decisions": self.brain.shelf.count(Decision),
            "methods": self.brain.shelf.count(Method),
        }


def _seconds(size: int, path: Path | None) -> float:
    """CPU seconds of the procedural stages over so many trees, in SQLite."""
    with TemporaryDirectory() as place:
        recalling.fill(Path(place), size, path)
        brain = brain_in(Path(place))
        _ = brain.memory  # indexes the trees, which is not part of a dream
        with cost() as spent:
            dreamer = Dreamer(brain, clock=lambda: DREAMT)
            dreamer.dream("night", [stage for stage in ALL if stage.group == "p"])
        brain.close()
        return round(spent.cpu, 2)


# ---- output ----------------------------------------------------------------------------------------------


def slow(seconds: Mapping[str, float]) -> list[str]:
    """Where ten times the trees take more than twelve times the seconds."""
    goals: list[str] = []
    for few, many in pairwise(sorted(map(int, seconds))):
        if seconds[str(many)] > GROWTH * many / few / 10 * max(seconds[str(few)], 0.01):
            goals.append(f"{many:,} trees took {seconds[str(many)]:.1f} s, {few:,} {seconds[str(few)]:.1f} s")
    return goals


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["store", "dream", "answered", "right of answered", "false replays", "wrong", "trees", "neurons"]
    heads += ["methods", "CPU s"]
    rows: list[list[str]] = []
    for kind in ("lived", "imported"):
        dreams = {"none": figures[kind]["before"], "all stages": figures[kind]["after"]}
        dreams |= {f"without {name}": each for name, each in figures[kind]["without"].items()}
        for name, each in dreams.items():
            shares = (f"{each[key]:.1%}" for key in ("answered", "right_of_answered", "false_replay"))
            sizes = (str(each[key]) for key in ("wrong", "trees", "neurons", "methods"))
            rows.append([kind, name, *shares, *sizes, f"{each['cpu_s']:.1f}" if "cpu_s" in each else ""])
    seconds = ", ".join(f"{int(size):,} trees {each:.1f} s" for size, each in figures["seconds"].items())
    return (
        f"{markdown(heads, rows, left=2)}\n\n"
        f"{figures['families']} families, {figures['embedder']}; {FALSE:.0%} of the feedback is wrong, "
        f"{POISONED:.0%} of the families are taught a wrong program. CPU time of the procedural stages: "
        f"{seconds or 'not measured'}."
    )
