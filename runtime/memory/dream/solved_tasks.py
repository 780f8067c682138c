"""Phase p: how things are done. Neuron trees, decisions, problem types, methods, learned patterns."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from runtime.memory.dream.stages import Dream, StageResult, short
from runtime.memory.facts.records import stamp
from runtime.memory.learning.library import Library
from runtime.memory.learning.merging import Merging, Promotion
from runtime.memory.store import Shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.hebbian import cut_back, faded, without_weak
from runtime.memory.tasks.merging import Alias, absorb
from runtime.memory.tasks.method_births import BORN, operation
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.mitosis import fuse, split
from runtime.memory.tasks.recall import Outline
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Lesson, ProblemType
from runtime.workspace.workspace import state_of

COMPARED = 8
"""Trees of the same wording that one is compared with."""
EVENTS = 100
"""Decisions that are kept of a tree. Source: dream.md."""
RESTED = timedelta(days=30)
"""The time without a use after which a quarantined tree gets another chance."""
FADES = timedelta(days=30)
"""Between two times that synapses fade: a dream comes every few minutes."""
TYPED = 200
"""Trees that get a problem type in one dream."""
TRIED, OPERATIONS = 3, 40
"""Trees of one operation that a method is tried of, and operations, in one dream."""
SHOWN = 12
"""Things that a stage lists; the counts cover the rest."""
BATCH = 64
_NUMBER = re.compile(r"\d[\d,.]*")

# These patterns select trees by their JSON, before it is parsed. A key in quotes is never found inside a
# text, where quotes are escaped.
_WRONG = re.compile(r'"incorrect":\s*(?!0[,}\s])')
_WEAK = re.compile(r'"weight":\s*(?:0\.0[0-4]|\d[\d.]*e-)')
_JUDGED = re.compile(r'"(?:right|wrong)":\s*(?!0[,}\s])')


def merge_neurons(dream: Dream) -> StageResult:
    """Trees that are one procedure become one: those whose tasks have the same words."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    fresh: set[str] = set()
    for tree in _trees(dream):
        wording = _NUMBER.sub("#", " ".join(tree.exemplar.task.lower().split()))
        alike[operation(tree.exemplar), wording].append(tree.id)
        if _after(tree.created, dream.since):
            fresh.add(tree.id)
    did: list[str] = []
    for ids in alike.values():
        distinct: list[NeuronTree] = []
        trees = dream.shelf.pick(NeuronTree, ids) if len(ids) > 1 and fresh & {*ids} else []
        for tree in sorted(trees, key=lambda each: (each.created, each.id)):
            merged = tree
            if tree.id in fresh:
                merged = absorb(dream.shelf, tree, distinct[-COMPARED:], dream.brain.memory.words)
            if merged.id == tree.id:
                distinct.append(tree)
                continue
            distinct = [merged if each.id == merged.id else each for each in distinct]
            dream.shelf.delete(Outline, tree.id)
            did.append(f"{tree.id[:8]} became part of {merged.id[:8]}: {short(tree.text)}")
    return _result(did, merged=len(did))


def prune_synapses(dream: Dream) -> StageResult:
    """Remove weak synapses, and what depends on them alone."""
    return _trim(dream, _WEAK, without_weak)


def prune_branches(dream: Dream) -> StageResult:
    """Cut a branch that misled too often back to a stump that keeps the blame."""
    return _trim(dream, _JUDGED, cut_back)


def _trim(dream: Dream, may: re.Pattern[str], trim: Callable[[NeuronTree], NeuronTree]) -> StageResult:
    counts = {"trees": 0, "synapses": 0, "neurons": 0}
    for tree in _trees(dream, may):
        trimmed = trim(tree) if _after(tree.created, dream.since) else tree
        if trimmed.synapses != tree.synapses:
            dream.shelf.put(trimmed)
            counts["trees"] += 1
            counts["synapses"] += len(tree.synapses) - len(trimmed.synapses)
            counts["neurons"] += len(tree.neurons) - len(trimmed.neurons)
    return _result([], **counts)


