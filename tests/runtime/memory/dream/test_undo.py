"""`dream undo` works whatever happened since, and loses neither words nor what was used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nights
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from meaningful import MONDAY, brain_in, say, tell

from kernel.errors import UsageError
from runtime.memory.brain import Brain
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.reverting import became, reverted
from runtime.memory.dream.stages import ALL
from runtime.memory.facts.graph import edges_of
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Edge, Links, Memory, Observation, stamp
from runtime.memory.store.moving import lines
from runtime.memory.store.record import Row
from runtime.memory.tasks.trees import NeuronTree

LATER = MONDAY + timedelta(days=3)
USES = ("accessed", "last_access", "last_score", "last_hop")
HIVES = "The beehives on the roof of the library"


def mind_at(brain: Brain, at: Any = LATER) -> Mind:
    return Mind.of(brain, clock=lambda: stamp(at))


def sleeper(brain: Brain, at: Any = MONDAY + timedelta(days=1)) -> Dreamer:
    return Dreamer(brain, clock=lambda: at)


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    """A memory with facts, a conversation, and work for most stages that word and link memories."""
    brain = brain_in(tmp_path, "sqlite")
    fill(brain)
    return brain


def fill(brain: Brain) -> None:
    mind = mind_at(brain, MONDAY - timedelta(days=9))
    known = mind.remember(f"{HIVES} were checked by Clara.").model_copy(update={"held": "event"})
    brain.shelf.put(known)
    for text in ("Clara likes honey.", "The library has a flat roof."):
        mind.link(known.id, mind.remember(text).id, text="for the test")
    talk = [
        ("Ann", "Where did you put the old telescope?"),
        ("Bob", "The old telescope is in the barn."),
    ]
    say(brain, talk, MONDAY, "talk")
    tell(brain, f"{HIVES} gave 14 jars of honey.", MONDAY)
    tell(brain, f"{HIVES} were painted blue.", MONDAY)


def records(brain: Brain) -> dict[tuple[str, str], dict[str, Any]]:
    """All records without what recalls leave: counters of use and the words that the search has read."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines(brain.shelf):
        record = json.loads(line)
        if record["kind"] not in ("passage", "type-stamp"):
            fields = {name: value for name, value in record.items() if name not in USES}
            found[record["kind"], record["id"]] = fields
    return found


def dreamt(brain: Brain) -> dict[tuple[str, str], dict[str, Any]]:
    """Dream; the records before it."""
    before = records(brain)
    sleeper(brain).dream("one", ALL)
    assert records(brain) != before
    return before


def use_all(brain: Brain) -> None:
    mind_at(brain).used({each.id: (0.7, 0) for each in brain.shelf.scan(Memory)})


def test_after_recalls_everything_is_restored_and_the_uses_are_kept(brain: Brain) -> None:
    mind_at(brain).used({each.id: (0.9, 0) for each in brain.shelf.scan(Memory)})
    before = dreamt(brain)
    use_all(brain)
    assert sleeper(brain).undo().left == ()
    assert records(brain) == before
    assert {each.accessed for each in brain.shelf.scan(Memory)} == {2}


def test_after_feedback_the_words_are_restored_and_the_feedback_counts(brain: Brain) -> None:
    before = dreamt(brain)
    known = next(each for each in brain.shelf.scan(Memory) if "Clara" in each.text and len(each.evidence) > 1)
    mind_at(brain).feedback(known.id, helpful=False)
    assert sleeper(brain).undo().left == ()
    after = records(brain)
    was, now = before.pop(("memory", known.id)), after.pop(("memory", known.id))
    assert after == before
    assert now["confidence"] == pytest.approx(was.pop("confidence") - 0.1)
    assert {name: now[name] for name in was} == was


def test_what_was_told_since_keeps_its_words_and_finds_its_place_again(brain: Brain) -> None:
    before = dreamt(brain)
    mind = mind_at(brain)
    made = [each for each in brain.shelf.scan(Memory) if ("memory", each.id) not in before]
    joined = mind.noting("The old telescope is in the barn now.", said="fact")
    mind.keep([joined])
    brain.shelf.put(
        made[0].model_copy(update={"evidence": (*made[0].evidence, joined.id)}),
        joined.model_copy(update={"memory": made[0].id}),
    )
    own = mind.remember("Dora moved to Ghent.")
    mind.link(own.id, made[0].id, text="since")
    past = mind.remember("The barn is red.")
    brain.shelf.put(past.model_copy(update={"superseded": made[0].id, "until": stamp(LATER)}))
    assert sleeper(brain).undo().left == ()
    assert brain.shelf.get(Memory, made[0].id) is None
    assert brain.shelf.check() == []
    ids = {each.id for each in brain.shelf.scan(Memory)}
    assert all({edge.source, edge.target} <= ids for edge in brain.shelf.scan(Edge))
    after = records(brain)
    assert {key: after[key] for key in before if key[0] == "observation"} == {
        key: value for key, value in before.items() if key[0] == "observation"
    }
    kept = brain.shelf.get(Memory, past.id)
    assert kept and not kept.superseded and not kept.until and brain.shelf.get(Memory, own.id)
    mind.take_in()
    placed = brain.shelf.get(Observation, joined.id)
    assert placed and placed.memory != made[0].id
    assert not placed.memory or brain.shelf.get(Memory, placed.memory)


