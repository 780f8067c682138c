"""Trajectory segmentation: splits a task's token states into a tree of neurons.

The running mean of the states is a trajectory; where its direction changes, a segment ends. Source: seed
000_39bad3da279292ba, "Trajectory Segmentation Algorithm".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from runtime.memory.embed import Embedder, Tokens
from runtime.memory.store import pack
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.fingerprint import Fingerprint
from runtime.memory.tasks.trees import LEAST_WEIGHT, MOST_WEIGHT, Neuron, NeuronTree, Synapse, identity

Array = np.ndarray[Any, np.dtype[np.float32]]

SIGMA = 1.0
"""A segment ends where the cosine of two deltas is so many standard deviations below the mean."""
LEAST = 2
"""Tokens of the shortest segment."""
DEEPEST = 4
"""Levels of the tree below its root."""
FINENESS = 100
"""Steps between 0 and 1 to which a vector is rounded for its hash: machines differ in the last bits."""


@dataclass(frozen=True)
class Segment:
    """Tokens `start` up to `end` of a task, and the segments inside it."""

    start: int
    end: int
    children: tuple[Segment, ...] = field(default=())


def segment(states: Array, start: int = 0, *, deepest: int = DEEPEST) -> Segment:
    """The tree of segments of `states`, shape (tokens, dimensions); the first is token `start`."""
    states = np.asarray(states, np.float32)
    cuts = _turns(states) if deepest > 0 and len(states) >= 2 * LEAST else []
    parts = pairwise([0, *cuts, len(states)]) if cuts else ()
    children = (segment(states[a:b], start + a, deepest=deepest - 1) for a, b in parts)
    return Segment(start, start + len(states), tuple(children))


def _turns(states: Array) -> list[int]:
    """The tokens at which the running mean changes its direction most."""
    counts = np.arange(1, len(states) + 1, dtype=np.float32)[:, None]
    deltas = np.diff(np.cumsum(states, axis=0) / counts, axis=0)
    norms = np.linalg.norm(deltas, axis=1)
    both = norms[:-1] * norms[1:]
    if not len(both):
        return []
    cosines = np.einsum("ij,ij->i", deltas[:-1], deltas[1:]) / np.where(both > 0, both, 1)
    threshold = float(cosines.mean() - SIGMA * cosines.std())
    cuts: list[int] = []
    for at in np.flatnonzero(cosines < threshold):
        place = int(at) + 2  # deltas[at + 1] added token at + 2 to the mean
        if place - (cuts[-1] if cuts else 0) >= LEAST and len(states) - place >= LEAST:
            cuts.append(place)
    return cuts


def tree_of(exemplar: Exemplar, embedder: Embedder, *, segmented: bool = True) -> NeuronTree:
    """The neuron tree of a solved task; without neurons if it is not segmented."""
    seen = embedder.embed_tokens(exemplar.task) if segmented else None
    neurons, synapses = grown(exemplar.task, seen) if seen is not None and len(seen) else ((), ())
    vectors = {embedder.name: pack(embedder.embed([exemplar.task])[0])}
    return NeuronTree(
        id=identity(exemplar),
        text=exemplar.task,
        vectors=vectors,
        exemplar=exemplar,
        neurons=neurons,
        synapses=synapses,
    )


def neuron_id(vector: Array) -> str:
    """The hash of a rounded vector, the same on every machine."""
    steps = np.rint(np.asarray(vector, np.float64) * FINENESS)
    return hashlib.sha256(np.clip(steps, -32768, 32767).astype("<i2").tobytes()).hexdigest()[:24]


def grown(text: str, seen: Tokens) -> tuple[tuple[Neuron, ...], tuple[Synapse, ...]]:
    """The neurons and synapses of a task's token states; parents come first.

    A synapse weighs the distance of the child's mean from the parent's times the child's tokens, relative to
    all children.
    """
    neurons: dict[str, Neuron] = {}
    synapses: list[Synapse] = []

    def grow(part: Segment, depth: int) -> tuple[str, Array]:
        mean = seen.states[part.start : part.end].mean(axis=0, dtype=np.float64).astype(np.float32)
        name = neuron_id(mean)
        if name in neurons:
            neurons[name].strength += 1
        else:
            start, end = seen.spans[part.start][0], seen.spans[part.end - 1][1]
            marks = tuple(sorted(Fingerprint.of(mean).signed))
            neurons[name] = Neuron(
                id=name, label=text[start:end], depth=depth, start=start, fingerprint=marks
            )
        children = [(child, *grow(child, depth + 1)) for child in part.children]
        pulls = [float(np.linalg.norm(v - mean)) * (child.end - child.start) for child, _, v in children]
        whole = sum(pulls) or 1.0
        for (_, child, _), pull in zip(children, pulls, strict=True):
            weight = round(min(max(pull / whole, LEAST_WEIGHT), MOST_WEIGHT), 6)
            synapses.append(Synapse(parent=name, child=child, weight=weight, origin=weight))
        return name, mean

    grow(segment(seen.states), 0)
    return tuple(neurons.values()), tuple(synapses)
