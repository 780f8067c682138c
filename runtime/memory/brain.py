"""What a workspace remembers of how its tasks were done: opened when needed, taught by runs, asked by a rung.

A run only notes what it taught: its neurons and vectors are made before the next recall, so that a run costs
no more for it than a line in the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernel.document import Document
from runtime.embedding.choosing import Deferred, told
from runtime.memory import DIRECT, methods_of
from runtime.memory.lessons import Attempt, attempts, decision_of, lesson_of
from runtime.memory.procedural.asked import Ways
from runtime.memory.procedural.decisions import Decision, of_recall
from runtime.memory.procedural.exemplar import LONGEST_TASK
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.recognition import Recognition
from runtime.memory.procedural.rewards import RELIABILITY, settle
from runtime.memory.procedural.stages import compared, seed, verification
from runtime.memory.procedural.trees import NeuronTree
from runtime.memory.procedural.types import Types
from runtime.memory.procedural.words import fingerprint, words_of
from runtime.places import brain_place
from runtime.store import Record, Shelf, open_shelf, pack

if TYPE_CHECKING:
    from runtime.embedding import Embedder
    from runtime.memory.episodes import Episodes
    from runtime.memory.learning.kinds import Kinds
    from runtime.memory.procedural.methods import Files, Methods
    from runtime.memory.procedural.recall import ProceduralMemory, Recall

EXAMPLES = 3
"""Solved tasks that a model is shown, successes only. Source: learning.md."""
LIKE = 0.5
"""The cosine from which a solved task is shown to a model."""
EXAMPLE_CHARS = 400
"""Of each."""
BATCH = 64
"""Tasks that are embedded together when another embedder has come."""


class Untaken(Record):
    """A tree that has no neurons yet, by its id."""

    KIND: ClassVar[str] = "untaken"


class Indexed(Record):
    """Which embedder and which words made the vectors of all trees; one record, `trees`."""

    KIND: ClassVar[str] = "indexed"

    made_by: str = ""


@dataclass(frozen=True)
class Settings:
    """How a workspace's memory is kept and used."""

    folder: Path  # state/memory
    systems: tuple[Path, ...]
    files: Callable[[], Files]  # what writes and reads methods, made when it is first asked
    store: str = "sqlite"
    embedder: str = "auto"
    embedder_folder: str | None = None
    remember: bool = True
    recall: bool = True
    fsync: bool = True
    parts: Parts = ALL
    observe: tuple[str, ...] = ("facts", "results", "failures")


