"""How a model is asked: learned for each type from outcomes, with the real ladder and engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT
from playing import ACCEPT, Played, plan

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.document.model import Document
from runtime.api.fractal import Fractal
from runtime.memory.store import open_shelf
from runtime.memory.tasks.asked import (
    EXAMPLE,
    ONE_SHOT,
    WINDOW,
    Asked,
    Ways,
    best,
    read_ways,
)
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.explaining import explain

SETTINGS = {"embedder": "lexical", "fsync": False}
ALL_WAYS = ["worked example", "solve first", "write code"]
SYSTEM = Path(__file__).parents[4] / "system"


def bad(name: str, trust: float = 1.0) -> tuple[str, bool, float]:
    return name, False, trust


def good(name: str, trust: float = 1.0) -> tuple[str, bool, float]:
    return name, True, trust


# ---- the choice ------------------------------------------------------------------------------------------


def test_what_one_shot_serves_stays_with_it() -> None:
    assert best([], ALL_WAYS) == ONE_SHOT
    assert best([good(ONE_SHOT)] * 3, ALL_WAYS) == ONE_SHOT
    assert best([*[good(ONE_SHOT)] * 9, bad(ONE_SHOT)], ALL_WAYS) == ONE_SHOT, "once in ten is no reason"


def test_after_a_failure_each_other_way_is_tried_and_the_best_stays() -> None:
    tried = [bad(ONE_SHOT)]
    order: list[str] = []
    for _ in range(9):
        order.append(best(tried, ALL_WAYS))
        tried.append((order[-1], order[-1] == "write code", 1.0))
    assert order == [*ALL_WAYS, *["write code"] * 6]


def test_a_way_that_falls_is_left_for_another() -> None:
    tried = [bad(ONE_SHOT), *[good("solve first")] * 5]
    assert best(tried, ALL_WAYS) == "solve first"
    assert best([*tried, *[bad("solve first")] * 6], ALL_WAYS) != "solve first"


def test_a_word_that_is_trusted_less_counts_less() -> None:
    tried = [bad(ONE_SHOT), good("solve first"), bad("solve first", 0.3), bad("write code", 0.3)]
    assert best([*tried, *[bad("solve first", 0.3)]], ["solve first", "write code"]) == "solve first"
    assert best([*tried, *[bad("solve first")] * 2], ["solve first", "write code"]) == "write code"


def test_what_is_not_possible_is_not_chosen() -> None:
    tried = [bad(ONE_SHOT), *[good(EXAMPLE)] * 5]
    assert best(tried, ["solve first", "write code"]) == "solve first"
    assert best(tried, []) == ONE_SHOT


def test_said_anew_it_counts_once_and_only_the_last_attempts_count() -> None:
    asking = Ways(open_shelf("memory", Path()))
    first = Decision(id="a/1", type="t", way=ONE_SHOT, outcome=False, source="criteria")
    asking.settle(first)
    assert asking.choose("t", ALL_WAYS) == ALL_WAYS[0]
    asking.settle(first.model_copy(update={"outcome": True, "source": "person"}))
    assert asking.choose("t", ALL_WAYS) == ONE_SHOT
    for n in range(3 * WINDOW):
        asking.settle(Decision(id=f"b{n}/1", type="t", way="solve first", outcome=True, source="check"))
    known = asking.shelf.get(Asked, "t")
    assert known and len(known.tried) == WINDOW
    assert set(known.tried.values()) == {("solve first", True, 0.6)}
    assert asking.choose("another", ALL_WAYS) == ONE_SHOT


def test_the_shipped_file_names_the_four_ways() -> None:
    ways = read_ways([SYSTEM])
    assert sorted(ways) == sorted([ONE_SHOT, *ALL_WAYS])
    assert not ways[ONE_SHOT] and all(ways[name] for name in ALL_WAYS)
    assert read_ways([SYSTEM / "nowhere"]) == {}


# ---- with runs -------------------------------------------------------------------------------------------

TASKS: Mapping[str, str] = {
    "write code": "compute the standard deviation of column {} in measurements.csv into answer.txt",
    "solve first": "schedule the meetings of team {} without conflicts of rooms into answer.txt",
    "any": "translate the greeting for guest {} into polite French, as answer.txt",
}
NAMES = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty")


class Model:
    """A model that does each sort of task only when it is asked in the way that suits it."""

    def __init__(self) -> None:
        self.planned: list[Ask] = []

    def __call__(self, ask: Ask) -> Any:
        done = "right" in (self.folder / "answer.txt").read_text()
        if ask.phase == "check":
            return ACCEPT if done else {**ACCEPT, "decision": "ESCALATE", "validation": "fail"}
        self.planned.append(ask)
        needed = next(name for name, task in TASKS.items() if task[:12] == ask.document.text(1, "task")[:12])
        right = needed == "any" or f"{needed}: " in prompt_text(ask)
        step = {"tool": "write", "args": {"path": "answer.txt", "content": "right" if right else "no"}}
        return plan(step, success=[{"file": "answer.txt", "has": "right"}])

    folder: Path


@pytest.fixture
def ask(play: Callable[..., Played], tmp_path: Path) -> Callable[..., tuple[Played, str]]:
    """Run a task of a sort; return the run and how its model was asked."""

    def work(sort: str, name: str, **settings: Any) -> tuple[Played, str]:
        model = Model()
        model.folder = tmp_path / "work"
        (model.folder / "answer.txt").write_text("")
        played = play(model, TASKS[sort].format(name), settings={**SETTINGS, **settings})
        return played, way(played.root)

    return work


def way(document: Document) -> str:
    notes = [n.text for n in document.section(1).notes if n.source == "memory: way"]
    assert len(notes) <= 1, "it is written once"
    return notes[0].partition(":")[0] if notes else ONE_SHOT


@pytest.mark.night
def test_each_type_is_asked_as_suits_it_after_a_few_failures(ask: Callable[..., tuple[Played, str]]) -> None:
    asked: dict[str, list[str]] = {sort: [] for sort in TASKS}
    last: Played | None = None
    for number in range(16 if NIGHT else 9):
        for sort in TASKS:
            last, used = ask(sort, f"{NAMES[number % 10]} {number}")
            asked[sort].append(used)
            last.fractal.brain.close()
    assert set(asked["any"]) == {ONE_SHOT}
    for sort in ("write code", "solve first"):
        assert asked[sort][0] == ONE_SHOT
        learned = asked[sort][6:]
        assert learned.count(sort) >= 0.9 * len(learned), asked[sort]
    assert last is not None
    decisions = list(Fractal(last.fractal.workspace.folder, settings=SETTINGS).brain.shelf.scan(Decision))
    code_decisions = [each for each in decisions if each.way == "write code" and each.outcome]
    assert code_decisions and all(each.type for each in decisions if each.way != ONE_SHOT)
    assert "asked in:     write code" in explain(code_decisions[-1])


def test_where_nothing_failed_or_it_is_switched_off_a_prompt_says_nothing_of_ways(
    ask: Callable[..., tuple[Played, str]],
) -> None:
    assert ask("write code", "amber")[1] == ONE_SHOT
    assert ask("write code", "birch", shown=("facts and files", "similar tasks"))[1] == ONE_SHOT
    assert ask("write code", "cedar", recall=False)[1] == ONE_SHOT
    assert ask("write code", "delta")[1] != ONE_SHOT


def test_a_worked_example_is_only_named_where_one_is_shown(ask: Callable[..., tuple[Played, str]]) -> None:
    ways = [ask("solve first", name)[1] for name in NAMES[:3]]
    assert EXAMPLE not in ways
