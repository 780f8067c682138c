"""Births of methods: whether solved tasks make a method, and its markdown file.

Everything is tried before it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Protocol

from kernel.document.escaping import to_json
from runtime.memory.store import Record, Shelf
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import align
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.ledger import Ledger, plain
from runtime.memory.tasks.likeness import Common, Wording, calculates, common, flat, leaves_of, parts
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.words import Words
from runtime.text.tokens import tokens

EXAMPLES = 8
"""Exemplars that are shown in a file."""
FINISHED = {"step": 1, "has": "."}
"""The criterion where the exemplars have none in common: some result."""
STATUS: Mapping[str, str] = {"steps": "active", "template": "template", "exemplar": "example"}
"""Only `active` files are matched; the others are for people and for a model's context."""
_STATUS = re.compile(r"(?m)^status:.*$")
_END = re.compile(r"(?ms)\A(---[ \t]*\n.*?)(^---[ \t]*$)")


Steps = Sequence[Mapping[str, Any]]


class Files(Protocol):
    """Reads and tries the files of methods; `runtime.reflexes.trial.Trial` is one."""

    def names(self) -> frozenset[str]:
        """The names that are taken."""
        ...

    def status(self, text: str) -> str:
        """The status of a file; "" if it cannot be read."""
        ...

    def fault(self, text: str) -> str:
        """What is wrong with a file; "" if nothing is."""
        ...

    def wording(self, task: str, start: int, end: int, holes: Sequence[tuple[int, int, str]]) -> str | None:
        """A task as a phrasing; None if it cannot be written as one."""
        ...

    def plan(self, text: str, task: str) -> Steps | None:
        """The steps that a file alone plans for a task."""
        ...

    def others(self, task: str, texts: Sequence[str] = ()) -> Steps | None:
        """The steps that the shipped reflexes and these files plan."""
        ...

    def among(self, text: str, task: str, texts: Sequence[str] = ()) -> Steps | None:
        """The steps that a file plans beside all others; None unless it is the one that matches."""
        ...


@dataclass(frozen=True)
class Draft:
    """A method; `shown` are its exemplars."""

    common: Common
    phrasings: tuple[str, ...]
    shown: tuple[Wording, ...]
    trees: tuple[str, ...] = ()

    def markdown(self, name: str) -> str:
        """Its file."""
        common = self.common
        lines = ["---", f"name: {to_json(name)}", f"description: {to_json(description(self.phrasings[0]))}"]
        lines += ["phrasings: |", *(f"  {each}" for each in self.phrasings)]
        lines += [f"slots: {to_json(dict(common.slots))}"] if common.slots else []
        lines.append("steps:")
        for step in common.steps:
            lines.append(f"  - tool: {to_json(step['tool'])}")
            lines += [f"    args: {to_json(step['args'])}"] if step.get("args") else []
        success = common.success or [{**FINISHED, "step": len(common.steps)}]
        lines += ["success:", *(f"  - {to_json(each)}" for each in success)]
        lines += [f"output: {to_json(common.output)}"] if common.output else []
        lines += [f"status: {STATUS[common.kind]}", "origin: learned", "---"]
        return "\n".join([*lines, _body(common, self.shown)])


def description(phrase: str) -> str:
    """A method in one line: its first phrasing with open slots."""
    text = re.sub(r"\s+([,.;:?!])", r"\1", re.sub(r"\{[^{}]*\}", "…", phrase))
    return text if len(text) <= 100 else f"{text[:99].rstrip()}…"


def switched(text: str, status: str) -> str:
    """A file with another status."""
    if not (head := _END.match(text)):
        return text
    front = head[1]
    line = f"status: {status}"
    front = _STATUS.sub(lambda _: line, front, count=1) if _STATUS.search(front) else f"{front}{line}\n"
    return front + text[head.end(1) :]