def test_edges_that_were_made_since_stay(brain: Brain) -> None:
    dreamt(brain)
    mind = mind_at(brain)
    known = next(each for each in brain.shelf.scan(Memory) if "Clara" in each.text)
    new = mind.remember("Queen bees live for years.")
    edge = mind.link(new.id, known.id, text="since")
    sleeper(brain).undo()
    assert edge.id in [each.id for each in edges_of(brain.shelf, [known.id])[known.id]]


def test_after_another_dream_both_are_taken_back_one_by_one(brain: Brain) -> None:
    before = dreamt(brain)
    use_all(brain)
    tell(brain, f"{HIVES} were sold to Karl.", LATER)
    between = records(brain)
    sleeper(brain, LATER + timedelta(days=9)).dream("two", ALL)
    use_all(brain)
    assert sleeper(brain).undo().dream == "two"
    assert records(brain) == between
    assert sleeper(brain).undo().dream == "one"
    after = records(brain)
    assert {key: after[key] for key in before} == before
    assert len([key for key in after if key[0] == "memory"]) == len(
        [key for key in before if key[0] == "memory"]
    )


def test_after_a_crash_in_the_middle_of_a_dream(tmp_path: Path) -> None:
    brain = brain_in(tmp_path / "memory", "sqlite")
    fill(brain)
    before = records(brain)
    brain.close()
    assert nights.killed(tmp_path, "sqlite", "dream", "connect", "end")
    brain = brain_in(tmp_path / "memory", "sqlite")
    use_all(brain)
    assert sleeper(brain).undo().left == ()
    assert records(brain) == before
    with pytest.raises(UsageError, match="no dream"):
        sleeper(brain).undo()


def test_what_was_forgotten_since_is_not_brought_back(brain: Brain) -> None:
    dreamt(brain)
    gone = next(iter(brain.shelf.scan(Observation)))
    brain.shelf.delete(Observation, gone.id)
    assert sleeper(brain).undo().left == (f"observation {gone.id}",)
    assert brain.shelf.get(Observation, gone.id) is None


SUBJECTS = st.sampled_from(["The manual", "The book", "My sister", "The nitrate", "Clara", "The ferry"])
DOES = st.sampled_from(["has", "needs", "is three times", "left on", "no longer has", "costs"])
WHAT = st.sampled_from(
    ["240 chapters", "240 pages", "Monday", "as high as normal", "a blue boat", "12 euros"]
)
SAID = st.tuples(
    st.builds("{} {} {}".format, SUBJECTS, DOES, WHAT), st.sampled_from(["fact", "turn", "told"])
)
SINCE = st.sampled_from(["use", "feedback", "nothing"])


def put_in(brain: Brain, said: list[tuple[str, str]]) -> None:
    for n, (text, how) in enumerate(said):
        at = MONDAY + timedelta(days=n - 9)
        if how == "told":
            mind_at(brain, at).remember(text)
        elif how == "fact":
            tell(brain, text, at, said="fact")
        else:
            tell(brain, text, at, said="turn", who="Ann", thread="talk", turn=n)


@settings(max_examples=examples(50), deadline=None)
@given(said=st.lists(SAID, min_size=2, max_size=9), since=SINCE, told=st.lists(SAID, max_size=2))
def test_a_dream_and_its_undo_lose_nothing(
    said: list[tuple[str, str]], since: str, told: list[tuple[str, str]]
) -> None:
    with TemporaryDirectory() as place:
        brain = brain_in(Path(place))
        put_in(brain, said)
        before = records(brain)
        sleeper(brain).dream("one", ALL)
        words = {text for text, _ in said}
        assert words <= {each.text for each in brain.shelf.scan(Observation)}
        for memory in list(brain.shelf.scan(Memory)):
            if since == "use":
                mind_at(brain).used({memory.id: (0.5, 1)})
            elif since == "feedback":
                mind_at(brain).feedback(memory.id, helpful=True)
        if since != "feedback" and not told:
            sleeper(brain).undo()
            assert records(brain) == before
            return
        put_in(brain, told)
        sleeper(brain).undo()
        assert words | {text for text, _ in told} <= {each.text for each in brain.shelf.scan(Observation)}
        after = records(brain)
        assert {key for key in before if key[0] in ("observation", "memory")} <= set(after)
        assert all(after[key]["text"] == value["text"] for key, value in before.items() if key[0] == "memory")


