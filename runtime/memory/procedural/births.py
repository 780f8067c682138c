"""Whether solved tasks make a method, and what it would say: everything is tried out before it is written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Protocol

from runtime.memory.procedural.alignment import Refusal, align
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.leaves import tokens, without_courtesies
from runtime.memory.procedural.ledger import Ledger
from runtime.memory.procedural.likeness import Common, Wording, calculates, common
from runtime.memory.procedural.parting import Variable, flat, parts
from runtime.memory.procedural.stages import plain
from runtime.memory.procedural.trees import NeuronTree
from runtime.memory.procedural.words import Words
from runtime.memory.procedural.writing import Wordings, markdown, phrasing
from runtime.store import Record, Shelf

BORN = 5
"""Exemplars that a method needs. Source: memory.md."""
MADE_FROM = 11
"""Exemplars that a method is made from besides the one that is looked at, the nearest of them."""
SUSPECTS = 128
"""Stored tasks that are tried, found by a phrasing's words: what it claims has all of them."""
SEARCHED = 4
"""Phrasings of a method by whose words is searched."""


class Solved(Record):
    """A stored tree without its neurons, which nothing here needs."""

    KIND: ClassVar[str] = NeuronTree.KIND

    exemplar: Exemplar
    ledger: Ledger = Ledger()


class Trier(Wordings, Protocol):
    """What tries a file out that is not written yet."""

    def fault(self, text: str) -> str:
        """What is wrong with it."""
        ...

    def plan(self, text: str, task: str) -> Sequence[Mapping[str, Any]] | None:
        """What it alone would plan."""
        ...

    def others(self, task: str, texts: Sequence[str] = ()) -> Sequence[Mapping[str, Any]] | None:
        """What the shipped reflexes, and these files, plan."""
        ...

    def among(self, text: str, task: str, texts: Sequence[str] = ()) -> Sequence[Mapping[str, Any]] | None:
        """What it plans when all are there; None when another one, or none, comes first."""
        ...


Said = tuple[Wording, str]
"""An exemplar with its phrasing."""


@dataclass(frozen=True)
class Draft:
    """A method that stood every trial."""

    common: Common
    phrasings: tuple[str, ...]
    shown: tuple[Wording, ...]
    others: tuple[str, ...]
    trees: tuple[str, ...]


def operation(exemplar: Exemplar) -> str:
    """The tools of a procedure and the names of their arguments, as a short key."""
    ways = [[way, step["tool"]] for step in exemplar.steps for way, _ in flat(step.get("args") or {})]
    told = json.dumps([[step["tool"] for step in exemplar.steps], ways])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def shape(exemplar: Exemplar) -> str:
    """The same with the fixed texts of the arguments; values of the task are open."""
    found = [token for token in tokens(exemplar.task) if token.leaf]
    leaves = [Variable(str(at), t.kind, t.value, t.unit, (t,)) for at, t in enumerate(found)]
    told: list[Any] = []
    for way, value in flat([step.get("args") or {} for step in exemplar.steps]):
        pieces = parts(value, leaves)
        fixed = [part.text if not part.place else part.place[0] for part in pieces]
        told.append([way, fixed])
    return json.dumps(told)


def born(
    this: Solved,
    near: Sequence[Solved],
    words: Words,
    files: Trier,
    shelf: Shelf,
    active: Sequence[str],
    unlike: Sequence[str],
) -> Draft | Refusal:
    """The method that a solved task makes with those near it that have its operation, or why there is none.

    `active` are the files of other methods, `unlike` tasks near it that were solved in another way.
    """
    found: Draft | Refusal = Refusal("too few are done in the same way")
    alike: list[Solved] = []
    if not calculates(this.exemplar):
        mine = shape(this.exemplar)
        alike = [each for each in near if shape(each.exemplar) == mine]
        if len(alike) + 1 >= BORN:
            found = _tried([this, *alike[:MADE_FROM]], words, files, shelf, active, unlike)
    if isinstance(found, Refusal) and len(alike) < len(near):
        read = without_courtesies(tokens(this.exemplar.task), words)
        varied = (each for each in near if aligns(read, each, words))
        aligned = list(islice(varied, MADE_FROM))
        if len(aligned) + 1 >= BORN and aligned != alike[:MADE_FROM]:
            found = _tried([this, *aligned], words, files, shelf, active, unlike)
    return found


