"""The mechanisms of the seeds at work on real runs and dreams: their events, and what the report counts."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playing import ACCEPT, REVERSE, Play, plan

from kernel.events import Event
from runtime.api.dreaming import dream
from runtime.api.fractal import Fractal
from runtime.memory.dream.report import happened
from runtime.memory.dream.stages import DreamRecord, StageRecord
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Observation
from runtime.memory.mechanisms import ADVICE, mechanisms
from runtime.memory.store import open_shelf
from runtime.memory.tasks.decisions import in_order
from runtime.memory.tasks.snapshots import all_of
from runtime.reflexes.dreaming import Order

sys.path.insert(0, str(Path(__file__).parent / "dream"))
import nights

LIST = {"tool": "list", "args": {}}


def figures(fractal: Fractal, now: datetime | None = None) -> dict[str, dict[str, Any]]:
    shelf, library = fractal.brain.shelf, fractal.memory.library
    return mechanisms(shelf, in_order(shelf), library.all(), now or datetime.now(UTC))


def of_memory(events: list[Event]) -> list[tuple[str, dict[str, Any]]]:
    return [(each.data["event"], dict(each.data)) for each in events if each.kind == "memory"]


def test_a_solved_task_and_its_replay_are_events_and_every_second_problem_a_snapshot(tmp_path: Path) -> None:
    script, work = tmp_path / "script.json", tmp_path / "work"
    script.write_text(
        json.dumps({"fused": REVERSE, "plan": REVERSE, "check": {**ACCEPT, "output": "written"}})
    )
    work.mkdir()
    for name in ("notes.md", "other.md"):
        (work / name).write_text("one\ntwo\n")
    said: list[list[tuple[str, dict[str, Any]]]] = []
    sizes: list[int] = []
    for task in (REVERSE["task"], REVERSE["task"], REVERSE["task"].replace("notes.md", "other.md")):
        events: list[Event] = []
        settings = {
            "model": f"scripted:{script}",
            "snapshot_every": 2,
            "embedder": "lexical",
            "sandbox": "off",
        }
        fractal = Fractal(work, settings=settings, on_event=events.append)
        (work / "back.md").unlink(missing_ok=True)
        assert asyncio.run(fractal.run(task)).exit == 0
        said.append(of_memory(events))
        sizes.append(len(all_of(fractal.brain.shelf)))
        assert events[-1].kind == "run_finished"
    assert [[name for name, _ in each] for each in said] == [
        ["NeuronTreeBuilt"],
        ["NeuronRecalled"],
        ["NeuronRecalled"],
    ]
    tree = said[0][0][1]["tree"]
    assert [(each[0][1]["tree"], each[0][1]["recall"]) for each in said[1:]] == [
        (tree, "exact"),
        (tree, "variation"),
    ]
    assert sizes == [0, 1, 1]
    (snapshot,) = all_of(fractal.brain.shelf)
    assert (snapshot.n, snapshot.answered, snapshot.sizes["trees"]) == (2, 0.5, 1)


def test_a_dream_that_splits_and_joins_types_says_so(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    nights.filled(tmp_path / "work" / ".fractal" / "state").close()
    events: list[Event] = []
    settings = {"embedder": "lexical", "fsync": False, "sandbox": "off"}
    fractal = Fractal(tmp_path / "work", settings=settings, on_event=events.append)
    fractal.memory.clock = lambda: nights.NOW
    asyncio.run(dream(fractal, Order(phases=("p",))))
    said = of_memory(events)
    assert [name for name, _ in said] == ["OrganismMitosis", "OrganismFusion", "DreamCycleCompleted"]
    assert said[0][1]["did"] == [
        next(each for each in said[0][1]["did"] if each.startswith("mixed keeps 15"))
    ]
    assert said[2][1]["stages"] == len([each for each in nights.ALL if each.group == "p"])
    found = figures(fractal, nights.NOW)
    assert (
        found["dreams"] | {"dreams": 1, "types split": 1, "types joined": 1, "trees merged": 2}
        == found["dreams"]
    )
    assert (
        found["dreams"] | {"trees rehabilitated": 1, "trees deleted": 1, "methods born": 1} == found["dreams"]
    )
    assert found["dreams"]["synapses pruned"] > 0
    assert found["dreams"]["branches cut"] > 0
    assert found["branches"]["misled"] == 1
    assert found["methods"] == {"hippocampus": 1, "steps": 1}
    assert found["problem types"]["emergent"] > 2


def test_reflections_that_no_longer_surprise_give_the_advice(play: Play) -> None:
    learned = "the listing alone does not answer, so read the files before you conclude"

    def answers(ask: Any) -> Any:
        if ask.phase != "check":
            return plan(LIST, success=[])
        retry = {"validation": "fail", "issues": [learned], "decision": "RETRY", "learned": learned}
        return retry if ask.attempt == 1 else {**ACCEPT, "output": "two files"}

    settings = {"embedder": "lexical", "observe": ["reflections"], "learn": "off"}
    fractal = play(answers, "say what the files are about", settings=settings).fractal
    fractal.brain.episodes.catch_up()
    asyncio.run(dream(fractal, Order(phases=("a",))))
    (told,) = fractal.brain.shelf.scan(Observation)
    mind = Mind.of(fractal.brain)
    assert "advice" not in figures(fractal)["self-image"]
    for number in range(11):  # as many more runs would leave
        mind.observe(told.text, said="reflection", at=told.at, thread=f"run {number}")
    mind.take_in()
    state = figures(fractal)["self-image"]
    assert state == {"reflection": 12, "mean surprise": 0.0833, "trend": "unknown", "advice": ADVICE}
    output = asyncio.run(dream(fractal, Order(phases=("b",)))).output
    assert "Nothing surprises default about itself any more: challenge what it believes." in output


def test_a_dream_that_connects_memories_says_so() -> None:
    with closing(open_shelf("memory", Path())) as shelf:
        stages = {"connect": StageRecord(changed=1, did=("“a” and “b”: both",)), "mitosis": StageRecord()}
        shelf.put(DreamRecord(id="system-x", stages=stages))
        assert happened(shelf, "system-x") == [
            ("OrganismEdgeFormed", {"did": ["“a” and “b”: both"]}),
            ("DreamCycleCompleted", {"stages": 2, "changed": 1}),
        ]
