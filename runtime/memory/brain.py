"""The memory of one workspace: opened when needed, taught by runs, asked by a rung.

A run only records its solved task; neurons and vectors are made before the next recall.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernel.document.model import Document
from runtime.memory import DIRECT, methods_of
from runtime.memory.embed.choosing import resolve_embedder
from runtime.memory.episodes.attempts import Attempt, attempts, decision_of, lesson_of
from runtime.memory.store import Record
from runtime.memory.stored import Settings as Settings
from runtime.memory.stored import Stored
from runtime.memory.tasks import snapshots
from runtime.memory.tasks.asked import Ways
from runtime.memory.tasks.decisions import PERSON, Decision, of_recall
from runtime.memory.tasks.exemplar import LONGEST_TASK
from runtime.memory.tasks.ledger import plain, verification
from runtime.memory.tasks.makers import is_ours, marked
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.rewards import OWN, settle, verdict
from runtime.memory.tasks.signing import Makers, unknown
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Recognition, Types
from runtime.memory.tasks.words import fingerprint, words_of

if TYPE_CHECKING:
    from runtime.memory.episodes.episodes import Episodes
    from runtime.memory.facts.records import Observation
    from runtime.memory.learning.kinds import Kinds
    from runtime.memory.tasks.methods import Methods
    from runtime.memory.tasks.recall import ProceduralMemory, Recall
    from runtime.memory.tasks.refusals import Refusals


LONGEST_TOLD = 300
"""Characters of a task whose answer a person may have told."""


class TreeWithoutNeurons(Record):
    """Marks a tree that has no neurons yet, by its id."""

    KIND: ClassVar[str] = "untaken"


class TreeIndex(Record):
    """Which embedder and which words made the vectors of all trees; one record, `trees`."""

    KIND: ClassVar[str] = "indexed"

    made_by: str = ""


class Brain(Stored):
    """The memory of one workspace. Cheap to create: nothing is opened before it is needed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.decided: dict[str, Decision] = {}  # in this process, by loop and attempt
        self.makers: Makers = unknown
        """The makers on the present ladder."""
        self.happened: list[tuple[str, dict[str, Any]]] = []  # for the events of a run
        self._memory: ProceduralMemory | None = None
        self._recalled: dict[str, Recall] = {}
        self._recognised: dict[str, Recognition] = {}  # of tasks that a model was asked

    @property
    def empty(self) -> bool:
        """Whether no solved task is stored."""
        return not (self.there and self.shelf.has(NeuronTree))

    def close(self) -> None:
        """Close the store."""
        super().close()
        self._memory = None
        self._recalled.clear()

    def refresh(self) -> None:
        """Drop cached recalls after something else changed the store."""
        self._recalled.clear()
        self._recognised.clear()

    def elsewhere(self, folder: Path) -> Brain:
        """The same memory with its files in another folder, for trials."""
        exists = self.there
        changes = {} if exists else {"store": "memory"}  # a preview creates no store
        other = Brain(replace(self.settings, folder=folder, config=self.config.model_copy(update=changes)))
        other._shelf = self.shelf if exists else None
        other.__dict__["embedder"] = self.embedder
        other.makers = self.makers
        return other

    def recall(self, task: str) -> Recall | None:
        """What is remembered for a task; None if nothing is, or if recall is off."""
        if task not in self._recalled and self._recalls(task):
            self._recalled[task] = self.memory.recall(task)
        return self._recalled.get(task)

    def told(self, task: str) -> Observation | None:
        """What a person answered last when they were asked exactly this task; `text` is the answer.

        None if they have refused it since.
        """
        from runtime.memory.episodes.statements import asked_and_answered
        from runtime.memory.facts.records import Observation

        if len(task) > LONGEST_TOLD or not self.shelf.count(Observation):
            return None
        begins = asked_and_answered(task, "")
        found = self.shelf.pick(Observation, [hit.id for hit in self.shelf.search(Observation, task)])
        said = [each for each in found if each.text.startswith(begins) and each.who == PERSON]
        last = max(said, key=lambda each: each.at, default=None)
        if last is None or any(each.at > last.at for each in self.refusals.of(task)):
            return None
        return last.model_copy(update={"text": last.text.removeprefix(begins)})

    def _recalls(self, task: str) -> bool:
        """Whether there is anything to recall for a task."""
        return self.config.recall and len(task) <= LONGEST_TASK and not self.empty

    def recognise(self, task: str) -> None:
        """Recognise the type of a task that a model is about to be asked; its decision will name it."""
        if not self.config.recall or len(task) > LONGEST_TASK or not self.there:
            return
        if not (self.empty and self.ways.empty):
            memory = self.memory  # with what the last runs taught
            began = time.perf_counter()
            found = self.types.recognise(task, memory.embedder.embed([task])[0])
            ms = round((time.perf_counter() - began) * 1000, 3)
            self._recognised[task] = replace(found, ms=ms)

    def way(self, task: str, possible: Sequence[str]) -> str:
        """The best of the possible ways to ask a model about a recognised task."""
        recognition = self._recognised.get(task)
        return self.ways.choose(recognition.type if recognition else "", possible)

    def guided(self, task: str) -> str:
        """The guidance of the method that suits a task; "" if there is none."""
        return next(iter(self.methods.guidance(task)), "") if self._recalls(task) else ""

    def decide(self, attempt: str, recall: Recall) -> None:
        """Keep the decision for an attempt until its outcome is known."""
        self.decided[attempt] = of_recall(attempt, "", recall)

    @property
    def memory(self) -> ProceduralMemory:
        """The trees, including those of the last runs."""
        if self._memory is None:
            from runtime.memory.tasks.recall import ProceduralMemory

            words = words_of(self.settings.systems)
            self._memory = ProceduralMemory(self.shelf, self.embedder, words, self.settings.parts)
            self._memory.makers = lambda: self.makers()
        self._take_in(self._memory)
        return self._memory

    def _take_in(self, memory: ProceduralMemory) -> None:
        """Give neurons and vectors to trees without those of the present embedder and words."""
        index = self.shelf.get(TreeIndex, "trees")
        if index is None or index.made_by != self._made_by:
            self._index_anew(memory)
        waiting = [each.id for each in self.shelf.scan(TreeWithoutNeurons)]
        for tree in self.shelf.pick(NeuronTree, waiting):
            with self.shelf.transaction():
                tree = memory.take_in(tree)
                type = self.types.learn(tree.text, tree.vector(self.embedder.name), tree.created)
                if type:
                    self.shelf.put(tree.model_copy(update={"type": type}))
                self.shelf.delete(TreeWithoutNeurons, tree.id)
            self.methods.consider(tree, type)
        self.ways.take_in(self.types)
        if waiting:
            self._recalled.clear()

    @cached_property
    def _made_by(self) -> str:
        """The present embedder and words, which the vectors of trees depend on."""
        kind, _ = resolve_embedder(self.config.embedder, self.config.embedder_folder)
        return f"{kind} {fingerprint(self.settings.systems)}"

    def _index_anew(self, memory: ProceduralMemory) -> None:
        name = memory.embedder.name
        missing = [tree.id for tree in self.shelf.scan(NeuronTree) if name not in tree.vectors]
        self.shelf.embed(NeuronTree, missing, memory.embedder)
        with self.shelf.transaction():
            for tree in self.shelf.scan(NeuronTree):
                self.shelf.put(memory.outline(tree))
        self.shelf.put(TreeIndex(id="trees", made_by=self._made_by))

    @cached_property
    def types(self) -> Types:
        """The problem types."""
        return Types(self.shelf, self.embedder, self.settings.parts)

    @property
    def ways(self) -> Ways:
        """The results of the ways in which models were asked."""
        return Ways(self.shelf)

    @cached_property
    def kinds(self) -> Kinds:
        """The types of tasks."""
        from runtime.memory.learning.kinds import kinds_of

        return kinds_of(self.settings.systems, self.embedder)

    @cached_property
    def episodes(self) -> Episodes:
        """The experiences of runs."""
        from runtime.memory.episodes.episodes import Episodes

        return Episodes(self, self.config.observe)

    @property
    def methods_folder(self) -> Path:
        """The folder of methods, which is a folder of reflexes."""
        return self.settings.folder / "methods"

    @cached_property
    def methods(self) -> Methods:
        """The methods."""
        from runtime.memory.tasks.methods import Methods

        words, files = words_of(self.settings.systems), self.settings.files()
        return Methods(self.shelf, self.embedder, words, self.methods_folder, files, self.settings.parts)

    def trusted(self, recall: Recall) -> bool:
        """Whether a replay needs no verification, by how often the solved task went well.

        Where two paths must agree, the other one is another solved task that leads to the same steps.
        """
        if recall.tree is None:
            return False
        tree = recall.tree
        needed = verification(tree.stands.stage, tree.id, tree.ledger.uses + 1)
        return needed == "none" or (needed == "two paths" and recall.agreed)

    def doubt(self, name: str, task: str, steps: Sequence[Mapping[str, Any]]) -> str:
        """Why the result of a method has to be verified; "" if it is trusted."""
        needed = self.methods.verification(name)
        if needed == "next rung":
            return "what it does is looked at, as it is new, or drawn for a sample"
        if needed == "two paths":
            recall = self.recall(task)
            if recall is None or recall.kind == "novel":
                return "recall knows nothing of this task"
            if plain(steps) != plain(recall.steps):
                return "recall would do it in another way"
        return ""

    def end(self, documents: Iterable[Document], at: str) -> None:
        """After a run, or a part of it: record what its loops taught, and the outcomes of recalls.

        Repeating a call changes nothing. Raises `FractalError` when the store cannot be written.
        """
        if not self.config.remember:
            return
        decisions: list[tuple[Decision, bool, str]] = []
        trees: dict[str, NeuronTree] = {}
        for document in documents:
            for attempt in attempts(document) if document.meta.type == "task" else ():
                if attempt.good is None:
                    continue  # unfinished or stopped: the outcome is unknown
                task = document.text(1, "task")
                decided = self.decided.get(attempt.id) or self._novel_decision(attempt.id, task)
                decision = decision_of(document, attempt, decided, at)
                lesson = lesson_of(document, attempt, at, self.settings.systems)
                if isinstance(lesson, NeuronTree):
                    maker = (self.makers() or {}).get(lesson.rung, lesson.rung)
                    lesson = lesson.model_copy(update={"maker": maker})
                    trees[lesson.id] = lesson.model_copy(update=marked(lesson))
                    decision = decision.model_copy(update={"tree": lesson.id})
                elif lesson:
                    decision = decision.model_copy(update={"why": decision.why or lesson.why})
                decision = self._with_method(decision, attempt)
                own = decision.predicts and attempt.good and attempt.judge == "criteria"
                decisions.append((decision, attempt.good, OWN if own else attempt.judge))
        if decisions and self._store_decisions(decisions, trees, at):
            self._recalled.clear()

    def _store_decisions(
        self, decisions: Sequence[tuple[Decision, bool, str]], trees: Mapping[str, NeuronTree], at: str
    ) -> bool:
        """Store all decisions of a run with their outcomes, or none; returns whether there are new trees."""
        with self.shelf.transaction():
            stored = {each.id for each in self.shelf.pick(Decision, [each.id for each, _, _ in decisions])}
            there = {each.id: each for each in self.shelf.pick(NeuronTree, trees)}
            new = [made for id, tree in trees.items() if (made := _learned(tree, there.get(id)))]
            self.shelf.put(*(self._with_type(each, at) for each, _, _ in decisions if each.id not in stored))
            self.shelf.put(*new, *(TreeWithoutNeurons(id=tree.id) for tree in new))
            for decision, good, judge in decisions:
                self._settle(decision.id, good, judge)
            fresh = [each for each, _, _ in decisions if each.id not in stored]
            if fresh:
                snapshots.count(self.shelf, fresh, self.config.snapshot_every, at)
        self.happened += [("NeuronTreeBuilt", {"tree": each.id, "task": each.text}) for each in new]
        self.happened += [
            ("NeuronRecalled", {"tree": each.tree, "method": each.method, "recall": each.path})
            for each in fresh
            if each.path in ("exact", "variation", "method")
        ]
        return bool(new)

    def _novel_decision(self, attempt: str, task: str) -> Decision | None:
        """The decision on a task that memory had nothing for, and left to the next rung."""
        recall = self._recalled.get(task)
        return of_recall(attempt, task, recall) if recall and recall.kind == "novel" else None

    @cached_property
    def refusals(self) -> Refusals:
        """What a person refused."""
        from runtime.memory.tasks.refusals import Refusals

        return Refusals(self.shelf, words_of(self.settings.systems))

    def feedback(self, run: str, good: bool, task: str, why: str = "", at: str = "") -> None:
        """A person's word on a run with this task: moves the ledgers of what it used or taught.

        What they call bad is not used again, neither for these tasks nor for variations of them.
        """
        decisions = [decision for decision in self.shelf.scan(Decision, {"run": run}) if _used(decision)]
        for decision in decisions:
            self._settle(decision.id, good, PERSON)
        tasks = [task, *(each.text for each in decisions)]
        trees = {tree.id for each in decisions if (tree := tree_by(self.shelf, each.tree))}
        if good:
            self.refusals.accept(tasks, run, trees)
            self._approve(trees)
        else:
            names = {name for each in decisions for name in each.method.split("+")}
            said = f"a person refused what it did in run {run}{f': {why}' if why else ''}"
            others = self.methods.refuse(names, trees, said)
            tasks += [tree.text for tree in self.shelf.pick(NeuronTree, others)]
            self.refusals.refuse(tasks, run, why, at)
        self._recalled.clear()

    def _approve(self, trees: Iterable[str]) -> None:
        """A person has approved of what these did: they do not depend on their maker any more."""
        for tree in filter(is_ours, self.shelf.pick(NeuronTree, trees)):
            approved = tree.model_copy(update={"evidence": PERSON})
            self.shelf.put(approved.model_copy(update=marked(approved)))

    def _settle(self, decision: str, good: bool, judge: str) -> None:
        """Update the ledgers of what a decision used, and the type that its outcome surprised."""
        before = self.shelf.get(Decision, decision)
        after = settle(self.shelf, decision, good, judge, parts=self.settings.parts, moved=self.types.moved)
        if after is not None:
            self.ways.settle(after)
        said = verdict(after.said) if after and after.method else None
        if before and after and said:
            for name in after.method.split("+"):
                self.methods.settle(name, said, instead_of=verdict(before.said))

    def _with_type(self, decision: Decision, at: str) -> Decision:
        """With the problem type of what was replayed, or the one recognised before a model was asked."""
        if decision.path in ("exact", "variation"):
            tree = self.shelf.get(NeuronTree, decision.tree)
            changes = {"type": tree.type, "recognition": "recognized"} if tree and tree.type else {}
            return decision.model_copy(update=changes)
        recognition = self._recognised.pop(decision.text, None)
        if recognition is None:
            return decision
        self.types.used(recognition, decision.text, at=at)
        changes = {"type": recognition.type, "recognition": recognition.kind}
        return decision.model_copy(update={**changes, "ms": {**decision.ms, "recognise": recognition.ms}})

    def _with_method(self, decision: Decision, attempt: Attempt) -> Decision:
        """With the learned methods that planned an attempt, and the calls they save."""
        names = methods_of(attempt.by, self.methods_folder) if attempt.planner == DIRECT else []
        if not names:
            return decision
        calls, sure = zip(*(self.methods.expected(name) for name in names), strict=True)
        changes = {"path": "method", "calls_before": sum(calls), "predicted": min(sure)}
        return decision.model_copy(update={"method": "+".join(names), **changes})


def _learned(tree: NeuronTree, known: NeuronTree | None) -> NeuronTree | None:
    """What is stored of a solved task; None if it is known, and may be replayed as long as this one."""
    if known is None or not is_ours(known):
        return tree
    if known.evidence == PERSON or (known.maker == tree.maker and not tree.evidence):
        return None
    names = ("exemplar", "run", "rung", "maker", "evidence", "mark")
    return known.model_copy(update={name: getattr(tree, name) for name in names})


def _used(decision: Decision) -> bool:
    """Whether a verdict on the run applies to this decision, and not to an earlier failed attempt."""
    return bool(decision.tree or decision.method or (decision.way and decision.outcome))
