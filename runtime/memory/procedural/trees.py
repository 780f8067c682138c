"""Neuron trees: a solved task as a tree of neurons, with the procedure that solved it and what came of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict

from runtime.embedding import Embedder, Tokens
from runtime.memory.procedural.exemplar import Exemplar
from runtime.store import Record, pack

if TYPE_CHECKING:  # numpy comes with them, and a run that only notes what it taught needs none of it
    from runtime.embedding import Array
    from runtime.memory.procedural.segmentation import Segment

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


class Ledger(BaseModel):
    """What came of the times that a procedure was used; a use counts as much as its judge is trusted."""

    model_config = ConfigDict(frozen=True)

    uses: int = 0
    correct: int | float = 0
    incorrect: int | float = 0
    forgiven: tuple[int, int | float, int | float] = (0, 0, 0)  # uses, correct, incorrect up to a release

    @property
    def confidence(self) -> float:
        """How sure it is that the next use goes well: the mean of a Beta with one of each beforehand."""
        return (self.correct + 1) / (self.correct + self.incorrect + 2)

    @property
    def quarantined(self) -> bool:
        """Whether it failed too often since its last release to be used again before somebody has looked."""
        uses, correct, incorrect = self.forgiven
        right, wrong = max(self.correct - correct, 0), max(self.incorrect - incorrect, 0)
        return self.uses - uses >= QUARANTINE_USES and rejected(right, wrong)

    def after(self, good: bool, trust: float = 1.0, uses: int = 1) -> Ledger:
        """The ledger with one more use, or with one taken back where `uses` is -1."""
        return self.model_copy(
            update={
                "uses": max(self.uses + uses, 0),
                "correct": more(self.correct, uses * trust * good),
                "incorrect": more(self.incorrect, uses * trust * (not good)),
            }
        )

    def released(self) -> Ledger:
        """The ledger out of quarantine: what came before no longer keeps the procedure in it."""
        return self.model_copy(update={"forgiven": (self.uses, self.correct, self.incorrect)})


def short(neuron: str) -> str:
    """A neuron's id as it is kept where there are many: it is one of a tree's."""
    return neuron[:8]


def rejected(right: float, wrong: float) -> bool:
    """Whether too large a share went wrong."""
    return right + wrong > 0 and wrong / (right + wrong) > QUARANTINE_REJECTED


def more(count: float, by: float) -> int | float:
    """A count with more or less in it: never below nothing, and whole where it is whole.

    Rounded, so that what is taken back later leaves nothing behind.
    """
    made = round(float(max(count + by, 0)), 6)
    return int(made) if made.is_integer() else made


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
    calls: int = 0  # model calls that solving it took


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
