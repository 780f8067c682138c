"""Trials of proposals, entries and patterns on real sample tasks, with a model that follows its prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, plan
from workshop_place import Place

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.api.sample_runs import player
from runtime.evolution.adoption import Adoption, ChangeTrials, SampleTasks
from runtime.evolution.trials import Trials
from runtime.memory.learning.patterns import Pattern
from runtime.models.scripted import Scripted

SETTINGS = {"sandbox": "off", "model": "reflex", "embedder": "lexical", "fsync": False}
ADVICE = Pattern(
    "look-first", "Edit the file only after CAREFUL reading.", types=("general",), confidence=0.9
)
TASKS = 5


def follower(word: str, *, good: bool = True) -> Scripted:
    """A model that does a task well where the word stands in its prompt, or where it does not."""

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": str(ask.document.steps[1].result)}
        well = (word in prompt_text(ask)) is good
        return plan({"tool": "read", "args": {"path": "a.txt" if well else "b.txt"}})

    return Scripted(answer)


@pytest.fixture
def sampled(place: Place) -> Place:
    """A workspace with sample tasks of its own, and none of the shipped tools'."""
    for n in range(TASKS):
        place.put(
            f"samples/task-{n}.md",
            f'---\nname: task-{n}\ndescription: read\nsample:\n  task: "edit what the file {n} says"\n'
            f'  files: {{a.txt: "right {n}\\n", b.txt: "wrong\\n"}}\n  shows: "right {n}"\n---\n',
        )
    return place


def trying(place: Place, model: Scripted, **more: Any) -> tuple[ChangeTrials, Fractal]:
    fractal = Fractal(place.folder, settings=SETTINGS, ladder=Ladder((model,)))
    fractal.workshop.open()
    catalogue = fractal.catalogue()
    for name in [name for name, tool in catalogue.tools.items() if tool.guided]:
        del catalogue.tools[name]
    shop = fractal.workshop
    trials = Trials(fractal.workspace.state / "memory" / "trials")
    tasks = SampleTasks(shop.workspace, catalogue, player(fractal), None)
    return ChangeTrials(shop.journal, tasks, trials, **more), fractal


def test_a_pattern_that_helps_is_adopted_and_the_trial_is_kept(sampled: Place, tmp_path: Path) -> None:
    room, fractal = trying(sampled, follower("CAREFUL"))
    draft = tmp_path / "look-first.md"
    draft.write_text(
        "---\ntask types: [general]\nconfidence: 0.9\n---\n# Look first\n\nOnly after CAREFUL reading.\n"
    )
    made = asyncio.run(room.pattern(fractal.memory.library, str(draft)))
    assert (made.compared.counts, made.did) == ((TASKS, 0, TASKS), "is adopted")
    assert fractal.memory.library.get("look-first") is not None
    assert room.trials.all() == [made]
    assert all(calls[0] > 0 for calls in (pair.calls for pair in made.compared.pairs))


def test_a_pattern_that_harms_is_switched_off_and_one_that_does_nothing_stays(sampled: Place) -> None:
    room, fractal = trying(sampled, follower("CAREFUL", good=False))
    library = fractal.memory.library
    library.add(ADVICE)
    library.add(Pattern("idle", "Mind the gap.", types=("general",)))
    idle = asyncio.run(room.pattern(library, "idle"))
    assert (idle.compared.finding, idle.did) == ("undecided", "stays as it is")
    made = asyncio.run(room.pattern(library, "look-first"))
    assert (made.compared.finding, made.did) == ("worse", "is switched off")
    found = library.get("look-first")
    assert found is not None
    assert not found.active


def test_a_dry_run_only_says_what_it_found(sampled: Place) -> None:
    room, fractal = trying(sampled, follower("CAREFUL", good=False), dry_run=True)
    fractal.memory.library.add(ADVICE)
    made = asyncio.run(room.pattern(fractal.memory.library, "look-first"))
    assert (made.compared.finding, made.did) == ("worse", "stays as it is")
    found = fractal.memory.library.get("look-first")
    assert found is not None
    assert found.active


def test_an_entry_that_does_worse_is_taken_back(sampled: Place) -> None:
    room, fractal = trying(sampled, follower("MUDDLE", good=False))
    muddled = "# TURN\nMUDDLE.\n"
    sampled.put("phases/turn.md", muddled)
    (entry,) = [each for each in fractal.workshop.journal.notice() if each.unit == "phases/turn"] or [
        each for each in fractal.workshop.journal.entries() if "turn" in each.unit
    ]
    made = asyncio.run(room.entry(entry.id))
    assert (made.kind, made.compared.finding, made.did) == ("phase", "worse", "is rolled back")
    assert not (sampled.system / "phases" / "turn.md").exists()


def adoption(place: Place, fractal: Fractal, room: ChangeTrials, tmp_path: Path, text: str) -> Adoption:
    path = tmp_path / "handed" / "phases" / "turn.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    shop = fractal.workshop
    made = shop.proposals.hand_in(fractal.systems, [path], why="better")
    return Adoption(shop.journal, shop.proposals, made, room.samples, shop.context, True)


def test_a_phase_file_is_adopted_only_where_it_does_better_not_where_it_does_no_worse(
    sampled: Place, tmp_path: Path
) -> None:
    room, fractal = trying(sampled, follower("Task"))  # a word that stands there either way
    same = adoption(sampled, fractal, room, tmp_path, "# TURN\nBriefly.\n")
    made = asyncio.run(room.proposal(same))
    assert (made.compared.finding, made.did, made.proposal) == ("undecided", "stays as it was", "p1")
    assert "Briefly" not in str(sampled.files())
    room, fractal = trying(sampled, follower("GLEAM"))
    better = adoption(sampled, fractal, room, tmp_path, "# TURN\nGLEAM.\n")
    made = asyncio.run(room.proposal(better))
    assert (made.compared.finding, made.did) == ("better", "is adopted")
    assert "GLEAM" in sampled.files()["phases/turn.md"]


def test_without_tasks_and_for_what_is_not_there_it_says_so(place: Place) -> None:
    room, fractal = trying(place, follower("x"))
    fractal.memory.library.add(ADVICE)
    with pytest.raises(UsageError, match="sample tasks"):
        asyncio.run(room.pattern(fractal.memory.library, "look-first"))
    with pytest.raises(UsageError, match=r"no learned pattern \(look-first\)"):
        asyncio.run(room.pattern(fractal.memory.library, "other"))
    with pytest.raises(UsageError, match="no entry 99"):
        asyncio.run(room.entry(99))
    assert room.trials.all() == []
