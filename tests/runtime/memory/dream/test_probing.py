from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from meaningful import MONDAY, STAGES, TALK, brain_in, night, say, tell

from runtime.memory.brain import Brain
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.nearness import FEW, Nearness
from runtime.memory.dream.probing import Probe, probe, verify
from runtime.memory.dream.stages import Dream, DreamRecord, Stage, StageResult
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Observation
from runtime.memory.store.moving import lines

WEEK = timedelta(days=7)


@pytest.fixture
def brain(tmp_path: Path) -> Brain:
    return brain_in(tmp_path)


# ---- what is found after ---------------------------------------------------------------------------------


def test_a_dream_that_finds_less_is_taken_back(tmp_path: Path) -> None:
    brain = brain_in(tmp_path, "sqlite")
    for number, name in enumerate(("heron", "walnut", "quartz", "saffron", "gondola", "thimble", "lantern")):
        tell(brain, f"The {name} of the {name} keeper number {number} was sold in {name} town.")
    Mind.of(brain).take_in()
    before = [row.id for kind in ("observation", "memory") for row in brain.shelf.rows(kind)]
    texts = {each.id: (each.text, each.memory) for each in brain.shelf.scan(Observation)}

    def reword(dream: Dream) -> StageResult:
        """A stage that words everything so that nobody finds it."""
        for each in list(dream.shelf.scan(Observation)):
            dream.shelf.put(each.model_copy(update={"text": "Nobody knows."}))
        return StageResult()

    stages = [
        Stage("probe", "a", "", probe),
        Stage("reword", "a", "", reword),
        Stage("verify", "a", "", verify),
    ]
    dreamer = Dreamer(brain, clock=lambda: MONDAY, stages=stages)
    done = [dreamer.do("d", stage.name) for stage in stages]
    dreamer.release()
    assert done[0].counts["found"] == 7 and done[2].counts == {
        "asked": 7,
        "before": 7,
        "found": 0,
        "worse": 1,
    }
    assert [row.id for kind in ("observation", "memory") for row in brain.shelf.rows(kind)] == before
    assert {each.id: (each.text, each.memory) for each in brain.shelf.scan(Observation)} == texts
    assert not brain.shelf.count(DreamRecord) and not brain.shelf.count(Probe)


@pytest.mark.night
def test_what_memories_are_made_of_is_as_well_found_and_the_dream_stays(tmp_path: Path) -> None:
    """Of what is said alike, a memory words little: the turns behind it are found by their own words."""
    brain = brain_in(tmp_path, "sqlite")
    rng = np.random.default_rng(1)
    words = ["".join(letters) for letters in rng.choice(list("bdfgklmnoprstuva"), (900, 6))]
    for thread in range(40):
        usual = [[words[k] for k in rng.integers(60, size=6)] for _ in range(10)]
        own = [words[60 + 2 * (thread * 10 + turn) :][:2] for turn in range(10)]
        turns = [("Ann", f"{' '.join([*usual[turn], *own[turn]])}.") for turn in range(10)]
        say(brain, turns, MONDAY + timedelta(hours=thread), f"talk {thread}")
    names = ("probe", "cluster", "create", "verify")
    dreamer = Dreamer(brain, clock=lambda: MONDAY + WEEK)
    dreamt = dreamer.dream("d", [STAGES[name] for name in names])
    assert dreamt.stages["create"].counts["made"] > 20
    counts = dreamt.stages["verify"].counts
    assert counts["asked"] == 48 and counts["worse"] == 0
    assert counts["found"] >= counts["before"] - 1


def test_a_dream_that_finds_as_much_stays_and_undo_restores_the_store(tmp_path: Path) -> None:
    brain = brain_in(tmp_path, "sqlite")
    say(brain, TALK, MONDAY, "talk")
    tell(brain, "The beehives on the roof of the library were checked by Clara.")
    night(brain)
    tell(brain, "The beehives on the roof of the library gave 14 jars of honey.", MONDAY + WEEK)
    Mind.of(brain).take_in()
    before = sorted(lines(brain.shelf))
    dreamer = Dreamer(brain, clock=lambda: MONDAY + 2 * WEEK)
    names = ("probe", "cluster", "refine", "create", "verify", "connect", "score", "abstract", "report")
    dreamt = dreamer.dream("d", [STAGES[name] for name in names])
    assert dreamt.stages["verify"].counts["worse"] == 0 and sorted(lines(brain.shelf)) != before
    dreamer.undo()
    assert sorted(lines(brain.shelf)) == before


# ---- nearness --------------------------------------------------------------------------------------------


def test_cells_find_nearly_what_looking_at_everything_finds() -> None:
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((60, 64)).astype(np.float32)
    rows = centres[rng.integers(60, size=2 * FEW)] + 0.7 * rng.standard_normal((2 * FEW, 64)).astype(
        np.float32
    )
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    near = Nearness([(str(number), row) for number, row in enumerate(rows)])
    hits = 0
    for row in rows[:200]:
        exact = {str(number) for number in np.argsort(-(rows @ row))[:5]}
        hits += len(exact & {id for id, _ in near.find(row, 5)})
    assert hits / 1000 > 0.9
