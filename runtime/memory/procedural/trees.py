"""Neuron trees: a solved task as a tree of neurons, with the procedure that solved it and what came of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel

from runtime.embedding import Embedder, Tokens
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.ledger import Ledger
from runtime.memory.procedural.stages import Standing, stage_of
from runtime.store import Record, pack

if TYPE_CHECKING:  # numpy comes with them, and a run that only notes what it taught needs none of it
    from runtime.embedding import Array
    from runtime.memory.procedural.segmentation import Segment

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1.0
"""Of a synapse. Source: memory.md."""
FINENESS = 100
"""Steps between 0 and 1 in which a vector is hashed: machines do not agree on its last bits."""


class Neuron(BaseModel):
    """A segment of the task: its id is the hash of its vector, `strength` counts what was merged into it."""

    id: str
    label: str
    depth: int
    start: int = 0  # the character at which the label first stands in the task
    strength: int = 1
    fingerprint: tuple[int, ...] = ()


class Synapse(BaseModel):
    """From a segment to one inside it, with what that was credited with (`right`) and blamed for (`wrong`).

    `weight` follows from `origin`, which segmentation gave, and from these two.
    """

    parent: str
    child: str
    weight: float
    origin: float = 0.0
    right: int | float = 0
    wrong: int | float = 0


def short(neuron: str) -> str:
    """A neuron's id as it is kept where there are many: it is one of a tree's."""
    return neuron[:8]


class NeuronTree(Record):
    """One solved task."""

    KIND: ClassVar[str] = "neuron-tree"

    exemplar: Exemplar
    neurons: tuple[Neuron, ...] = ()
    synapses: tuple[Synapse, ...] = ()
    ledger: Ledger = Ledger()
    standing: Standing | None = None  # None: nothing came of a use since standings are kept
    run: str = ""
    rung: str = ""
    created: str = ""
    calls: int = 0  # model calls that solving it took
    type: str = ""  # the id of its problem type

    @property
    def stands(self) -> Standing:
        """How far it is trusted; one that never had a standing stands where its ledger puts it."""
        return self.standing or Standing(stage=stage_of(self.ledger))


def tree_of(
    exemplar: Exemplar,
    embedder: Embedder,
    *,
    run: str = "",
    rung: str = "",
    at: str = "",
    segmented: bool = True,
) -> NeuronTree:
    """The neuron tree of a solved task; one that is not segmented has no neurons."""
    seen = embedder.embed_tokens(exemplar.task) if segmented else ()
    neurons, synapses = grown(exemplar.task, seen) if not isinstance(seen, tuple) and len(seen) else ((), ())
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
    from runtime.memory.procedural.segmentation import segment

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

    from runtime.memory.procedural.fingerprint import Fingerprint
    from runtime.memory.procedural.segmentation import label

    mean = seen.states[part.start : part.end].mean(axis=0, dtype=np.float64).astype(np.float32)
    name = neuron_id(mean)
    if name in neurons:
        neurons[name].strength += 1
    else:
        marks = tuple(sorted(Fingerprint.of(mean).signed))
        start = seen.spans[part.start][0]
        said = label(text, seen.spans, part)
        neurons[name] = Neuron(id=name, label=said, depth=depth, start=start, fingerprint=marks)
    children = [(child, *_grow(child, depth + 1, text, seen, neurons, synapses)) for child in part.children]
    pulls = [
        float(np.linalg.norm(vector - mean)) * (child.end - child.start) for child, _, vector in children
    ]
    whole = sum(pulls) or 1.0
    for (_, child_name, _), pull in zip(children, pulls, strict=True):
        weight = round(min(max(pull / whole, LEAST_WEIGHT), MOST_WEIGHT), 6)
        synapses.append(Synapse(parent=name, child=child_name, weight=weight, origin=weight))
    return name, mean
