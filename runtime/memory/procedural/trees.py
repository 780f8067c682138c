"""Neuron trees: a solved task as a tree of neurons, with the procedure that solved it and what came of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel

from runtime.embedding import Embedder, Tokens
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.fingerprint import Fingerprint
from runtime.memory.procedural.segmentation import Segment, label, segment
from runtime.store import Record, pack

if TYPE_CHECKING:
    from runtime.embedding import Array

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1.0
"""Of a synapse. Source: memory.md."""
QUARANTINE_USES = 2
QUARANTINE_REJECTED = 0.6
"""A tree that is rejected more often than this, after so many uses, is not recalled. Source: memory.md."""
FINENESS = 100
"""Steps between 0 and 1 in which a vector is hashed: machines do not agree on its last bits."""


class Neuron(BaseModel):
    """A segment of the task: its id is the hash of its vector, `strength` counts what was merged into it."""

    id: str
    label: str
    depth: int
    strength: int = 1
    fingerprint: tuple[int, ...] = ()


class Synapse(BaseModel):
    """From a segment to one inside it."""

    parent: str
    child: str
    weight: float


class Ledger(BaseModel):
    """What came of the times that a procedure was used."""

    uses: int = 0
    correct: int = 0
    incorrect: int = 0

    @property
    def confidence(self) -> float:
        """How sure it is that the next use goes well: the mean of a Beta with one of each beforehand."""
        return (self.correct + 1) / (self.correct + self.incorrect + 2)

    @property
    def quarantined(self) -> bool:
        """Whether it failed too often to be used again before somebody has looked."""
        judged = self.correct + self.incorrect
        return judged >= QUARANTINE_USES and self.incorrect / judged > QUARANTINE_REJECTED

    def after(self, good: bool) -> Ledger:
        """The ledger with one more use."""
        return Ledger(uses=self.uses + 1, correct=self.correct + good, incorrect=self.incorrect + (not good))


class NeuronTree(Record):
    """One solved task."""

    KIND: ClassVar[str] = "neuron-tree"

    exemplar: Exemplar
    neurons: tuple[Neuron, ...] = ()
    synapses: tuple[Synapse, ...] = ()
    ledger: Ledger = Ledger()
    run: str = ""
    rung: str = ""
    created: str = ""


def tree_of(
    exemplar: Exemplar, embedder: Embedder, *, run: str = "", rung: str = "", at: str = ""
) -> NeuronTree:
    """The neuron tree of a solved task."""
    seen = embedder.embed_tokens(exemplar.task)
    neurons, synapses = grown(exemplar.task, seen) if len(seen) else ((), ())
    (whole,) = embedder.embed([exemplar.task])
    return NeuronTree(
        id=identity(exemplar),
        text=exemplar.task,
        vectors={embedder.name: pack(whole)},
        exemplar=exemplar,
        neurons=neurons,
        synapses=synapses,
        run=run,
        rung=rung,
        created=at,
    )


def identity(exemplar: Exemplar) -> str:
    """The same task solved in the same way has the same id."""
    return hashlib.sha256(exemplar.model_dump_json(include={"task", "steps"}).encode()).hexdigest()[:24]


def neuron_id(vector: Array) -> str:
    """The hash of a vector, the same on every machine: of its values in coarse steps."""
    import numpy as np

    steps = np.rint(np.asarray(vector, np.float64) * FINENESS)
    return hashlib.sha256(np.clip(steps, -32768, 32767).astype("<i2").tobytes()).hexdigest()[:24]


def grown(text: str, seen: Tokens) -> tuple[tuple[Neuron, ...], tuple[Synapse, ...]]:
    """The neurons and synapses of a task's token states."""
    root = segment(seen.states)
    neurons: dict[str, Neuron] = {}
    synapses: list[Synapse] = []
    _grow(root, 0, text, seen, neurons, synapses)
    return tuple(neurons.values()), tuple(synapses)


def _grow(
    part: Segment,
    depth: int,
    text: str,
    seen: Tokens,
    neurons: dict[str, Neuron],
    synapses: list[Synapse],
) -> tuple[str, Array]:
    import numpy as np

    mean = seen.states[part.start : part.end].mean(axis=0, dtype=np.float64).astype(np.float32)
    name = neuron_id(mean)
    if name in neurons:
        neurons[name].strength += 1
    else:
        marks = tuple(sorted(Fingerprint.of(mean).signed))
        neurons[name] = Neuron(id=name, label=label(text, seen.spans, part), depth=depth, fingerprint=marks)
    children = [(child, *_grow(child, depth + 1, text, seen, neurons, synapses)) for child in part.children]
    pulls = [
        float(np.linalg.norm(vector - mean)) * (child.end - child.start) for child, _, vector in children
    ]
    whole = sum(pulls) or 1.0
    for (_, child_name, _), pull in zip(children, pulls, strict=True):
        weight = min(max(pull / whole, LEAST_WEIGHT), MOST_WEIGHT)
        synapses.append(Synapse(parent=name, child=child_name, weight=weight))
    return name, mean