def _body(common: Common, shown: Sequence[Wording]) -> str:
    lines = [f"# {_title(shown[0], common)}", "", _intro(common, len(shown)), "", "## Examples", ""]
    lines += ["| you say | it reads |", "| --- | --- |"]
    for each in shown[:EXAMPLES]:
        reads = ", ".join(dict.fromkeys(f"{h.slot} = {_value(each, h.start, h.end)}" for h in each.holes))
        lines.append(f"| {_cell(each.exemplar.task)} | {_cell(reads)} |")
    return "\n".join(lines) + "\n"


def _intro(common: Common, runs: int) -> str:
    if common.kind == "steps":
        return (
            f"Learned from {runs} solved tasks. You can edit this file: a changed file is never overwritten. "
            "`status: off` switches it off; a deleted file does not come back."
        )
    steps = "; ".join(
        f"{n}. {step['tool']} {_args(step.get('args') or {})}" for n, step in enumerate(common.steps, 1)
    )
    if common.kind == "template":
        return f"Similar tasks were solved in these steps, where … differed each time: {steps}"
    return f"Similar tasks were solved with the same tools; the best one like this: {steps}"


def _args(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {_line(str(value))[:200]}" for key, value in args.items())


def _title(first: Wording, common: Common) -> str:
    text = first.exemplar.task[first.start : first.end]
    for hole in reversed(first.holes):
        begin, end = hole.start - first.start, hole.end - first.start
        text = f"{text[:begin]}…{text[end:]}"
    text = _line(text)
    return f"{text[:1].upper()}{text[1:80]}"


def _value(wording: Wording, start: int, end: int) -> str:
    return wording.exemplar.task[start:end].strip("\"“”`'").removesuffix("'s")


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


BORN = 5
"""Exemplars that a method needs. Source: seed 000_39bad3da279292ba."""
MADE_FROM = 11
"""Further exemplars that a method is made from, the nearest ones."""
SUSPECTS = 128
"""Stored tasks that a new method is tried on, found by the words of its phrasings."""
SEARCHED = 4
"""Phrasings that are searched for."""


class Solved(Record):
    """A stored tree, read without its neurons."""

    KIND: ClassVar[str] = NeuronTree.KIND

    exemplar: Exemplar
    ledger: Ledger = Ledger()


Said = tuple[Wording, str]
"""An exemplar with its phrasing."""


def operation(exemplar: Exemplar) -> str:
    """A hash of the tools of a procedure and the names of their arguments."""
    ways = [[way, step["tool"]] for step in exemplar.steps for way, _ in flat(step.get("args") or {})]
    told = json.dumps([[step["tool"] for step in exemplar.steps], ways])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def shape(exemplar: Exemplar) -> str:
    """The arguments of a procedure with the values of its task left open."""
    leaves = leaves_of(token for token in tokens(exemplar.task) if token.leaf).values()
    told: list[Any] = []
    for way, value in flat([step.get("args") or {} for step in exemplar.steps]):
        pieces = parts(value, leaves)
        fixed = [part.text if not part.place else part.place[0] for part in pieces]
        told.append([way, fixed])
    return json.dumps(told)


def aligns(read: Reading, other: Solved) -> bool:
    """Whether a solved task is a variation of another one."""
    return not isinstance(align(read, Reading.read(other.exemplar.task, read.words)), Refusal)


@dataclass(frozen=True)
class Births:
    """Makes methods of solved tasks. `active` are the files of other methods."""

    shelf: Shelf
    words: Words
    files: Files
    active: Sequence[str]

    def born(self, this: Solved, near: Sequence[Solved]) -> Draft | None:
        """The method that a solved task makes with near tasks of the same operation; None for none."""
        alike: list[Solved] = []
        if not calculates(this.exemplar):
            mine = shape(this.exemplar)
            alike = [each for each in near if shape(each.exemplar) == mine][:MADE_FROM]
            if found := self._tried([this, *alike]):
                return found
        read = Reading.read(this.exemplar.task, self.words)
        varied = (each for each in near if aligns(read, each))
        aligned = list(islice(varied, MADE_FROM))
        return self._tried([this, *aligned]) if aligned != alike else None

    def _tried(self, trees: Sequence[Solved]) -> Draft | None:
        """A method of these tasks that passed every trial."""
        found = common([each.exemplar for each in trees], self.words) if len(trees) >= BORN else None
        if found is None:
            return None
        said = [(each, self._phrasing(each, found)) for each in found.wordings]
        told = [(each, text) for each, text in said if text]
        usable = self._readable(found, self._uncovered(told) if found.kind == "steps" else told)
        if not usable:
            return None
        own = {_told(each.exemplar) for each, _ in usable}
        draft = _draft(found, usable, tuple(tree.id for tree in trees if _told(tree.exemplar) in own))
        return None if found.kind == "steps" and self._claims(draft) else draft

    def _phrasing(self, found: Wording, common: Common) -> str | None:
        holes = [
            (h.start, h.end, f"{{{h.slot}}}" if common.slots[h.slot] == h.kind else f"{{{h.slot}:{h.kind}}}")
            for h in found.holes
        ]
        return self.files.wording(found.exemplar.task, found.start, found.end, holes)

    def _uncovered(self, said: Sequence[Said]) -> list[Said]:
        """Those that no reflex and no other method reads; none if one would do something else."""
        firsts = {text: each.exemplar for each, text in reversed(said)} if len(said) >= BORN else {}
        there = {text: self.files.others(each.task, self.active) for text, each in firsts.items()}
        if any(_differ(steps, firsts[text]) for text, steps in there.items()):
            return []
        return [(each, text) for each, text in said if there.get(text) is None]

    def _readable(self, common: Common, said: Sequence[Said]) -> list[Said]:
        """Those for which the file plans the steps that solved them; none if they are too few."""
        usable = list(said)
        while len(usable) >= BORN:
            text = _draft(common, usable).markdown("method")
            if self.files.fault(text):
                return []
            if common.kind != "steps":
                return usable
            planned = [(each, self.files.plan(text, each[0].exemplar.task)) for each in usable]
            if any(_differ(steps, each.exemplar) for (each, _), steps in planned):
                return []
            read = [each for each, steps in planned if steps is not None]
            firsts = {phrase: each.exemplar.task for each, phrase in reversed(read)}
            best = {phrase for phrase, task in firsts.items() if self.files.among(text, task, self.active)}
            kept = [each for each in read if each[1] in best]
            if len(kept) == len(usable):
                return kept
            usable = kept
        return []

    def _claims(self, draft: Draft) -> bool:
        """Whether a file would solve a stored task in another way."""
        text = draft.markdown("method")
        suspects: set[str] = set()
        most = SUSPECTS // min(len(draft.phrasings), SEARCHED)
        for phrase in draft.phrasings[:SEARCHED]:
            words = " ".join(re.sub(r"\{[^{}]*\}", " ", phrase).split())
            suspects |= {hit.id for hit in self.shelf.search(Solved, words, most)} if words else set()
        stored = self.shelf.pick(Solved, sorted(suspects - set(draft.trees)))
        return any(_differ(self.files.plan(text, e.task), e) for e in (each.exemplar for each in stored))


def _differ(steps: Steps | None, exemplar: Exemplar) -> bool:
    """Whether steps are planned, and others than those of an exemplar."""
    return steps is not None and plain(steps) != plain(exemplar.steps)


def _draft(common: Common, said: Sequence[Said], trees: tuple[str, ...] = ()) -> Draft:
    phrasings = tuple(dict.fromkeys(text for _, text in said))
    return Draft(common, phrasings, tuple(each for each, _ in said), trees=trees)


def _told(exemplar: Exemplar) -> str:
    return exemplar.model_dump_json(include={"task", "steps"})
