"""A memory in which every procedural stage of a dream has something to do; a process that dreams and dies."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import numpy as np

from runtime.api.fractal import shipped_system
from runtime.memory.brain import Brain, Settings
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.stages import ALL, Dream, Stage, StageResult
from runtime.memory.facts.mind import Mind
from runtime.memory.store import pack
from runtime.memory.store.moving import lines
from runtime.memory.tasks import ALL as PARTS
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.ledger import Ledger
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Member, ProblemType
from runtime.reflexes.trial import Trial
from runtime.workspace.settings import Config

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
OLD, RECENT = "2026-06-01T00:00:00Z", "2026-11-19T00:00:00Z"
HONEY = (
    "A farmer who keeps bees sells{} 3 jars of honey at the market for 23 dollars each, and pays nobody; how "
    "much money does the farmer make with all of these jars?"
)
PAIRS = [("a.md", "n.txt"), ("b.md", "m.txt"), ("docs/c.md", "m.txt"), ("d.md", "o.txt"), ("e.md", "p.txt")]
OF_DREAMS = ("dream", "before-image", "decayed", "type-stamp")
OF_MEMORY = [stage for stage in ALL if stage.group == "p" or stage.name == "decay"]
PROCEDURAL = [stage.name for stage in ALL if stage.group == "p"] + ["decay"]


@cache
def trial() -> Trial:
    return Trial([shipped_system()])


def brain_in(folder: Path, kind: str = "sqlite", **more: Any) -> Brain:
    config: Any = {"store": kind, "embedder": "lexical", "fsync": False}
    settings = Settings(folder / "memory", (shipped_system(),), trial, Config(**config))
    return Brain(replace(settings, **more))


def exemplar(task: str, *steps: tuple[str, dict[str, Any]]) -> Exemplar:
    made = tuple({"tool": tool, "args": args, "needs": []} for tool, args in steps)
    return Exemplar(task=task, steps=made, output=f"{{{{ steps[{len(steps)}].result }}}}")


def sold(spaces: str = "") -> Exemplar:
    return exemplar(HONEY.format(spaces), ("calc", {"expression": "3 * 23"}))


def tally(source: str, to: str) -> Exemplar:
    count = ("count", {"what": "lines", "path": source, "format": "total"})
    write = ("write", {"path": to, "content": "{{steps[1].result}}\n"})
    return exemplar(f"tally the lines of {source} and note the figure in {to}", count, write)


def filled(folder: Path, kind: str = "sqlite") -> Brain:
    """A store with work for each stage. Each kind that is kept on disk is made once and copied."""
    if kind == "memory":
        return _filled(folder, kind)
    shutil.copytree(_made(kind) / "memory", folder / "memory")
    return brain_in(folder, kind)


@cache
def _made(kind: str) -> Path:
    folder = Path(mkdtemp(prefix="fractal-nights-"))
    atexit.register(shutil.rmtree, folder, True)
    _filled(folder, kind).close()
    return folder


def _filled(folder: Path, kind: str) -> Brain:
    """Make the store with a brain that merges no trees, types no tasks and learns no methods by itself."""
    brain = brain_in(folder, kind, parts=replace(PARTS, merging=False, methods=False, types=False))
    memory, shelf = brain.memory, brain.shelf
    for spaces in ("", "  ", "   "):
        memory.learn(sold(spaces), at=RECENT)
    for source, to in PAIRS:
        memory.learn(tally(source, to), at=RECENT)
    asked = exemplar("convert 12 pounds of flour into grams", ("calc", {"expression": "12 lb to g"}))
    _change(brain, memory.learn(asked, at=OLD), ledger=Ledger(uses=3, incorrect=3))
    sums = exemplar("add the ages 4 and 9 of the twins", ("calc", {"expression": "4 + 9"}))
    rested = _change(brain, memory.learn(sums, at=OLD), ledger=Ledger(uses=4, correct=1, incorrect=3))
    shelf.put(Decision(id="old", text="…", tree=rested.id, at=OLD, path="variation"))
    busy = exemplar("what do 7 pens for 2 euros each and one ruler cost", ("calc", {"expression": "7 * 2"}))
    judged = memory.learn(busy, at=OLD)
    shelf.put(
        *(
            Decision(
                id=f"use-{n:03}", text=f"{n}", tree=judged.id, at=f"2026-11-01T00:{n // 60:02}:{n % 60:02}Z"
            )
            for n in range(130)
        )
    )
    _judge(brain, judged)
    _mix(brain)
    _talk(brain)
    if kind == "memory":
        whole = brain_in(folder, kind)
        whole._shelf = brain.shelf
        return whole
    brain.close()
    return brain_in(folder, kind)


def _change(brain: Brain, tree: NeuronTree, **changes: Any) -> NeuronTree:
    made = tree.model_copy(update=changes)
    brain.shelf.put(made)
    return made


def _judge(brain: Brain, tree: NeuronTree) -> None:
    """One branch misled and has a branch below it, one has almost no weight, one was right."""
    parents = {each.parent for each in tree.synapses}
    below = next(each.child for each in tree.synapses if each.child in parents)
    leaf = next(each.child for each in tree.synapses if each.child not in parents and each.parent != below)
    synapses = [
        each.model_copy(update={"right": 0, "wrong": 3})
        if each.child == below
        else each.model_copy(update={"weight": 0.02, "origin": 0.02})
        if each.child == leaf
        else each.model_copy(update={"right": 2})
        for each in tree.synapses
    ]
    _change(brain, tree, synapses=tuple(synapses))


SAID = [
    ("Mia", "I adopted a grey cat called Pixel from the shelter on Elm Street."),
    ("Jon", "My sister Ruth moved to Lisbon and teaches chemistry there."),
    ("Mia", "Pixel, my grey cat from the shelter, sleeps on the radiator."),
    ("Jon", "Ruth teaches chemistry at a school in Lisbon since she moved."),
    ("Mia", "The vet says that Pixel weighs 4 kg and is two years old."),
    ("Jon", "I bought a red bicycle for 300 dollars at the market."),
    ("Mia", "The marathon in Berlin was on 24 September and I finished it in 4 hours."),
    ("Jon", "My red bicycle from the market has a flat tyre."),
]


def _talk(brain: Brain) -> None:
    mind = Mind(brain.shelf, brain.embedder, systems=(shipped_system(),))
    for n, (who, text) in enumerate(SAID):
        at = f"2026-10-{n + 1:02}T10:00:00.000Z"
        mind.observe(text, who=who, at=at, said="turn", source="file:talk", thread="talk", turn=n)
    for fact in ("Mia lives in Oslo.", "Jon works as a nurse in Oslo."):
        mind.remember(fact, at="2026-10-01T09:00:00.000Z")
    mind.take_in()


def _mix(brain: Brain) -> None:
    """Add a problem type that mixes two unrelated kinds of tasks."""
    embedder = brain.embedder
    rng = np.random.default_rng(1)
    tasks = [f"water the {each} plants" for each in range(15)] + [f"file report {each}" for each in range(12)]
    rows = rng.normal(0, 0.04, (len(tasks), embedder.size))
    rows[:15, 0] += 1
    rows[15:, 1] += 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    name = embedder.name
    members = [
        Member(id=f"mixed/{n}", type="mixed", text=task, vectors={name: pack(row)})
        for n, (task, row) in enumerate(zip(tasks, rows, strict=True))
    ]
    of = ProblemType(id="mixed", text="mixed", members=len(tasks), vectors={name: pack(rows.mean(axis=0))})
    brain.shelf.put(of, *members)
    for side in ("posts", "mails"):  # two types that are one
        alike = rng.normal(0, 0.01, (4, embedder.size))
        alike[:, 2] += 1
        middle = {name: pack(alike.mean(axis=0))}
        brain.shelf.put(ProblemType(id=side, text=side, members=4, vectors=middle, uses=2))
        brain.shelf.put(
            *(
                Member(id=f"{side}/{side}-{n}", type=side, text=f"{side} {n}", vectors={name: pack(row)})
                for n, row in enumerate(alike)
            )
        )
    for task, row in zip(tasks, rows, strict=True):
        made = brain.memory.learn(
            exemplar(f"{task}, then tell me how it went and what it was good for", ("list", {}))
        )
        grown = {"type": "mixed", "text": task, "vectors": {name: pack(row)}}
        _change(brain, made, neurons=made.neurons * 3, **grown)


def exported(brain: Brain, *, dreams: bool = True) -> str:
    """All records and the files of methods; without `dreams`, no records that dreams made."""
    records = "".join(
        line for line in lines(brain.shelf) if dreams or json.loads(line)["kind"] not in OF_DREAMS
    )
    files = sorted((brain.settings.folder / "methods").glob("*.md"))
    return records + "".join(f"{path.name}\n{path.read_text('utf-8')}" for path in files)


def dreamer(brain: Brain, stages: Sequence[Stage] = ALL) -> Dreamer:
    return Dreamer(brain, clock=lambda: NOW, stages=stages)


# ---- a process that dies ---------------------------------------------------------------------------------


class Dying:
    """A keeper that kills the process at call `number` of its method `at`."""

    def __init__(self, inner: Any, at: str, number: int = 1) -> None:
        self.inner, self.at, self.left = inner, at, number
        self.place = inner.place

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.inner, name)
        if name != self.at:
            return real

        def call(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        return call


def dying(stage: Stage, when: str) -> Stage:
    """A stage that kills the process in its first write, or after all its work but before the commit."""

    def run(dream: Dream) -> StageResult:
        shelf = dream.shelf
        if when == "first write":
            keeper = cast(Any, shelf.keeper)
            keeper.inner = Dying(keeper.inner, "write")
            result = stage.run(dream)
            keeper.inner = keeper.inner.inner
            keeper.inner.write([])
        else:
            result = stage.run(dream)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    return replace(stage, run=run)


def killed(folder: Path, kind: str, what: str, name: str = "", when: str = "") -> bool:
    """Dream or undo in a child process that dies at the given point; return whether it did."""
    child = os.fork()
    if not child:
        try:
            _main(folder, kind, what, name, when)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _main(folder: Path, kind: str, what: str, name: str, when: str) -> None:
    brain = brain_in(folder, kind)
    if what == "undo":
        brain.shelf.keeper = cast(Any, Dying(brain.shelf.keeper, name, 2))  # the first notes the undo
        dreamer(brain).undo()
        return
    stages = [dying(each, when) if each.name == name else each for each in ALL]
    dreamer(brain, stages).dream("one", stages)
