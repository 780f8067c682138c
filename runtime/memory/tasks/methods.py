"""Methods: procedures learned from several solved tasks, each in a markdown file.

A file is matched like a shipped reflex. Before it is written, it must plan the steps that solved its
exemplars, and no other steps for any stored task. A person may edit, switch off or delete the file. Its uses
are counted in the record.

Source: seed 000_39bad3da279292ba, "Method Neurons".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kernel import disk
from kernel.errors import UsageError
from runtime.memory.embed import Embedder
from runtime.memory.store import Record, Shelf, pack
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.ledger import Ledger, Stage, Standing, Verification, plain, verification
from runtime.memory.tasks.likeness import MethodKind, calculates, slug
from runtime.memory.tasks.makers import is_ours
from runtime.memory.tasks.method_births import (
    BORN,
    STATUS,
    Births,
    Draft,
    Files,
    Solved,
    operation,
    similar,
    switched,
)
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.refusals import Refusals
from runtime.memory.tasks.rewards import Verdict
from runtime.memory.tasks.signing import NOT_OURS, is_signed, signed
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.words import Words

NEAR = 48
"""Solved tasks that are compared with a new one."""
LIKE = 0.6
"""The cosine from which calculations are compared."""
NEAR_METHODS = 8
MEMBERS = 64
"""Exemplars that a record names."""
REBUILT_FROM = 11
"""Exemplars that a method is rebuilt from for a task that it does not cover."""


class Method(Record):
    """The record of a method; its id is the name of its file."""

    KIND: ClassVar[str] = "method"

    form: MethodKind = "steps"
    operation: str = ""
    type: str = ""  # the id of the problem type it was born in
    trees: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    standing: Standing = Standing()
    written: str = ""  # the text of the file when it was last written
    writing: str = ""  # the text that is about to be written
    pending: bool = False  # `writing` is not yet in the file
    why: str = ""  # it was switched off
    source: str = ""  # of the last outcome

    @property
    def stage(self) -> Stage:
        """How far it is trusted."""
        return self.standing.stage


@dataclass(frozen=True)
class Listed:
    """A method for display."""

    name: str
    kind: str
    stage: str
    uses: int
    right: float
    status: str  # of the file: active, off, …; deleted; faulty
    file: Path
    edited: bool = False
    description: str = ""
    note: str = ""  # the fault of the file, or why it is off
    trees: tuple[str, ...] = ()


class Methods:
    """The methods of one workspace: their records on the shelf, their files in `folder`."""

    def __init__(
        self,
        shelf: Shelf,
        embedder: Embedder,
        words: Words,
        folder: Path,
        files: Files,
        parts: Parts = ALL,
    ) -> None:
        self.shelf, self.embedder, self.words = shelf, embedder, words
        self.folder, self.files, self.parts = folder, files, parts
        self.refusals = Refusals(shelf, words)

    def consider(self, tree: NeuronTree, type: str = "") -> Method | None:
        """The method that a newly learned tree makes or joins; None for neither.

        A method that plans other steps for this task is switched off.
        """
        if not self.parts.methods or not tree.exemplar.steps or self._unsound(tree):
            return None
        self.repair()
        key, vector = operation(tree.exemplar), self._vector(tree)
        known = self._known(vector)
        if self._covered(tree, known):
            return None
        hits = self.shelf.nearest(Solved, self.embedder.name, vector, NEAR)
        wanted = [
            h.id for h in hits if h.id != tree.id and (h.score >= LIKE or not calculates(tree.exemplar))
        ]
        near = [
            each
            for each in self.shelf.pick(Solved, wanted)
            if operation(each.exemplar) == key and not self._unsound(each)
        ]
        this = Solved.model_validate(tree.model_dump(exclude={"vectors"}))
        for method in known:
            if method.operation == key and (grown := self._grown(method, this, known)):
                return grown
        taken = {id for method in known for id in method.trees}
        free = [each for each in near if each.id not in taken]
        born = Births(self.shelf, self.words, self.files, self._active(known)).born
        made = born(this, free) if len(free) + 1 >= BORN else None
        return self._written_new(made, key, type, vector) if made else None

    def _unsound(self, tree: NeuronTree | Solved) -> bool:
        """Whether it is a draft, went wrong too often, or a person refused it."""
        return (
            not is_ours(tree)
            or tree.ledger.quarantined
            or self.refusals.against(tree.id, tree.text) is not None
        )

    def _vector(self, tree: NeuronTree) -> Any:
        vector = tree.vector(self.embedder.name)
        return vector if vector is not None else self.embedder.embed([tree.text])[0]

    def _known(self, vector: Any) -> list[Method]:
        name, there = self.embedder.name, self.shelf.count(Method)
        hits = self.shelf.nearest(Method, name, vector, NEAR_METHODS) if there else []
        if len(hits) < min(there, NEAR_METHODS):  # some were embedded by another embedder
            missing = [method.id for method in self.shelf.scan(Method) if name not in method.vectors]
            self.shelf.embed(Method, missing, self.embedder)
            hits = self.shelf.nearest(Method, name, vector, NEAR_METHODS)
        return self.shelf.pick(Method, [hit.id for hit in hits])

    def _covered(self, tree: NeuronTree, methods: Iterable[Method]) -> bool:
        """Whether a method, in its present or its written text, already matches this task."""
        wanted = plain(tree.exemplar.steps)
        covered = False
        for method in methods:
            there = self.text(method)
            for text in dict.fromkeys(each for each in (there, method.written) if each):
                steps = self.files.plan(text, tree.exemplar.task)
                if steps is None:
                    continue
                if method.form != "steps" or plain(steps) == wanted:
                    covered = True
                    if tree.id not in method.trees and len(method.trees) < MEMBERS:
                        self.shelf.put(method.model_copy(update={"trees": (*method.trees, tree.id)}))
                elif there == method.written and self.files.status(text) == "active":
                    why = f"it plans other steps for this task than those of memory {tree.id}"
                    self._rewrite(method, switched(text, "off"), why=why)
                break
        return covered

    def _grown(self, method: Method, this: Solved, known: Sequence[Method]) -> Method | None:
        """A method rebuilt with a task that it did not cover, if nobody has edited its file."""
        text = self.text(method)
        if method.form != "steps" or text != method.written or self.files.status(text) != "active":
            return None
        stored = self.shelf.pick(Solved, method.trees[:REBUILT_FROM])
        if len(stored) < BORN - 1 or not similar(stored[0], this, self.words):
            return None
        others = [each for each in self._active(known) if each != text]
        births = Births(self.shelf, self.words, self.files, others)
        made = births.born(stored[0], [*stored[1:], this])
        if made is None or this.id not in made.trees or made.common.kind != "steps":
            return None
        trees = (*method.trees[: MEMBERS - 1], this.id)
        return self._rewrite(method.model_copy(update={"trees": trees}), _signed(made, method.id))

    def _active(self, methods: Iterable[Method]) -> list[str]:
        texts = [self.text(method) for method in methods]
        return [text for text in texts if text and self.files.status(text) == "active"]

    def _written_new(self, made: Draft, key: str, type: str, vector: Any) -> Method:
        first = made.shown[0]
        labels = {
            first.exemplar.task[hole.start : hole.end].lower().removesuffix("'s") for hole in first.holes
        }
        taken = self.files.names() | {path.stem for path in self.folder.glob("*.md")}
        taken |= {row.id for row in self.shelf.rows(Method.KIND)}
        read = Reading.read(first.exemplar.task, self.words)
        name = slug(read.tokens, labels, self.words, taken)
        vectors, form = {self.embedder.name: pack(vector)}, made.common.kind
        method = Method(id=name, text=made.phrasings[0], vectors=vectors, form=form, operation=key, type=type)
        return self._rewrite(method.model_copy(update={"trees": made.trees[:MEMBERS]}), _signed(made, name))

    def path(self, method: Method) -> Path:
        """The path of its file."""
        return self.folder / f"{method.id}.md"

    def text(self, method: Method) -> str:
        """The text of its file; "" if it cannot be read."""
        try:
            return self.path(method).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def _rewrite(self, method: Method, text: str, why: str = "") -> Method:
        """Write a file: first the record says what will be written, in case of a crash."""
        method = method.model_copy(update={"writing": text, "pending": True, "why": why})
        self.shelf.put(method)
        return self._finish(method)

    def _finish(self, method: Method) -> Method:
        self._write(self.path(method), method.writing)
        return self._settled(method, method.writing)

    def _write(self, path: Path, text: str) -> None:
        with disk.writing_state(path):
            disk.put(path, text.encode("utf-8"))

    def _settled(self, method: Method, written: str) -> Method:
        method = method.model_copy(update={"writing": "", "pending": False, "written": written})
        self.shelf.put(method)
        return method

    def repair(self) -> None:
        """Finish what a crash left half written; a person's edit is kept."""
        for method in list(self.shelf.scan(Method, {"pending": True})):
            text = self.text(method)
            untouched = text == method.written if self.path(method).exists() else not method.written
            if untouched and text != method.writing:
                self._finish(method)
            else:
                self._settled(method, text if text == method.writing else method.written)

    def verification(self, name: str) -> Verification:
        """Who checks the next use of a method; one without a record is new."""
        method = self.shelf.get(Method, name)
        if method is None:
            return "next rung"
        return verification(method.stage, method.id, method.ledger.uses + 1)

    def settle(self, method: str, said: Verdict, *, instead_of: Verdict | None = None) -> Method | None:
        """Count what was said of a use in place of `instead_of`; None if there is no such method."""
        with self.shelf.transaction():
            known = self.shelf.get(Method, method)
            if known is None or instead_of == said:
                return known
            ledger, standing = known.ledger, known.standing
            if instead_of:
                ledger = ledger.after(instead_of.good, instead_of.trust, uses=-1)
            ledger = ledger.after(said.good, said.trust)
            if said.outcome is not None and (instead_of is None or instead_of.outcome != said.outcome):
                standing = standing.after(ledger, said.good)
            known = known.model_copy(update={"ledger": ledger, "standing": standing, "source": said.source})
            self.shelf.put(known)
        return known

    def refuse(self, names: Collection[str], trees: Collection[str], why: str) -> list[str]:
        """Switch off the methods of these names, or with one of these exemplars; their exemplars' ids."""
        found = [each for each in self.shelf.scan(Method) if each.id in names or {*each.trees} & {*trees}]
        for method in found:
            if self.text(method):
                self.switch(method.id, False)
                self.shelf.put(self.shelf.pick(Method, [method.id])[0].model_copy(update={"why": why}))
        return [id for method in found for id in method.trees]

    def expected(self, name: str) -> tuple[int, float]:
        """The model calls of a method's first task, and its confidence."""
        method = self.shelf.get(Method, name)
        tree = self.shelf.get(NeuronTree, method.trees[0]) if method and method.trees else None
        return tree.calls if tree else 0, method.ledger.confidence if method else 0.5

    def guidance(self, task: str) -> list[str]:
        """How similar tasks were solved, for a model's context: from templates and best exemplars."""
        if not self.parts.methods or not self.shelf.count(Method):
            return []
        (vector,) = self.embedder.embed([task])
        found: list[str] = []
        for method in self._known(vector):
            text = self.text(method)
            shown = is_signed(text) and self.files.status(text) == STATUS[method.form]
            if not shown or method.form == "steps":
                continue
            if (steps := self.files.plan(text, task)) is not None:
                found.append(_guided(method, steps))
        return found

    def listed(self) -> list[Listed]:
        """All methods by name, including files that a person added."""
        self.repair()
        known = {method.id: method for method in self.shelf.scan(Method)}
        names = {path.stem for path in self.folder.glob("*.md") if path.stem != "language"}
        return [self._listed(name, known.get(name)) for name in sorted({*known, *names})]

    def _listed(self, name: str, method: Method | None) -> Listed:
        method = method or Method(id=name, source="person")
        text = self.text(method)
        fault = self.files.fault(text) if text else ""
        status = "deleted" if not text else "faulty" if fault else self.files.status(text)
        if status not in ("off", "deleted", "faulty") and not is_signed(text):
            status, fault = "draft", f"{NOT_OURS}; look at it, then: fractal brain methods on {name}"
        return Listed(
            name,
            method.form,
            method.stage,
            method.ledger.uses,
            method.ledger.correct,
            status,
            self.path(method),
            edited=bool(text) and text != method.written,
            description=method.text,
            note=fault or (method.why if status == "off" else ""),
            trees=method.trees,
        )

    def switch(self, name: str, on: bool) -> Listed:
        """Switch a method on or off in its file; switching on restores a deleted file.

        With that, a person accepts the file as it is, whoever wrote it. Raises `UsageError` if there is no
        such method.
        """
        method = self.shelf.get(Method, name) if name else None
        text = self.text(method or Method(id=name)) if name and Path(name).name == name else ""
        if not text and on and method:
            text = method.written
        if not text:
            raise UsageError(f"there is no method {name}; list them with: fractal brain methods")
        changed = switched(text, STATUS[method.form if method else "steps"] if on else "off")
        changed = signed(changed, ()) if on else changed
        if method and text == method.written:
            self._rewrite(method, changed)
        elif changed != text:
            self._write(self.folder / f"{name}.md", changed)
        return self._listed(name, self.shelf.get(Method, name))


def _signed(made: Draft, name: str) -> str:
    return signed(made.markdown(name), made.made_by)


def _guided(method: Method, steps: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{n}. {step['tool']} {dict(step.get('args') or {})}" for n, step in enumerate(steps, 1)]
    how = "find out what … is" if method.form == "template" else "the values are of another task"
    return f"Similar tasks were solved in these steps ({method.id}; {how}):\n" + "\n".join(lines)