def delete_weak_trees(dream: Dream) -> StageResult:
    """Forget what is in quarantine and was never right; the archive keeps it."""
    deleted = {tree.id: tree for tree in _quarantined(dream) if not tree.ledger.correct}
    dream.shelf.delete(NeuronTree, *deleted)
    dream.shelf.delete(Outline, *deleted)
    did = [f"{id[:8]} was never right: {short(tree.text)}" for id, tree in deleted.items()]
    return _result(did, deleted=len(deleted))


def rehabilitate(dream: Dream) -> StageResult:
    """Release what has been in quarantine for long and was right at least once."""
    candidates = [tree for tree in _quarantined(dream) if tree.ledger.correct]
    used = _last_used(dream.shelf) if candidates else {}
    did: list[str] = []
    for tree in candidates:
        last = _time(used.get(tree.id) or tree.created)
        if last is not None and dream.now - last >= RESTED:
            dream.shelf.put(tree.model_copy(update={"ledger": tree.ledger.released()}))
            did.append(f"{tree.id[:8]} may be used again: {short(tree.text)}")
    return _result(did, released=len(did))


def _quarantined(dream: Dream) -> list[NeuronTree]:
    return [tree for tree in _trees(dream, _WRONG) if tree.ledger.quarantined]


def _last_used(shelf: Shelf) -> dict[str, str]:
    """When each tree was last decided on, by the tree that it is part of now."""
    into = {each.id: each.into for each in shelf.scan(Alias)}
    used: dict[str, str] = {}
    for decision in shelf.scan(Decision):
        tree, visited = decision.tree, set[str]()
        while tree in into and tree not in visited:
            visited.add(tree)
            tree = into[tree]
        used[tree] = max(used.get(tree, ""), decision.at)
    return used


def prune_events(dream: Dream) -> StageResult:
    """Keep the newest decisions on each tree and method."""
    by: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for decision in dream.shelf.scan(Decision):
        if about := decision.tree or decision.method:
            by[about].append((decision.at, decision.id))
    old = [id for each in by.values() for _, id in sorted(each)[:-EVENTS]]
    for start in range(0, len(old), BATCH):
        dream.shelf.delete(Decision, *old[start : start + BATCH])
    return _result([], decisions=len(old))


def fade_synapses(dream: Dream, last: str) -> int:
    """Credit and blame of all trees fade by the time since they last did; returns how many trees changed."""
    since = _time(last)
    if since is not None and dream.now - since < FADES:
        return 0
    count = 0
    for tree in _trees(dream, _JUDGED):
        start = since or _time(tree.created)
        judged = any(each.right or each.wrong for each in tree.synapses)
        if judged and start is not None and dream.now - start >= FADES:
            days = (dream.now - start).total_seconds() / 86_400
            dream.shelf.put(faded(tree, days, hebbian=dream.brain.settings.parts.hebbian))
            count += 1
    return count


def mitosis(dream: Dream) -> StageResult:
    """Split a problem type with many neurons and little in common."""
    neurons: Counter[str] = Counter()
    of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tree in _trees(dream):
        neurons[tree.type] += len(tree.neurons)
        of[tree.type, tree.text].append(tree.id)
    splits = split(dream.shelf, dream.brain.embedder.name, neurons, stamp(dream.now))
    for part in splits:
        ids = [id for task in part.moved for id in of.get((part.kept, task), ())]
        for tree in dream.shelf.pick(NeuronTree, ids):
            dream.shelf.put(tree.model_copy(update={"type": part.made}))
    did = [f"{each.kept} keeps {each.sizes[0]} tasks, {each.made} has {each.sizes[1]}" for each in splits]
    return _result(did, split=len(splits))


def fusion(dream: Dream) -> StageResult:
    """Join two problem types whose tasks are as near to each other as to their own."""
    fused = fuse(dream.shelf, dream.brain.embedder.name, stamp(dream.now))
    into = {each.gone: each.kept for each in fused}
    for tree in _trees(dream) if into else ():
        if tree.type in into:
            dream.shelf.put(tree.model_copy(update={"type": into[tree.type]}))
    did = [f"{each.gone} became part of {each.kept}, {each.members} tasks" for each in fused]
    return _result(did, fused=len(fused))


