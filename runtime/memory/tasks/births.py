"""Births of methods: whether solved tasks make a method, and its markdown file.

Everything is tried before it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Protocol

from runtime.memory.store import Record, Shelf
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import align
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.ledger import Ledger, plain
from runtime.memory.tasks.likeness import Common, Variable, Wording, calculates, common, flat, parts
from runtime.memory.tasks.reading import without_courtesies
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.words import Words
from runtime.text.tokens import tokens

EXAMPLES = 8
"""Exemplars that are shown in a file."""
NOT_THESE = 5
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
    """A method; `shown` are its exemplars, `others` similar tasks that it does not match."""

    common: Common
    phrasings: tuple[str, ...]
    shown: tuple[Wording, ...]
    others: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()

    def markdown(self, name: str) -> str:
        """Its file."""
        common = self.common
        lines = ["---", f"name: {_yaml(name)}", f"description: {_yaml(description(self.phrasings[0]))}"]
        lines += ["phrasings: |", *(f"  {each}" for each in self.phrasings)]
        lines += [f"slots: {_yaml(dict(common.slots))}"] if common.slots else []
        lines.append("steps:")
        for step in common.steps:
            lines.append(f"  - tool: {_yaml(step['tool'])}")
            lines += [f"    args: {_yaml(step['args'])}"] if step.get("args") else []
        success = common.success or [{**FINISHED, "step": len(common.steps)}]
        lines += ["success:", *(f"  - {_yaml(each)}" for each in success)]
        lines += [f"output: {_yaml(common.output)}"] if common.output else []
        lines += [f"status: {STATUS[common.kind]}", "origin: learned", "---"]
        return "\n".join([*lines, _body(common, self.shown, self.others)])


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


def _body(common: Common, shown: Sequence[Wording], others: Sequence[str]) -> str:
    lines = [f"# {_title(shown[0], common)}", "", _intro(common, len(shown)), "", "## Examples", ""]
    lines += ["| you say | it reads |", "| --- | --- |"]
    for each in shown[:EXAMPLES]:
        reads = ", ".join(dict.fromkeys(f"{h.slot} = {_value(each, h.start, h.end)}" for h in each.holes))
        lines.append(f"| {_cell(each.exemplar.task)} | {_cell(reads)} |")
    if others:
        lines += ["", "## Not these", "", *(f"- {_line(other)}" for other in others[:NOT_THESE])]
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


def _yaml(value: Any) -> str:
    """A value in one line of YAML."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(
        str,
        lambda dumper, data: dumper.represent_scalar(
            "tag:yaml.org,2002:str", data, style='"' if "\n" in data else None
        ),
    )
    made = yaml.dump(
        value, Dumper=Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return made.removesuffix("...\n").rstrip("\n")


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
    found = [token for token in tokens(exemplar.task) if token.leaf]
    leaves = [Variable(str(at), t.kind, t.value, t.unit, (t,)) for at, t in enumerate(found)]
    told: list[Any] = []
    for way, value in flat([step.get("args") or {} for step in exemplar.steps]):
        pieces = parts(value, leaves)
        fixed = [part.text if not part.place else part.place[0] for part in pieces]
        told.append([way, fixed])
    return json.dumps(told)


def aligns(read: Sequence[Any], other: Solved, words: Words) -> bool:
    """Whether a solved task is a variation of these tokens."""
    return not isinstance(align(read, without_courtesies(other.exemplar.task, words), words), Refusal)


@dataclass(frozen=True)
class Births:
    """Makes methods of solved tasks. `active` are the files of other methods."""

    shelf: Shelf
    words: Words
    files: Files
    active: Sequence[str]

    def born(self, this: Solved, near: Sequence[Solved], unlike: Sequence[str]) -> Draft | Refusal:
        """The method that a solved task makes with near tasks of the same operation, or why there is none.

        `unlike` are near tasks that were solved in another way.
        """
        found: Draft | Refusal = Refusal("too few are solved in the same way")
        alike: list[Solved] = []
        if not calculates(this.exemplar):
            mine = shape(this.exemplar)
            alike = [each for each in near if shape(each.exemplar) == mine]
            if len(alike) + 1 >= BORN:
                found = self.tried([this, *alike[:MADE_FROM]], unlike)
        if isinstance(found, Refusal) and len(alike) < len(near):
            read = without_courtesies(this.exemplar.task, self.words)
            varied = (each for each in near if aligns(read, each, self.words))
            aligned = list(islice(varied, MADE_FROM))
            if len(aligned) + 1 >= BORN and aligned != alike[:MADE_FROM]:
                found = self.tried([this, *aligned], unlike)
        return found

    def tried(self, trees: Sequence[Solved], unlike: Sequence[str]) -> Draft | Refusal:
        """A method of these tasks that passed every trial, or why there is none."""
        found = common([each.exemplar for each in trees], self.words)
        if isinstance(found, Refusal):
            return found
        said = [(each, self._phrasing(each, found)) for each in found.wordings]
        usable = [(each, text) for each, text in said if text and (found.kind == "steps" or each.aligned)]
        if found.kind == "steps":
            usable = self._uncovered(usable)
        if not isinstance(usable, Refusal):
            usable = self._readable(found, usable)
        if isinstance(usable, Refusal):
            return usable
        own = {_told(each.exemplar) for each, _ in usable}
        draft = _draft(found, usable, tuple(tree.id for tree in trees if _told(tree.exemplar) in own))
        text = draft.markdown("method")
        if found.kind == "steps" and (claims := self._claims(text, draft)):
            return Refusal(claims)
        others = tuple(task for task in unlike if self.files.plan(text, task) is None)
        return replace(draft, others=others)

    def _phrasing(self, found: Wording, common: Common, *, whole: bool = False) -> str | None:
        """The phrasing of one exemplar, with its courtesies (`whole`) or without."""
        holes = [
            (h.start, h.end, f"{{{h.slot}}}" if common.slots[h.slot] == h.kind else f"{{{h.slot}:{h.kind}}}")
            for h in found.holes
        ]
        task = found.exemplar.task
        start, end = (0, len(task)) if whole else (found.start, found.end)
        return self.files.wording(task, start, end, holes)

    def _uncovered(self, said: Sequence[Said]) -> list[Said] | Refusal:
        """Those that no reflex and no other method reads."""
        looked: dict[str, bool] = {}  # by phrasing
        for each, text in said if len(said) >= BORN else ():
            if text not in looked:
                there = self.files.others(each.exemplar.task, self.active)
                if there is not None and plain(there) != plain(each.exemplar.steps):
                    return Refusal("a reflex plans other steps for one of them")
                looked[text] = there is not None
        return [(each, text) for each, text in said if not looked.get(text)]

    def _readable(self, common: Common, said: Sequence[Said]) -> list[Said] | Refusal:
        """Those for which the file plans the steps that solved them."""
        usable = list(said)
        whole: set[int] = set()
        while True:
            if len(usable) < BORN:
                return Refusal("too few can be written as a phrasing")
            text = _draft(common, usable).markdown("method")
            if fault := self.files.fault(text):
                return Refusal(fault)
            if common.kind != "steps":
                return usable
            kept: list[Said] = []
            first: dict[str, bool] = {}  # by phrasing: whether no other reflex matches better
            again = False
            for each, phrase in usable:
                task = each.exemplar.task
                steps = self.files.plan(text, task)
                if steps is not None and plain(steps) != plain(each.exemplar.steps):
                    return Refusal("two of them have the same wording and other steps")
                if steps is not None and phrase not in first:
                    first[phrase] = self.files.among(text, task, self.active) is not None
                if steps is not None and first[phrase]:
                    kept.append((each, phrase))
                elif id(each) not in whole and (full := self._phrasing(each, common, whole=True)):
                    whole.add(id(each))
                    kept.append((each, full))
                    again = True
            if len(kept) == len(usable) and not again:
                return kept
            usable = kept

    def _claims(self, text: str, draft: Draft) -> str:
        """A stored task that a file would solve in another way; "" for none."""
        suspects: set[str] = set()
        most = SUSPECTS // min(len(draft.phrasings), SEARCHED)
        for phrase in draft.phrasings[:SEARCHED]:
            words = " ".join(re.sub(r"\{[^{}]*\}", " ", phrase).split())
            suspects |= {hit.id for hit in self.shelf.search(Solved, words, most)} if words else set()
        for tree in self.shelf.pick(Solved, sorted(suspects - set(draft.trees))):
            steps = self.files.plan(text, tree.exemplar.task)
            if steps is not None and plain(steps) != plain(tree.exemplar.steps):
                return f"it would match a task that was solved in another way: {tree.exemplar.task[:200]}"
        return ""


def _draft(common: Common, said: Sequence[Said], trees: tuple[str, ...] = ()) -> Draft:
    phrasings = tuple(dict.fromkeys(text for _, text in said))
    return Draft(common, phrasings, tuple(each for each, _ in said), trees=trees)


def _told(exemplar: Exemplar) -> str:
    return exemplar.model_dump_json(include={"task", "steps"})
