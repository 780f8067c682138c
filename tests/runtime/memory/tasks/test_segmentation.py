"""Trajectory segmentation, sparse fingerprints, and the neurons that they give."""

from __future__ import annotations

import numpy as np

from runtime.memory.embed.lexical import Lexical
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.fingerprint import ACTIVE, Fingerprint
from runtime.memory.tasks.segmentation import Segment, grown, neuron_id, segment, tree_of

TASK = "Tom buys 3 boxes of apples for $8 each. How much does Tom pay in total?"


def test_a_segment_ends_where_the_running_mean_turns() -> None:
    states = np.zeros((12, 4), np.float32)
    states[:6, 0] = np.linspace(1, 2, 6)
    states[6:, 1] = np.linspace(8, 9, 6)
    assert segment(states, deepest=1) == Segment(0, 12, (Segment(0, 6), Segment(6, 12)))
    assert segment(states[:3]) == Segment(0, 3)


def test_a_fingerprint_keeps_the_strongest_dimensions_and_their_signs() -> None:
    vector = np.random.default_rng(1).standard_normal(384, np.float32)
    mark = Fingerprint.of(vector)
    assert len(mark.signed) == ACTIVE
    assert mark.similarity(Fingerprint.of(vector * 3)) == 1.0
    assert mark.similarity(Fingerprint.of(-vector)) == 0.0
    assert Fingerprint.of(np.zeros(8, np.float32)).similarity(mark) == 0.0


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
