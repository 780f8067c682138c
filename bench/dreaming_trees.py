"""A dream over solved tasks: what memory answers before and after it, and what each procedural stage brings.

A store is lived in first: families of tasks are taught, a fifth of them by a wrong program, half of their
variations and traps are asked, and of every answer some are told to be wrong that were right, and the other
way round. Then the other half is asked, of the store as it is, and of copies that have dreamt. Nothing is
learned while it is asked.

`lived` is a store as runs leave it: much of what a dream does was done when each task was learned. `imported`
is one into which the same was brought from elsewhere: nothing was merged, typed or made a method of.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.harness import data_file, markdown, share
from bench.streams import (
    FALSE,
    FILE,
    POISONED,
    Item,
    Once,
    Teacher,
    method_of,
    poisoned,
    same,
    solved,
    worked_out,
)

if TYPE_CHECKING:
    from runtime.memory.tasks.decisions import Decision
    from runtime.reflexes.trial import Trial

FAMILIES = 60
SEED = 1
LIVED = datetime(2026, 10, 1, tzinfo=UTC)
DREAMT = LIVED + timedelta(days=45)
"""Long enough after that what was put in quarantine has rested."""
SIZES = (1_000, 10_000)
TIMES = 12.0
"""Of the seconds at a tenth of the trees, what a dream may take at most. Source: dream.md."""
EAGER = 3
"""Of so many families one has all of its first half taught, up to so many tasks: of five a method is born."""
TAUGHT = 8
DAYS = 3
"""Times that the first half of the tasks is asked, and judged."""
TEACHES = 0.3
"""Share of the tasks without an answer for which a higher rung is asked, and teaches."""


def measure(
    path: Path | None = None, count: int = FAMILIES, embedder: str = "auto", sizes: Sequence[int] = SIZES
) -> dict[str, Any]:
    """The figures of both stores, and seconds by the number of trees."""
    from runtime.memory.embed import choose

    maker = Once(choose(embedder))
    found = _families(path, count)
    maker.warm([text for each in found for text in _texts(each)])
    stores = {kind: _measured(found, maker, imported=kind == "imported") for kind in ("lived", "imported")}
    timed = {str(size): _timed(size, path) for size in sizes}
    return {"embedder": maker.name, "families": len(found), **stores, "seconds": timed}


def _families(path: Path | None, count: int) -> list[dict[str, Any]]:
    lines = (path or data_file(FILE)).read_text("utf-8").splitlines()
    found: list[dict[str, Any]] = [
        {**json.loads(line), "id": number} for number, line in enumerate(lines) if line.strip()
    ]
    random.Random(SEED).shuffle(found)
    return found[:count]


def _texts(family: Mapping[str, Any]) -> list[str]:
    return [family["question"], *(each["question"] for each in (*family["variations"], *family["traps"]))]


def _measured(found: Sequence[Mapping[str, Any]], maker: Once, *, imported: bool) -> dict[str, Any]:
    from runtime.memory.dream.stages import ALL

    stages = [stage for stage in ALL if stage.group == "p" or stage.name == "decay"]
    with TemporaryDirectory() as place, Night(Path(place) / "one", maker) as night:
        asked = night.live(found, imported=imported)
        before = night.ask(asked)
        after = _dreamt(night, asked, [stage.name for stage in stages], Path(place) / "all")
        without = {
            stage.name: _dreamt(
                night, asked, [each.name for each in stages if each is not stage], Path(place) / stage.name
            )
            for stage in stages
        }
    return {"questions": len(asked), "before": before, "after": after, "without": without}


def _dreamt(night: Night, asked: Sequence[Item], names: Sequence[str], place: Path) -> dict[str, Any]:
    """What a copy answers after it has dreamt of these stages."""
    with night.copy(place) as copy:
        began = time.process_time()
        did = copy.dream(names)
        spent = time.process_time() - began
        return {**copy.ask(asked), "cpu_s": round(spent, 2), "did": did}


class Night:
    """A memory that is lived in, asked, copied and put to sleep."""

    def __init__(self, place: Path, maker: Once) -> None:
        from runtime.api.fractal import shipped_system
        from runtime.memory.brain import Brain, Settings

        self.place, self.maker, self._trial = place, maker, _trial()
        folder = place / "memory"
        systems = (shipped_system(),)
        self.brain = Brain(Settings(folder, systems, lambda: self._trial, "memory", "lexical", fsync=False))
        self.brain.__dict__["embedder"] = maker
        self.counted = 0

    def __enter__(self) -> Night:
        return self

    def __exit__(self, *_: object) -> None:
        self.brain.close()
        shutil.rmtree(self.place, ignore_errors=True)

    @contextmanager
    def copy(self, place: Path) -> Iterator[Night]:
        """The same rows and files in another place."""
        with Night(place, self.maker) as other:
            shelf = other.brain.shelf
            with shelf.transaction():
                for kind in self.brain.shelf.kinds():
                    shelf.keeper.write(list(self.brain.shelf.rows(kind)))
            if self.brain.methods_folder.is_dir():
                shutil.copytree(self.brain.methods_folder, other.brain.methods_folder)
            yield other

    def dream(self, names: Sequence[str]) -> dict[str, dict[str, int | float]]:
        """Do these stages; what each counted, where it did anything."""
        from runtime.memory.dream.dreamer import Dreamer
        from runtime.memory.dream.stages import ALL

        dreamer = Dreamer(self.brain, clock=lambda: DREAMT)
        done = dreamer.dream("night", [stage for stage in ALL if stage.name in names])
        return {name: each.counts for name, each in done.stages.items() if each.changed}

    # ---- a day -------------------------------------------------------------------------------------------

    def live(self, found: Sequence[Mapping[str, Any]], *, imported: bool) -> list[Item]:
        """Be taught, asked and told what came of it; returns what is left to be asked."""
        rng = random.Random(SEED + 1)
        teacher = Teacher(found, self.brain.memory.words)
        memory = self.brain.memory
        memory.parts = replace(memory.parts, merging=not imported)
        for each in found:
            lot = rng.random()
            if lot < POISONED:
                self._learn(solved(each["question"], poisoned(each["program"], rng)), imported)
            if lot >= POISONED / 2:
                self._learn(solved(each["question"], each["program"]), imported)
        left: list[Item] = []
        for each in found:
            items = [
                Item(each["id"], told["question"], told.get("answer"))
                for told in (*each["variations"], *each["traps"])
            ]
            rng.shuffle(items)
            day, rest = items[: len(items) // 2], items[len(items) // 2 :]
            taught = 1
            for item in day:
                lesson = teacher.solves(item) if taught < TAUGHT and each["id"] % EAGER == 0 else None
                if lesson:
                    self._learn(lesson, imported)
                    taught += 1
            for item in day * DAYS:
                self._met(item, teacher, rng, imported)
            left += rest
        memory.parts = replace(memory.parts, merging=True)
        return left

    def _learn(self, exemplar: Any, imported: bool) -> str:
        tree = self.brain.memory.learn(exemplar, at=LIVED.isoformat())
        if not imported and not tree.type:
            type = self.brain.types.learn(tree.text, at=LIVED.isoformat())
            tree = tree.model_copy(update={"type": type})
            self.brain.shelf.put(tree)
            self.brain.methods.consider(tree, type)
        return tree.id

    def _met(self, item: Item, teacher: Teacher, rng: random.Random, imported: bool) -> None:
        """One task as a run meets it: recalled or taught, and somebody says what came of it."""
        from runtime.memory.tasks.decisions import of_recall
        from runtime.memory.tasks.rewards import settle

        found = self.brain.memory.recall(item.task)
        self.counted += 1
        at = (LIVED + timedelta(minutes=self.counted)).isoformat()
        decision: Decision = of_recall(f"{self.counted:06}", item.task, found).model_copy(
            update={"ms": {}, "at": at}
        )
        good = item.answer is not None and same(worked_out(found.steps), item.answer)
        asks = not decision.replayed and rng.random() < TEACHES
        if asks and (lesson := teacher.solves(item)):
            decision = decision.model_copy(update={"tree": self._learn(lesson, imported)})
        self.brain.shelf.put(decision)
        lie = decision.replayed and rng.random() < FALSE
        heard = good is not lie if decision.replayed else True
        settle(self.brain.shelf, decision.id, heard, "check", moved=self.brain.types.moved)

    # ---- asking ------------------------------------------------------------------------------------------

    def ask(self, items: Sequence[Item]) -> dict[str, Any]:
        """What is answered, right and wrong, with nothing learned; and how much is kept."""
        from runtime.memory.tasks.decisions import Decision
        from runtime.memory.tasks.methods import Method

        answered = right = traps = fell = by_method = variations = 0
        active = (each for each in self.brain.methods.listed() if each.status == "active")
        files = {each.name: each.file.read_text("utf-8") for each in active}
        for item in items:
            method, steps = method_of(self._trial, files, item.task)
            found = None if method else self.brain.memory.recall(item.task)
            steps = steps if method else found.steps if found else ()
            done = bool(method) or bool(found and found.kind != "novel")
            by_method += bool(method)
            if item.answer is None:
                traps, fell = traps + 1, fell + done
            else:
                variations, answered = variations + 1, answered + done
                right += done and same(worked_out(steps), item.answer)
        trees, neurons, synapses = self._size()
        return {
            "answered": share(answered, variations),
            "right_of_answered": share(right, answered),
            "false_replay": share(fell, traps),
            "wrong": answered - right + fell,
            "by_method": by_method,
            "trees": trees,
            "neurons": neurons,
            "synapses": synapses,
            "decisions": self.brain.shelf.count(Decision),
            "methods": self.brain.shelf.count(Method),
        }

    def _size(self) -> tuple[int, int, int]:
        from runtime.memory.tasks.trees import NeuronTree

        trees = list(self.brain.shelf.scan(NeuronTree))
        return len(trees), sum(len(t.neurons) for t in trees), sum(len(t.synapses) for t in trees)


def _trial() -> Trial:
    from runtime.api.fractal import shipped_system
    from runtime.reflexes.trial import Trial

    return Trial((shipped_system(),))


# ---- how long it takes -----------------------------------------------------------------------------------


def _timed(size: int, path: Path | None) -> float:
    """Seconds of processor that the procedural stages take over so many trees, in SQLite."""
    from bench import recalling
    from runtime.api.fractal import shipped_system
    from runtime.memory.brain import Brain, Settings
    from runtime.memory.dream.dreamer import Dreamer
    from runtime.memory.dream.stages import ALL

    with TemporaryDirectory() as place:
        recalling.fill(Path(place), size, path)
        settings = Settings(Path(place), (shipped_system(),), _trial, "sqlite", "lexical", fsync=False)
        brain = Brain(settings)
        _ = brain.memory  # what is indexed anew for a store of another Fractal is no part of a dream
        began = time.process_time()
        Dreamer(brain, clock=lambda: DREAMT).dream("night", [each for each in ALL if each.group == "p"])
        spent = time.process_time() - began
        brain.close()
        return round(spent, 2)


# ---- printing --------------------------------------------------------------------------------------------


def slow(seconds: Mapping[str, float]) -> list[str]:
    """Where ten times the trees took more than twelve times the seconds."""
    found: list[str] = []
    sizes = sorted(map(int, seconds))
    for few, many in pairwise(sizes):
        if seconds[str(many)] > TIMES * many / few / 10 * max(seconds[str(few)], 0.01):
            found.append(f"{many:,} trees took {seconds[str(many)]:.1f} s, {few:,} {seconds[str(few)]:.1f} s")
    return found


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["store", "dream", "answered", "right of answered", "false replays", "wrong", "trees", "neurons"]
    heads += ["methods", "CPU s"]
    lines: list[list[str]] = []
    for kind in ("lived", "imported"):
        told = figures[kind]
        rows = {"none": told["before"], "all stages": told["after"]}
        rows |= {f"without {name}": each for name, each in told["without"].items()}
        for name, each in rows.items():
            shares = (each[key] for key in ("answered", "right_of_answered", "false_replay"))
            sizes = (each[key] for key in ("wrong", "trees", "neurons", "methods"))
            spent = f"{each['cpu_s']:.1f}" if "cpu_s" in each else ""
            lines.append([kind, name, *(f"{part:.1%}" for part in shares), *map(str, sizes), spent])
    text = markdown(heads, lines, left=2)
    timed = ", ".join(f"{int(size):,} trees {each:.1f} s" for size, each in figures["seconds"].items())
    return (
        f"{text}\n\n{figures['families']} families, {figures['embedder']}; {FALSE:.0%} of what is said of an "
        f"answer is wrong, {POISONED:.0%} of the families were taught a wrong program. Processor time of the "
        f"procedural stages: {timed or 'not measured'}."
    )
