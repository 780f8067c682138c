"""What each procedural stage of a dream does to a store, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from nights import NOW, OF_MEMORY, PROCEDURAL, brain_in, dreamer, exported, filled

from runtime.memory.brain import Brain
from runtime.memory.dream.stages import DreamRecord
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Member, ProblemType


@pytest.fixture(scope="module")
def dreamt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Brain, DreamRecord, dict[str, NeuronTree]]:
    brain = filled(tmp_path_factory.mktemp("dreamt"))
    before = {tree.id: tree for tree in brain.shelf.scan(NeuronTree)}
    return brain, dreamer(brain).dream("one", OF_MEMORY), before


def named(trees: dict[str, NeuronTree], begins: str) -> list[NeuronTree]:
    return [tree for tree in trees.values() if tree.exemplar.task.startswith(begins)]


def test_every_stage_has_something_to_do(dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]]) -> None:
    _, done, _ = dreamt
    assert list(done.stages) == PROCEDURAL
    assert [name for name, each in done.stages.items() if not each.changed] == []


def test_the_same_task_written_otherwise_is_one_tree(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, done, before = dreamt
    assert done.stages["merge-neurons"].counts == {"merged": 2}
    holds = {tree_by(brain.shelf, tree.id).id for tree in named(before, "A farmer")}  # pyright: ignore
    assert len(holds) == 1
    for tree in named(before, "A farmer"):
        found = brain.memory.recall(tree.text)
        assert found.steps == tree.exemplar.steps


def test_what_was_never_right_goes_and_what_rested_may_be_used_again(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, _, before = dreamt
    (flour,), (twins,) = named(before, "convert 12 pounds"), named(before, "add the ages")
    assert flour.ledger.quarantined
    assert brain.shelf.get(NeuronTree, flour.id) is None
    assert brain.memory.recall(flour.text).kind == "novel"
    now = brain.shelf.get(NeuronTree, twins.id)
    assert twins.ledger.quarantined
    assert now is not None and not now.ledger.quarantined
    assert (now.ledger.correct, now.ledger.incorrect) == (1, 3)


def test_the_newest_hundred_decisions_are_kept(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, done, _ = dreamt
    left = [each.id for each in brain.shelf.scan(Decision) if each.id.startswith("use-")]
    assert left == [f"use-{n:03}" for n in range(30, 130)]
    assert done.stages["prune-events"].counts == {"decisions": 30}


def test_a_branch_that_misled_is_cut_back_and_keeps_its_blame(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, _, before = dreamt
    (was,) = named(before, "what do 7 pens")
    now = brain.shelf.get(NeuronTree, was.id)
    assert now is not None
    bad = next(each.child for each in was.synapses if each.wrong)
    assert any(each.parent == bad for each in was.synapses)
    assert not any(each.parent == bad for each in now.synapses)
    (stump,) = [each for each in now.synapses if each.child == bad]
    assert 0 < stump.wrong < 3
    assert {each.child for each in now.synapses} | {now.neurons[0].id} == {each.id for each in now.neurons}
    assert not any(each.weight < 0.05 and not (each.right or each.wrong) for each in now.synapses)


def test_a_type_with_nothing_in_common_is_two(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, _, _ = dreamt
    types: dict[str, set[str]] = {}
    for member in brain.shelf.scan(Member):
        kind = member.text.partition(" ")[0]
        if kind in ("water", "file"):
            types.setdefault(kind, set()).add(member.type)
    assert types["water"] == {"mixed"}
    (new,) = types["file"]
    assert new != "mixed"
    assert {tree.type for tree in brain.shelf.scan(NeuronTree) if tree.text.startswith("file")} == {new}
    made, left = brain.shelf.pick(ProblemType, [new, "mixed"])
    assert (made.members, left.members) == (12, 15)


def test_two_types_that_became_alike_are_one(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, done, _ = dreamt
    assert done.stages["fusion"].counts == {"fused": 1}
    (kept,) = (each for each in brain.shelf.scan(ProblemType) if each.id in ("posts", "mails"))
    assert (kept.members, kept.uses) == (8, 4)
    members = [each for each in brain.shelf.scan(Member) if each.text[:5] in ("posts", "mails")]
    assert {each.type for each in members} == {kept.id}
    assert len(members) == 8


def test_every_tree_has_a_type_and_five_of_one_operation_a_method(
    dreamt: tuple[Brain, DreamRecord, dict[str, NeuronTree]],
) -> None:
    brain, _, _ = dreamt
    assert all(tree.type for tree in brain.shelf.scan(NeuronTree))
    assert any(len(method.trees) >= 5 for method in brain.shelf.scan(Method))
    assert any("note the figure" in each.description for each in brain.methods.listed())


def test_credit_and_blame_fade_once_a_month(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    stages = [stage for stage in OF_MEMORY if stage.name == "decay"]
    dreamer(brain).dream("one", stages)
    (tree,) = [each for each in brain.shelf.scan(NeuronTree) if each.text.startswith("what do 7 pens")]
    half = max(each.wrong for each in tree.synapses)
    days = (NOW.date() - NOW.date().replace(month=6, day=1)).days + NOW.hour / 24
    assert half == pytest.approx(3 * 0.5 ** (days / 90), rel=1e-3)
    before = exported(brain, dreams=False)
    dreamer(brain).dream("two", stages)
    assert exported(brain, dreams=False) == before


def test_a_second_dream_finds_nothing_to_do(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    dreamer(brain).dream("one", OF_MEMORY)
    once = exported(brain, dreams=False)
    again = dreamer(brain).dream("two", OF_MEMORY)
    assert {name: each.changed for name, each in again.stages.items() if each.changed} == {}
    assert exported(brain, dreams=False) == once


def test_an_empty_store_and_a_broken_row_are_left_as_they_are(tmp_path: Path) -> None:
    brain = brain_in(tmp_path)
    done = dreamer(brain).dream("one", OF_MEMORY)
    assert sum(each.changed for name, each in done.stages.items() if name != "merge-neurons") == 0
    brain = filled(tmp_path / "other")
    shelf = brain.shelf
    (tree,) = [each for each in shelf.scan(NeuronTree) if each.text.startswith("convert")]
    row = next(iter(shelf.keeper.read(NeuronTree.KIND, [tree.id]).values()))
    broken = type(row)(row.kind, "broken", '{"id": "broken", "exemplar": 3, "ledger": "x"}')
    torn = type(row)(row.kind, "torn", row.body[:100])
    shelf.keeper.begin()
    shelf.keeper.write([broken, torn])
    shelf.keeper.commit()
    dreamer(brain).dream("two", OF_MEMORY)
    left = shelf.keeper.read(NeuronTree.KIND, ["broken", "torn"])
    assert {id: each.body for id, each in left.items()} == {"broken": broken.body, "torn": torn.body}


def test_only_what_came_since_is_looked_at(tmp_path: Path) -> None:
    brain = filled(tmp_path)
    done = dreamer(brain).dream("one", OF_MEMORY, since="2026-11-19T12:00:00+00:00")
    assert done.stages["merge-neurons"].counts == {"merged": 0}
    assert done.stages["prune-branches"].changed == 0