def aligns(read: Sequence[Any], other: Solved, words: Words) -> bool:
    """Whether another task is a variation of the one that was read."""
    return not isinstance(align(read, without_courtesies(tokens(other.exemplar.task), words), words), Refusal)


def _tried(
    trees: Sequence[Solved],
    words: Words,
    files: Trier,
    shelf: Shelf,
    active: Sequence[str],
    unlike: Sequence[str],
) -> Draft | Refusal:
    found = common([each.exemplar for each in trees], words)
    if isinstance(found, Refusal):
        return found
    said = [(each, phrasing(each, found, files)) for each in found.wordings]
    usable = [(each, text) for each, text in said if text and (found.kind == "steps" or each.aligned)]
    if found.kind == "steps":
        usable = _uncovered(usable, files, active)
    if isinstance(usable, Refusal):
        return usable
    usable = _readable(found, usable, files, active)
    if isinstance(usable, Refusal):
        return usable
    phrasings = tuple(dict.fromkeys(text for _, text in usable))
    text = markdown("method", found, phrasings, [each for each, _ in usable], ())
    own = {_told(each.exemplar) for each, _ in usable}
    ids = tuple(tree.id for tree in trees if _told(tree.exemplar) in own)
    if found.kind == "steps" and (claims := _claims(text, phrasings, ids, files, shelf)):
        return Refusal(claims)
    others = tuple(task for task in unlike if files.plan(text, task) is None)
    return Draft(found, phrasings, tuple(each for each, _ in usable), others, ids)


def _told(exemplar: Exemplar) -> str:
    return exemplar.model_dump_json(include={"task", "steps"})


def _uncovered(said: Sequence[Said], files: Trier, active: Sequence[str]) -> list[Said] | Refusal:
    """Those that no reflex and no other method reads already."""
    looked: dict[str, bool] = {}  # one of each phrasing tells for all
    for each, text in said if len(said) >= BORN else ():
        if text not in looked:
            there = files.others(each.exemplar.task, active)
            if there is not None and plain(there) != plain(each.exemplar.steps):
                return Refusal("a reflex reads one of them in another way")
            looked[text] = there is not None
    return [(each, text) for each, text in said if not looked.get(text)]


def _readable(
    common: Common, said: Sequence[Said], files: Trier, active: Sequence[str]
) -> list[Said] | Refusal:
    """Those that come out of a file as they were solved; the others are left out of it."""
    usable = list(said)
    whole: set[int] = set()
    while True:
        if len(usable) < BORN:
            return Refusal("too few are left that a phrasing can tell")
        phrasings = tuple(dict.fromkeys(text for _, text in usable))
        text = markdown("method", common, phrasings, [each for each, _ in usable], ())
        if fault := files.fault(text):
            return Refusal(fault)
        if common.kind != "steps":
            return usable
        kept: list[Said] = []
        first: dict[str, bool] = {}  # of each phrasing: whether it comes before all reflexes
        again = False
        for each, phrase in usable:
            task = each.exemplar.task
            steps = files.plan(text, task)
            if steps is not None and plain(steps) != plain(each.exemplar.steps):
                return Refusal("two of them are said alike and were solved in different ways")
            if steps is not None and phrase not in first:
                first[phrase] = files.among(text, task, active) is not None
            if steps is not None and first[phrase]:
                kept.append((each, phrase))
            elif id(each) not in whole and (full := phrasing(each, common, files, whole=True)):
                whole.add(id(each))
                kept.append((each, full))
                again = True
        if len(kept) == len(usable) and not again:
            return kept
        usable = kept


def _claims(text: str, phrasings: Sequence[str], own: Sequence[str], files: Trier, shelf: Shelf) -> str:
    """What a file claims of stored tasks that were solved in another way."""
    suspects: set[str] = set()
    most = SUSPECTS // min(len(phrasings), SEARCHED)
    for phrase in phrasings[:SEARCHED]:
        words = " ".join(re.sub(r"\{[^{}]*\}", " ", phrase).split())
        suspects |= {hit.id for hit in shelf.search(Solved, words, most)} if words else set()
    for tree in shelf.pick(Solved, sorted(suspects - set(own))):
        steps = files.plan(text, tree.exemplar.task)
        if steps is not None and plain(steps) != plain(tree.exemplar.steps):
            return f"it would claim a task that was solved in another way: {tree.exemplar.task[:200]}"
    return ""
