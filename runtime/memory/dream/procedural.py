"""The stages that work on how things are done: trees and synapses, decisions, problem types, methods."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime.memory.dream.stage import Dream, Told
from runtime.memory.procedural.births import BORN, operation
from runtime.memory.procedural.decisions import Decision
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.ledger import Ledger
from runtime.memory.procedural.merging import Alias, absorb
from runtime.memory.procedural.methods import Method
from runtime.memory.procedural.mitosis import split
from runtime.memory.procedural.pruning import cut_back, misled, weak, without_weak
from runtime.memory.procedural.recall import Outline
from runtime.memory.procedural.recognition import ProblemType
from runtime.memory.procedural.trees import NeuronTree
from runtime.memory.procedural.types import Lesson
from runtime.store import Shelf

COMPARED = 8
"""Trees of the same wording that one is compared with."""
EVENTS = 100
"""Decisions that are kept of a tree. Source: dream.md."""
RESTED = timedelta(days=30)
"""After so long without a use a quarantined tree gets another chance."""
TYPED = 200
"""Trees that are given a problem type in one dream."""
TRIED = 3
"""Trees of one operation that a method is tried to be made of, and of how many operations, in one dream."""
OPERATIONS = 40
SHOWN = 12
"""Things that a stage names one by one; the counts tell the rest."""
BATCH = 64
_NUMBER = re.compile(r"\d[\d,.]*")
_WRONG = re.compile(r'"incorrect":\s*(?!0[,}\s])')
_WEAK = re.compile(r'"weight":\s*(?:0\.0[0-4]|\d[\d.]*e-)')
JUDGED = re.compile(r'"(?:right|wrong)":\s*(?!0[,}\s])')
_TYPE = re.compile(r'"type":\s*"([^"]*)"')
_NEURON = re.compile(r'"fingerprint":')


# ---- trees -----------------------------------------------------------------------------------------------


def merge_neurons(dream: Dream) -> Told:
    """Trees that are one procedure become one: those whose tasks have the same words."""
    memory = dream.brain.memory
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    fresh: set[str] = set()
    for id, tree in trees_of(dream):
        exemplar = _exemplar(tree)
        alike[operation(exemplar), _wording(exemplar.task)].append(id)
        if _after(tree.get("created"), dream.since):
            fresh.add(id)
    did: list[str] = []
    for ids in alike.values():
        kept: list[NeuronTree] = []
        trees = dream.shelf.pick(NeuronTree, ids) if len(ids) > 1 and fresh & {*ids} else []
        for tree in sorted(trees, key=lambda each: (each.created, each.id)):
            held = absorb(dream.shelf, tree, kept[-COMPARED:], memory.words) if tree.id in fresh else tree
            if held.id == tree.id:
                kept.append(tree)
                continue
            kept = [held if each.id == held.id else each for each in kept]
            dream.shelf.delete(Outline, tree.id)
            did.append(f"{tree.id[:8]} became part of {held.id[:8]}: {_short(tree.text)}")
    return _told(did, merged=len(did))


def prune_synapses(dream: Dream) -> Told:
    """Synapses that hardly pull go, with what hangs on them alone."""
    return _trimmed(dream, _WEAK, lambda tree: weak(tree.get("synapses") or ()), without_weak)


def prune_branches(dream: Dream) -> Told:
    """A branch that misled too often is cut back to a stump that carries the blame."""

    def cut(tree: NeuronTree) -> NeuronTree:
        return cut_back(tree, misled([each.model_dump() for each in tree.synapses]))

    return _trimmed(dream, JUDGED, lambda tree: bool(misled(tree.get("synapses") or ())), cut)


def delete_weak_trees(dream: Dream) -> Told:
    """What is in quarantine and was never right is forgotten; the archive keeps it."""
    gone = [
        (id, str(tree.get("text", "")))
        for id, tree in trees_of(dream, _WRONG)
        if (ledger := _ledger(tree)) and ledger.quarantined and not ledger.correct
    ]
    ids = [id for id, _ in gone]
    dream.shelf.delete(NeuronTree, *ids)
    dream.shelf.delete(Outline, *ids)
    return _told([f"{id[:8]} was never right: {_short(text)}" for id, text in gone], deleted=len(gone))


def rehabilitate(dream: Dream) -> Told:
    """What has been in quarantine for long may be used again; but for what was never right at all."""
    held = [
        id
        for id, tree in trees_of(dream, _WRONG)
        if (ledger := _ledger(tree)) and ledger.quarantined and ledger.correct
    ]
    if not held:
        return _told([], released=0)
    used = _last_used(dream.shelf)
    did: list[str] = []
    for tree in dream.shelf.pick(NeuronTree, held):
        last = time_of(used.get(tree.id) or tree.created)
        if last is not None and dream.now - last >= RESTED:
            dream.shelf.put(tree.model_copy(update={"ledger": tree.ledger.released()}))
            did.append(f"{tree.id[:8]} may be used again: {_short(tree.text)}")
    return _told(did, released=len(did))


def prune_events(dream: Dream) -> Told:
    """Of the decisions on a tree or a method the newest are kept."""
    by: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in dream.shelf.rows(Decision.KIND):
        told = _read(row.body)
        about = told.get("tree") or told.get("method")
        if isinstance(about, str) and about:
            by[about].append((str(told.get("at", "")), row.id))
    old = [id for each in by.values() if len(each) > EVENTS for _, id in sorted(each)[:-EVENTS]]
    for start in range(0, len(old), BATCH):
        dream.shelf.delete(Decision, *old[start : start + BATCH])
    return _told([], decisions=len(old))


# ---- types and methods -----------------------------------------------------------------------------------


def mitosis(dream: Dream) -> Told:
    """A problem type with many neurons and little in common is split in two."""
    neurons: Counter[str] = Counter()
    of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in dream.shelf.rows(NeuronTree.KIND):
        type = _type_of(row.body)
        neurons[type] += len(_NEURON.findall(row.body))
        of[type, row.text].append(row.id)
    found = split(dream.shelf, dream.brain.embedder.name, neurons, _iso(dream.now))
    for each in found:
        ids = [id for task in each.moved for id in of.get((each.kept, task), ())]
        _retype(dream.shelf, ids, each.made)
    did = [f"{each.kept} keeps {each.sizes[0]} tasks, {each.made} has {each.sizes[1]}" for each in found]
    return _told(did, split=len(found))


def cluster_substrates(dream: Dream) -> Told:
    """Trees that have no problem type, or one that is gone, get one."""
    brain = dream.brain
    known = {row.id for row in dream.shelf.rows(ProblemType.KIND)}
    waiting = [
        id
        for id, tree in _few(dream, known)
        if tree.get("type") not in known and _after(tree.get("created"), dream.since)
    ]
    some = waiting[:TYPED] if brain.settings.parts.types else []
    count = 0
    for start in range(0, len(some), BATCH):
        trees = dream.shelf.pick(NeuronTree, some[start : start + BATCH])
        lessons = [Lesson(tree.text, tree.vector(brain.embedder.name)) for tree in trees]
        types = brain.types.learn_all(lessons, _iso(dream.now))
        typed = zip(trees, types, strict=True)
        dream.shelf.put(*(tree.model_copy(update={"type": type}) for tree, type in typed))
        count += len(trees)
    left = f"{len(waiting) - len(some)} more are left to the next dream"
    return _told([left] if len(waiting) > len(some) and some else [], typed=count)


def birth_methods(dream: Dream) -> Told:
    """Where five solved tasks have one operation and no method, one is tried to be made of them."""
    methods = dream.brain.methods
    if not dream.brain.settings.parts.methods:
        return _told([], born=0)
    before = {row.id for row in dream.shelf.rows(Method.KIND)}
    taken = {id for method in dream.shelf.scan(Method) for id in method.trees}
    free: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for id, tree in trees_of(dream):
        ledger = _ledger(tree)
        if id not in taken and not (ledger and ledger.quarantined):
            free[operation(_exemplar(tree))].append((str(tree.get("created", "")), id))
    groups = [sorted(each, reverse=True) for each in free.values() if len(each) >= BORN]
    groups.sort(key=lambda each: (-len(each), each))
    for group in groups[:OPERATIONS]:
        fresh = [id for created, id in group if _after(created, dream.since)]
        for tree in dream.shelf.pick(NeuronTree, fresh[:TRIED]):
            if methods.consider(tree, tree.type):
                break
    born = sorted({row.id for row in dream.shelf.rows(Method.KIND)} - before)
    return _told([f"the method {name} was born" for name in born], born=len(born))


# ---- inside ----------------------------------------------------------------------------------------------


def trees_of(dream: Dream, may: re.Pattern[str] | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All trees that can be read, without their model; `may` tells from the JSON which can be meant at all.

    What a stage changes is read whole afterwards. A key in quotes is never found inside a text: there quotes
    are escaped.
    """
    for row in dream.shelf.rows(NeuronTree.KIND):
        if may is None or may.search(row.body):
            told = _read(row.body)
            if isinstance(told.get("exemplar"), dict):
                yield row.id, told


