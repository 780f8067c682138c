"""Births of methods: whether solved tasks make a method, and its markdown file.

Everything is tried before it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

from kernel.document.escaping import to_json
from runtime.memory.store import Record, Shelf
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import align
from runtime.memory.tasks.decisions import PERSON
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.ledger import Ledger, plain
from runtime.memory.tasks.likeness import Common, Wording, arguments, calculates, common, shape
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.words import Words

EXAMPLES = 8
"""Exemplars that are shown in a file."""
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

    def planned(self, task: str, texts: Sequence[str] = ()) -> Steps | None:
        """The steps that the shipped reflexes and these files plan."""
        ...


@dataclass(frozen=True)
class Draft:
    """A method; `shown` are its exemplars, which are of these trees."""

    common: Common
    shown: Sequence[Wording]
    trees: tuple[str, ...] = ()
    made_by: tuple[str, ...] = ()  # of what no person has approved of

    @property
    def phrasings(self) -> list[str]:
        """Its phrasings, each once."""
        return list(dict.fromkeys(each.phrase for each in self.shown))

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
        lines += ["success:", *(f"  - {to_json(each)}" for each in common.success)] if common.success else []
        lines += [f"output: {to_json(common.output)}"] if common.output else []
        lines += [f"status: {STATUS[common.kind]}", "origin: learned", "---"]
        lines += [f"# {_title(self.shown[0])}", "", _introduction(common, len(self.shown)), ""]
        lines += ["## Examples", "", "| you say | it reads |", "| --- | --- |"]
        for each in self.shown[:EXAMPLES]:
            task = each.exemplar.task
            values = ((h.slot, task[h.start : h.end].strip("\"“”`'").removesuffix("'s")) for h in each.holes)
            reads = dict.fromkeys(f"{slot} = {text}" for slot, text in values)
            lines.append(f"| {_cell(task)} | {_cell(', '.join(reads))} |")
        return "\n".join(lines) + "\n"


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


def _introduction(common: Common, runs: int) -> str:
    if common.kind == "steps":
        return (
            f"Learned from {runs} solved tasks. You can edit this file: a changed file is never overwritten. "
            "`status: off` switches it off; a deleted file does not come back."
        )
    steps: list[str] = []
    for n, step in enumerate(common.steps, 1):
        args = (f"{key} = {_line(str(value))[:200]}" for key, value in (step.get("args") or {}).items())
        steps.append(f"{n}. {step['tool']} {', '.join(args)}")
    if common.kind == "template":
        return f"Similar tasks were solved in these steps, where … differed each time: {'; '.join(steps)}"
    return f"Similar tasks were solved with the same tools; the best one like this: {'; '.join(steps)}"


def _title(first: Wording) -> str:
    text = first.exemplar.task[: first.end]
    for hole in reversed(first.holes):
        text = f"{text[: hole.start]}…{text[hole.end :]}"
    text = _line(text[first.start :])
    return f"{text[:1].upper()}{text[1:80]}"


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
    rung: str = ""
    maker: str = ""
    evidence: str = ""
    mark: str = ""


def operation(exemplar: Exemplar) -> str:
    """A hash of the tools of a procedure and the names of their arguments."""
    ways = [[way[1:], exemplar.steps[int(way[0])]["tool"]] for way, _ in arguments(exemplar)]
    calls = json.dumps([[step["tool"] for step in exemplar.steps], ways])
    return hashlib.sha256(calls.encode()).hexdigest()[:16]


def aligns(read: Reading, other: Solved) -> bool:
    """Whether a solved task is a variation of another one."""
    return not isinstance(align(read, Reading.read(other.exemplar.task, read.words)), Refusal)


def similar(one: Solved, other: Solved, words: Words) -> bool:
    """Whether two tasks are variations, or fill the same arguments in other words."""
    same = shape(one.exemplar) == shape(other.exemplar) and not calculates(one.exemplar)
    return same or aligns(Reading.read(one.exemplar.task, words), other)


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
        aligned = [each for each in near if aligns(read, each)][:MADE_FROM]
        return self._tried([this, *aligned]) if aligned != alike else None

    def _tried(self, trees: Sequence[Solved]) -> Draft | None:
        """A method of these tasks that passed every trial."""
        found = common([each.exemplar for each in trees], self.words) if len(trees) >= BORN else None
        if found is None:
            return None
        said = [replace(each, phrase=text) for each in found.wordings if (text := self._phrase(each, found))]
        said = self._readable(found, said)
        own = [each.exemplar for each in said]
        used = [tree for tree in trees if tree.exemplar in own]
        made_by = {tree.maker for tree in used if tree.maker and tree.evidence != PERSON}
        draft = Draft(found, said, tuple(tree.id for tree in used), tuple(sorted(made_by)))
        return None if not said or (found.kind == "steps" and self._claims(draft)) else draft

    def _phrase(self, found: Wording, common: Common) -> str | None:
        holes = [
            (h.start, h.end, f"{{{h.slot}}}" if common.slots[h.slot] == h.kind else f"{{{h.slot}:{h.kind}}}")
            for h in found.holes
        ]
        return self.files.wording(found.exemplar.task, found.start, found.end, holes)

    def _readable(self, common: Common, said: list[Wording]) -> list[Wording]:
        """Those that only this file reads; none if any would be solved in another way."""
        if common.kind == "steps":
            others = _read(_firsts(said), lambda task: self.files.planned(task, self.active))
            if others is None:
                return []
            phrases = {each.phrase for each in others}
            said = [each for each in said if each.phrase not in phrases]
        while len(said) >= BORN:
            text = Draft(common, said).markdown("method")
            if self.files.fault(text):
                return []
            if common.kind != "steps":
                return said
            alone = _read(said, partial(self.files.plan, text)) or []
            best = _read(_firsts(alone), partial(self.files.planned, texts=[*self.active, text])) or []
            phrases = {each.phrase for each in best}
            read = [each for each in alone if each.phrase in phrases]
            if read == said:
                return said
            said = read
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


def _firsts(said: Sequence[Wording]) -> list[Wording]:
    """One exemplar of each phrasing: what matches it matches the others."""
    return list({each.phrase: each for each in reversed(said)}.values())


def _read(said: Sequence[Wording], plan: Callable[[str], Steps | None]) -> list[Wording] | None:
    """Those for which steps are planned; None if any would be solved in another way."""
    planned = [(each, plan(each.exemplar.task)) for each in said]
    if any(_differ(steps, each.exemplar) for each, steps in planned):
        return None
    return [each for each, steps in planned if steps is not None]


def _differ(steps: Steps | None, exemplar: Exemplar) -> bool:
    """Whether steps are planned, and others than those of an exemplar."""
    return steps is not None and plain(steps) != plain(exemplar.steps)
