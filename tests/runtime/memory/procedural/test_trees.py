"""Neuron trees: their ids."""

from __future__ import annotations

import numpy as np

from runtime.embedding.lexical import Lexical
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.trees import grown, neuron_id, tree_of

TASK = "Tom buys 3 boxes of apples for $8 each. How much does Tom pay in total?"


def test_the_last_bits_of_a_vector_do_not_change_its_neurons() -> None:
    seen = Lexical().embed_tokens(TASK)
    for towards in (-np.inf, np.inf):
        other = np.nextafter(seen.states, np.float32(towards), dtype=np.float32)
        assert [each.id for each in grown(TASK, type(seen)(seen.spans, other))[0]] == [
            each.id for each in grown(TASK, seen)[0]
        ]
    zero = np.zeros(8, np.float32)
    assert neuron_id(zero) == neuron_id(-zero)


def test_the_neurons_of_a_task_have_different_ids() -> None:
    tree = tree_of(Exemplar(task=TASK, steps=({"tool": "calc", "args": {"expression": "3*8"}},)), Lexical())
    assert len(tree.neurons) > 3
    assert len({each.id for each in tree.neurons}) == len(tree.neurons)
    assert {synapse.child for synapse in tree.synapses} <= {each.id for each in tree.neurons}