# ---- one row ---------------------------------------------------------------------------------------------


def row(kind: str, fields: Mapping[str, Any]) -> Row:
    return Row(kind, "x", json.dumps(fields))


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        ({"uses": 3}, {"uses": 8}, {"uses": 9}, {"uses": 4}),
        ({"confidence": 0.8}, {"confidence": 0.95}, {"confidence": 0.2}, {"confidence": 0.05}),
        ({"e": [1, 2]}, {"e": [1, 2, 3]}, {"e": [1, 2, 3, 4]}, {"e": [1, 2, 4]}),
        ({"e": [1, 2]}, {"e": [2]}, {"e": [2, 5]}, {"e": [1, 2, 5]}),
        ({"t": "a"}, {"t": "b"}, {"t": "c"}, {"t": "c"}),
        ({"t": "a"}, {"t": "b"}, {"t": "b", "n": 1}, {"t": "a", "n": 1}),
        ({"d": {"u": 1}}, {"d": {"u": 4, "v": 1}}, {"d": {"u": 5, "v": 1}}, {"d": {"u": 2}}),
        (
            {"s": [{"parent": "o", "child": "p", "w": 0.4}, {"parent": "o", "child": "q", "w": 0.01}]},
            {"s": [{"parent": "o", "child": "p", "w": 0.2}]},
            {"s": [{"parent": "o", "child": "p", "w": 0.3}]},
            {"s": [{"parent": "o", "child": "p", "w": 0.5}, {"parent": "o", "child": "q", "w": 0.01}]},
        ),
    ],
)
def test_a_row_loses_what_the_dream_did_and_keeps_the_rest(
    before: Any, after: Any, now: Any, expected: Any
) -> None:
    old = row("any", before)
    result = reverted(old, became(old, row("any", after)), row("any", now))
    assert result and json.loads(result.body) == expected


def test_links_of_a_memory_that_a_dream_made_keep_only_what_came_since() -> None:
    made, now = row(Links.KIND, {"edges": ["a", "b"]}), row(Links.KIND, {"edges": ["a", "b", "c"]})
    result = reverted(None, became(None, made), now)
    assert result and json.loads(result.body) == {"edges": ["c"]}
    assert reverted(None, became(None, made), made) is None


# ---- solved tasks ----------------------------------------------------------------------------------------


def test_solved_tasks_keep_what_they_were_used_for_since(tmp_path: Path) -> None:
    brain = nights.filled(tmp_path)
    before = {tree.id: tree for tree in brain.shelf.scan(NeuronTree)}
    nights.dreamer(brain).dream("one", ALL)
    used = list(brain.shelf.scan(NeuronTree))
    assert len(used) < len(before)
    for tree in used:
        ledger = tree.ledger.model_copy(update={"uses": tree.ledger.uses + 1})
        brain.shelf.put(tree.model_copy(update={"ledger": ledger}))
    assert nights.dreamer(brain).undo().left == ()
    after = {tree.id: tree for tree in brain.shelf.scan(NeuronTree)}
    ids = {tree.id for tree in used}
    assert {id: tree.ledger.uses - (id in ids) for id, tree in after.items()} == {
        id: tree.ledger.uses for id, tree in before.items()
    }
    assert {id: tree.synapses for id, tree in after.items()} == {
        id: tree.synapses for id, tree in before.items()
    }


def test_a_task_that_was_solved_since_stays(tmp_path: Path) -> None:
    brain = nights.filled(tmp_path)
    before = {tree.id for tree in brain.shelf.scan(NeuronTree)}
    nights.dreamer(brain).dream("one", ALL)
    new = brain.memory.learn(nights.tally("fresh.md", "new.txt"), at=nights.RECENT)
    nights.dreamer(brain).undo()
    assert {tree.id for tree in brain.shelf.scan(NeuronTree)} == {*before, new.id}
    assert brain.shelf.check() == []
    assert brain.memory.learn(nights.tally("again.md", "new.txt"), at=nights.RECENT)