def cluster_substrates(dream: Dream) -> StageResult:
    """Assign a problem type to trees without one, or with one that no longer exists."""
    brain = dream.brain
    types = {row.id for row in dream.shelf.rows(ProblemType.KIND)}
    waiting = [
        tree.id for tree in _trees(dream) if tree.type not in types and _after(tree.created, dream.since)
    ]
    some = waiting[:TYPED] if brain.settings.parts.types else []
    count = 0
    for start in range(0, len(some), BATCH):
        trees = dream.shelf.pick(NeuronTree, some[start : start + BATCH])
        lessons = [Lesson(tree.text, tree.vector(brain.embedder.name)) for tree in trees]
        typed = zip(trees, brain.types.learn_all(lessons, stamp(dream.now)), strict=True)
        dream.shelf.put(*(tree.model_copy(update={"type": type}) for tree, type in typed))
        count += len(trees)
    left = len(waiting) - len(some)
    return _result([f"{left} more are left to the next dream"] if left and some else [], typed=count)


def birth_methods(dream: Dream) -> StageResult:
    """Make a method where five solved tasks have one operation and none exists."""
    methods = dream.brain.methods
    if not dream.brain.settings.parts.methods:
        return _result([], born=0)
    before = {row.id for row in dream.shelf.rows(Method.KIND)}
    taken = {id for method in dream.shelf.scan(Method) for id in method.trees}
    free: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for tree in _trees(dream):
        if tree.id not in taken and not tree.ledger.quarantined:
            free[operation(tree.exemplar)].append((tree.created, tree.id))
    groups = [sorted(each, reverse=True) for each in free.values() if len(each) >= BORN]
    groups.sort(key=lambda each: (-len(each), each))
    for group in groups[:OPERATIONS]:
        fresh = [id for created, id in group if _after(created, dream.since)]
        for tree in dream.shelf.pick(NeuronTree, fresh[:TRIED]):
            if methods.consider(tree, tree.type):
                break
    born = sorted({row.id for row in dream.shelf.rows(Method.KIND)} - before)
    return _result([f"the method {name} was born" for name in born], born=len(born))


def compress_patterns(dream: Dream) -> StageResult:
    """Merge patterns that say the same, generalise many of a kind, drop the least certain."""
    did, counts = Merging(_library(dream), dream.brain.embedder).compress(dream.now)
    return StageResult(did, counts)


def promote(dream: Dream) -> StageResult:
    """Share what two agents, or three spaces, have used with success."""
    state = state_of(dream.brain.settings.folder)
    did = Promotion(dream.shelf, _library(dream), dream.brain.embedder, state).promote()
    return StageResult(did, {"promoted": len(did)})


def _library(dream: Dream) -> Library:
    settings = dream.brain.settings
    return Library(settings.folder / "patterns", systems=settings.systems, fsync=settings.config.fsync)


def _trees(dream: Dream, may: re.Pattern[str] | None = None) -> Iterator[NeuronTree]:
    """All trees as they are now, or those whose JSON matches."""
    rows = dream.shelf.rows(NeuronTree.KIND, vectors=False)
    ids = [row.id for row in rows if may is None or may.search(row.body)]
    for start in range(0, len(ids), BATCH):
        yield from dream.shelf.pick(NeuronTree, ids[start : start + BATCH])


def _after(at: str, since: str) -> bool:
    """Whether something came after; true without a time."""
    one, other = _time(at), _time(since)
    return one is None or other is None or one > other


def _time(text: str) -> datetime | None:
    """A stored time; None if it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _result(did: list[str], **counts: int) -> StageResult:
    more = [f"… and {len(did) - SHOWN} more"] if len(did) > SHOWN else []
    return StageResult([*did[:SHOWN], *more], counts)
