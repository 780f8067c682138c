"""Neuron trees: a solved task as a tree of neurons, with its procedure and how that fared."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from pydantic import BaseModel

from runtime.memory.store import Record
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.ledger import Ledger, Standing, stage_of

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1.0
"""Of a synapse. Source: seed 000_39bad3da279292ba, "Hebbian Plasticity"."""


class Neuron(BaseModel):
    """A segment of the task: its id is the hash of its vector, `strength` counts what was merged into it."""

    id: str
    label: str
    depth: int
    start: int = 0  # the first character of the label in the task
    strength: int = 1
    fingerprint: tuple[int, ...] = ()


class Synapse(BaseModel):
    """From a segment to a segment inside it, with its credit (`right`) and blame (`wrong`)."""

    parent: str
    child: str
    weight: float
    origin: float = 0.0  # the weight from segmentation
    right: int | float = 0
    wrong: int | float = 0


class NeuronTree(Record):
    """One solved task."""

    KIND: ClassVar[str] = "neuron-tree"

    exemplar: Exemplar
    neurons: tuple[Neuron, ...] = ()
    synapses: tuple[Synapse, ...] = ()
    ledger: Ledger = Ledger()
    standing: Standing | None = None  # None: not used since standings are kept
    run: str = ""
    rung: str = ""
    maker: str = ""  # the rung with its address, where it has one of its own
    evidence: str = ""  # `person`: one planned, approved or checked it
    mark: str = ""  # of this user, see `makers`
    created: str = ""
    calls: int = 0  # model calls that solving it took
    type: str = ""  # the id of its problem type

    @property
    def stands(self) -> Standing:
        """How far it is trusted."""
        return self.standing or Standing(stage=stage_of(self.ledger))


def short(neuron: str) -> str:
    """A neuron's id, shortened: it is unique within a tree."""
    return neuron[:8]


def identity(exemplar: Exemplar) -> str:
    """The id of a tree: the same task solved in the same way has the same id."""
    return hashlib.sha256(exemplar.model_dump_json(include={"task", "steps"}).encode()).hexdigest()[:24]
