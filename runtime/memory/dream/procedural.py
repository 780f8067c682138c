"""The stages that work on how things are done: trees and synapses, decisions, problem types, methods."""

from __future__ import annotations

from collections import defaultdict

from runtime.memory.dream.stage import Dream, Told
from runtime.memory.procedural.births import Solved, operation
from runtime.memory.procedural.leaves import tokens, without_courtesies
from runtime.memory.procedural.merging import absorb
from runtime.memory.procedural.recall import Outline
from runtime.memory.procedural.trees import NeuronTree
from runtime.memory.procedural.words import Words

COMPARED = 8
"""Trees of the same wording that one is compared with."""


def merge_neurons(dream: Dream) -> Told:
    """Trees that are one procedure become one: those whose tasks have the same words, and other values."""
    memory = dream.brain.memory
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tree in dream.shelf.scan(Solved):
        alike[operation(tree.exemplar), _wording(tree.exemplar.task, memory.words)].append(tree.id)
    did: list[str] = []
    for ids in alike.values():
        kept: list[NeuronTree] = []
        trees = dream.shelf.pick(NeuronTree, ids) if len(ids) > 1 else []
        for tree in sorted(trees, key=lambda each: (each.created, each.id)):
            held = absorb(dream.shelf, tree, kept[-COMPARED:], memory.words)
            if held.id == tree.id:
                kept.append(tree)
                continue
            kept = [held if each.id == held.id else each for each in kept]
            dream.shelf.delete(Outline, tree.id)
            did.append(f"{tree.id[:8]} became part of {held.id[:8]}: {' '.join(tree.text.split())[:80]}")
    return Told(did, {"merged": len(did)})


def _wording(task: str, words: Words) -> str:
    """A task without its values."""
    read = without_courtesies(tokens(task), words)
    return " ".join(f"<{each.kind}{each.unit}>" if each.leaf else each.low for each in read)