class Brain:
    """The memory of one workspace. Cheap to make: nothing is opened before it is needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.decided: dict[str, Decision] = {}  # in this process, by loop and attempt
        self._shelf: Shelf | None = None
        self._memory: ProceduralMemory | None = None
        self._recalled: dict[str, Recall] = {}
        self._recognised: dict[str, Recognition] = {}  # of tasks that a model was asked

    @property
    def shelf(self) -> Shelf:
        """The shelf, made when it is not there. Raises `FractalError` when it cannot be opened."""
        if self._shelf is None:
            self.settings.folder.mkdir(parents=True, exist_ok=True)
            self._shelf = open_shelf(self.settings.store, self.settings.folder, fsync=self.settings.fsync)
        return self._shelf

    @property
    def there(self) -> bool:
        """Whether there is a store; told without opening one."""
        return self._shelf is not None or brain_place(self.settings.store, self.settings.folder).exists()

    @property
    def empty(self) -> bool:
        """Whether no solved task is kept here."""
        return not (self.there and self.shelf.count(NeuronTree))

    def close(self) -> None:
        """Let go of the store's files."""
        if self._shelf is not None:
            self._shelf.close()
        self._shelf = self._memory = None
        self._recalled.clear()

    def refresh(self) -> None:
        """Something else has changed the store: what was recalled from it is recalled anew."""
        self._recalled.clear()
        self._recognised.clear()

    def elsewhere(self, folder: Path) -> Brain:
        """The same memory with its files in another folder, to try out what would become of it."""
        there = self.there
        store = self.settings.store if there else "memory"  # to look makes no store
        other = Brain(replace(self.settings, folder=folder, store=store))
        other._shelf = self.shelf if there else None
        other.__dict__["embedder"] = self.embedder
        return other

    # ---- asking ------------------------------------------------------------------------------------------

    def recall(self, task: str) -> Recall | None:
        """What is remembered for a task; None where nothing is, or where it is not to be used."""
        if not self.settings.recall or len(task) > LONGEST_TASK:
            return None
        if task not in self._recalled:
            if self.empty:
                return None
            self._recalled[task] = self.memory.recall(task)
        return self._recalled[task]

    def recognise(self, task: str) -> None:
        """Take a task that a model is about to be asked for one of a type: its decision will say so."""
        if not self.settings.recall or len(task) > LONGEST_TASK or not self.there:
            return
        if not (self.empty and self.ways.empty):
            memory = self.memory  # with what the last runs taught
            self._recognised[task] = self.types.recognise(task, memory.embedder.embed([task])[0])

    def way(self, task: str, possible: Sequence[str]) -> str:
        """The way to ask a model in, of those that are possible, for a task that was recognised."""
        known = self._recognised.get(task)
        return self.ways.choose(known.type if known else "", possible)

    def similar(self, task: str, most: int = EXAMPLES) -> list[tuple[NeuronTree, float]]:
        """The solved tasks most like this one, and how like it they are; those in quarantine are left out."""
        if not self.settings.recall or len(task) > LONGEST_TASK or self.empty:
            return []
        memory = self.memory
        (vector,) = memory.embedder.embed([task])
        hits = self.shelf.nearest(NeuronTree, memory.embedder.name, vector, most)
        scores = {hit.id: hit.score for hit in hits if hit.score >= LIKE}
        near = self.shelf.pick(NeuronTree, scores)
        return [(tree, scores[tree.id]) for tree in near if not tree.ledger.quarantined]

    def guided(self, task: str) -> str:
        """How the method that suits a task goes about it, for a model to go by; "" where there is none."""
        if not self.settings.recall or len(task) > LONGEST_TASK or self.empty:
            return ""
        return next(iter(self.methods.guidance(task)), "")

    def decide(self, attempt: str, found: Recall) -> None:
        """Remember what was decided for an attempt until its outcome is known."""
        self.decided[attempt] = of_recall(attempt, "", found)

    @property
    def memory(self) -> ProceduralMemory:
        """The trees, with what the last runs taught taken in."""
        if self._memory is None:
            from runtime.memory.procedural.recall import ProceduralMemory

            words = words_of(self.settings.systems)
            self._memory = ProceduralMemory(self.shelf, self.embedder, words, self.settings.parts)
        self._take_in(self._memory)
        return self._memory

    def _take_in(self, memory: ProceduralMemory) -> None:
        """Give neurons and vectors to trees that have none of the embedder and the words of now."""
        known = self.shelf.get(Indexed, "trees")
        if known is None or known.made_by != self._made_by:
            self._index_anew(memory)
        waiting = [each.id for each in self.shelf.scan(Untaken)]
        for tree in self.shelf.pick(NeuronTree, waiting):
            with self.shelf.transaction():
                tree = memory.take_in(tree)
                type = self.types.learn(tree.text, tree.vector(self.embedder.name), tree.created)
                if type:
                    self.shelf.put(tree.model_copy(update={"type": type}))
                self.shelf.delete(Untaken, tree.id)
            self.methods.consider(tree, type)
        self.ways.take_in(self.types)
        if waiting:
            self._recalled.clear()

    @cached_property
    def _made_by(self) -> str:
        """The embedder and the words of now, which make the vectors of trees."""
        kind, _ = told(self.settings.embedder, self.settings.embedder_folder)
        return f"{kind} {fingerprint(self.settings.systems)}"

    def _index_anew(self, memory: ProceduralMemory) -> None:
        name = memory.embedder.name
        ids = [tree.id for tree in self.shelf.scan(NeuronTree)]
        for start in range(0, len(ids), BATCH):
            with self.shelf.transaction():
                trees = self.shelf.pick(NeuronTree, ids[start : start + BATCH])
                missing = [tree.text for tree in trees if name not in tree.vectors]
                made = iter(memory.embedder.embed(missing) if missing else ())
                for tree in trees:
                    more = {} if name in tree.vectors else {name: pack(next(made))}
                    whole = tree.model_copy(update={"vectors": {**tree.vectors, **more}})
                    self.shelf.put(whole, memory.outline(whole))
        self.shelf.put(Indexed(id="trees", made_by=self._made_by))

    # ---- its parts -----------------------------------------------------------------------------------------

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the settings, loaded when it is first asked."""
        return Deferred(self.settings.embedder, self.settings.embedder_folder)

    @cached_property
    def types(self) -> Types:
        """The problem types."""
        return Types(self.shelf, self.embedder, self.settings.parts)

    @property
    def ways(self) -> Ways:
        """What came of the ways in which models were asked."""
        return Ways(self.shelf)

    @cached_property
    def kinds(self) -> Kinds:
        """The types of tasks: of experiences, of what is learned, and of what is shown for a task."""
        from runtime.memory.learning.kinds import Kinds

        return Kinds(self.settings.systems, self.embedder)

    @cached_property
    def episodes(self) -> Episodes:
        """What happened: the experiences of runs."""
        from runtime.memory.episodes import Episodes

        return Episodes(self, self.settings.observe)

    @property
    def methods_folder(self) -> Path:
        """Where the files of methods lie; a folder of reflexes."""
        return self.settings.folder / "methods"

    @cached_property
    def methods(self) -> Methods:
        """The methods."""
        from runtime.memory.procedural.methods import Methods

        words, files = words_of(self.settings.systems), self.settings.files()
        return Methods(self.shelf, self.embedder, words, self.methods_folder, files, self.settings.parts)

    # ---- trust -------------------------------------------------------------------------------------------

    def trusted(self, found: Recall) -> bool:
        """Whether nobody has to look at a replay, by how often the solved task went well.

        Where two ways must agree, the other one is another solved task that fits and comes to the same.
        """
        if found.tree is None:
            return False
        tree = found.tree
        asked = verification(tree.stands.stage, seed(tree.id, tree.ledger.uses + 1))
        return asked == "none" or (asked == "two paths" and found.agreed)

    def doubt(self, name: str, task: str, steps: Sequence[Mapping[str, Any]]) -> str:
        """Why somebody has to look at what a method did; "" where it is trusted."""
        asked = self.methods.verification(name)
        if asked == "next rung":
            return "what it does is looked at, as it is new, or drawn for a sample"
        if asked == "two paths":
            found = self.recall(task)
            known = found.steps if found and found.kind != "novel" else None
            agree = compared(steps, known)
            if agree != "agree":
                return "recall would do it in another way" if known else "recall knows nothing of this task"
        return ""

    # ---- learning ----------------------------------------------------------------------------------------

    def end(self, documents: Iterable[Document], at: str) -> None:
        """After a run, or a part of it: note what its loops taught, and what came of what was recalled.

        The same documents again change nothing. Raises `FractalError` when the store cannot be written.
        """
        if not self.settings.remember:
            return
        decisions: list[tuple[Decision, bool, str]] = []
        trees: dict[str, NeuronTree] = {}
        for document in documents:
            for attempt in attempts(document) if document.meta.type == "task" else ():
                if attempt.good is None:
                    continue  # it goes on, or was stopped: nobody can tell yet
                known = self.decided.get(attempt.id) or self._left(attempt.id, document.text(1, "task"))
                found = decision_of(document, attempt, known, at)
                taught = lesson_of(document, attempt, at, self.settings.systems)
                if isinstance(taught, NeuronTree):
                    trees[taught.id] = taught
                    found = found.model_copy(update={"tree": taught.id})
                elif taught:
                    found = found.model_copy(update={"why": found.why or taught.why})
                decisions.append((self._with_method(found, attempt), attempt.good, attempt.judge))
        if decisions and self._noted(decisions, trees, at):
            self._recalled.clear()

    def _noted(
        self, decisions: Sequence[tuple[Decision, bool, str]], trees: Mapping[str, NeuronTree], at: str
    ) -> bool:
        """Keep all of a run's decisions with what came of them, or none; returns whether trees came."""
        with self.shelf.transaction():
            there = {each.id for each in self.shelf.pick(Decision, [each.id for each, _, _ in decisions])}
            taken = {each.id for each in self.shelf.pick(NeuronTree, trees)}
            new = [tree for id, tree in trees.items() if id not in taken]
            self.shelf.put(*(self._typed(each, at) for each, _, _ in decisions if each.id not in there))
            self.shelf.put(*new, *(Untaken(id=tree.id) for tree in new))
            for decision, good, judge in decisions:
                self._settle(decision.id, good, judge)
        return bool(new)

    def _left(self, attempt: str, task: str) -> Decision | None:
        """The decision on a task that memory had nothing for, and left to the next rung."""
        found = self._recalled.get(task)
        return of_recall(attempt, task, found) if found and found.kind == "novel" else None

    def feedback(self, run: str, good: bool) -> int:
        """A person's word on a run moves the ledgers of what it used or taught; returns how many."""
        if not self.there:
            return 0
        decisions = [each for each in self.shelf.scan(Decision, {"run": run}) if _used(each)]
        for each in decisions:
            self._settle(each.id, good, "person")
        return len(decisions)

    def _settle(self, decision: str, good: bool, judge: str) -> None:
        """What came of a decision moves the ledgers of what it used, and the type that it surprised."""
        before = self.shelf.get(Decision, decision)
        after = settle(self.shelf, decision, good, judge, parts=self.settings.parts, moved=self.types.moved)
        if after is not None:
            self.ways.settle(after)
        if before is None or after is None or after.outcome is None or not after.method:
            return
        for name in after.method.split("+"):
            self.methods.settle(
                name,
                after.outcome,
                after.source,
                RELIABILITY.get(after.source, 1.0),
                instead_of=before.outcome,
            )

    def _typed(self, decision: Decision, at: str) -> Decision:
        """With the problem type: of what was replayed, or as it was recognised before a model was asked."""
        if decision.path in ("exact", "variation"):
            tree = self.shelf.get(NeuronTree, decision.tree)
            told = {"type": tree.type, "recognition": "recognized"} if tree and tree.type else {}
            return decision.model_copy(update=told)
        known = self._recognised.pop(decision.text, None)
        if known is None:
            return decision
        self.types.used(known, decision.text, at=at)
        return decision.model_copy(update={"type": known.type, "recognition": known.kind})

    def _with_method(self, decision: Decision, attempt: Attempt) -> Decision:
        """With the learned methods among the reflexes that an attempt was planned by, and what they save."""
        names = methods_of(attempt.by, self.methods_folder) if attempt.planner == DIRECT else []
        if not names:
            return decision
        calls, sure = zip(*(self.methods.expected(name) for name in names), strict=True)
        told = {"path": "method", "calls_before": sum(calls), "predicted": min(sure)}
        return decision.model_copy(update={"method": "+".join(names), **told})


def _used(decision: Decision) -> bool:
    """Whether a person's word on the run is one on this decision: not on an attempt that failed before."""
    return bool(decision.tree or decision.method or (decision.way and decision.outcome))


def example(tree: NeuronTree) -> str:
    """A solved task and its steps, in short."""
    calls = (f"{step['tool']} {json.dumps(step['args'], ensure_ascii=False)}" for step in tree.exemplar.steps)
    told = f"“{' '.join(tree.exemplar.task.split())}” was solved by: {'; '.join(calls)}"
    return told if len(told) <= EXAMPLE_CHARS else f"{told[: EXAMPLE_CHARS - 1]}…"