def _few(dream: Dream, types: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The trees whose type is none of these."""
    for row in dream.shelf.rows(NeuronTree.KIND):
        if _type_of(row.body) not in types:
            told = _read(row.body)
            if isinstance(told.get("exemplar"), dict):
                yield row.id, told


def _type_of(body: str) -> str:
    """A tree's problem type; where a step has an argument of that name the whole is read."""
    found = _TYPE.findall(body)
    return found[0] if len(found) == 1 else str(_read(body).get("type") or "")


def _exemplar(tree: Mapping[str, Any]) -> Exemplar:
    """As much of an exemplar as its operation and its words are told by."""
    told = tree["exemplar"]
    steps = tuple(each for each in told.get("steps") or () if isinstance(each, dict) and "tool" in each)
    return Exemplar.model_construct(task=str(told.get("task", "")), steps=steps)


def _read(body: str) -> dict[str, Any]:
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # a broken row is left alone
    return told if isinstance(told, dict) else {}


def _ledger(tree: Mapping[str, Any]) -> Ledger | None:
    try:
        return Ledger.model_validate(tree.get("ledger") or {})
    except ValueError:
        return None


def _trimmed(
    dream: Dream,
    may: re.Pattern[str],
    needs: Callable[[Mapping[str, Any]], bool],
    trim: Callable[[NeuronTree], NeuronTree],
) -> Told:
    wanted = [
        id for id, tree in trees_of(dream, may) if _after(tree.get("created"), dream.since) and needs(tree)
    ]
    trees = synapses = neurons = 0
    for start in range(0, len(wanted), BATCH):
        for tree in dream.shelf.pick(NeuronTree, wanted[start : start + BATCH]):
            made = trim(tree)
            if made.synapses != tree.synapses:
                dream.shelf.put(made)
                trees += 1
                synapses += len(tree.synapses) - len(made.synapses)
                neurons += len(tree.neurons) - len(made.neurons)
    return _told([], trees=trees, synapses=synapses, neurons=neurons)


def _last_used(shelf: Shelf) -> dict[str, str]:
    """When each tree was decided on last, by the tree that holds it now."""
    into = {each.id: each.into for each in shelf.scan(Alias)}
    found: dict[str, str] = {}
    for row in shelf.rows(Decision.KIND):
        told = _read(row.body)
        tree, at = told.get("tree"), told.get("at")
        seen: set[str] = set()
        while isinstance(tree, str) and tree in into and tree not in seen:
            seen.add(tree)
            tree = into[tree]
        if isinstance(tree, str) and isinstance(at, str):
            found[tree] = max(found.get(tree, ""), at)
    return found


def _retype(shelf: Shelf, ids: Iterable[str], type: str) -> None:
    for tree in shelf.pick(NeuronTree, ids):
        shelf.put(tree.model_copy(update={"type": type}))


def _wording(task: str) -> str:
    """A task without its numbers."""
    return _NUMBER.sub("#", " ".join(task.lower().split()))


def _after(at: Any, since: str) -> bool:
    """Whether something came after; what has no time did."""
    if not since or not at:
        return True
    one, other = time_of(str(at)), time_of(since)
    return one is None or other is None or one > other


def time_of(text: str) -> datetime | None:
    """A time that was kept; None where it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _short(text: str) -> str:
    told = " ".join(text.split())
    return told if len(told) <= 80 else f"{told[:79]}…"


def _told(did: list[str], **counts: int) -> Told:
    more = [f"… and {len(did) - SHOWN} more"] if len(did) > SHOWN else []
    return Told([*did[:SHOWN], *more], counts)
