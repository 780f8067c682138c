"""A person's refusal: what they called bad is not done again, by whatever path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from methodical import bought

from runtime.api.dreaming import Order, dream
from runtime.api.fractal import Fractal, RunResult
from runtime.memory.episodes.attempts import refusals
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.ledger import Ledger, Standing
from runtime.memory.tasks.methods import Method
from runtime.memory.tasks.rewards import Verdict
from runtime.memory.tasks.trees import NeuronTree

SINGERS = "A choir has 36 singers. {} of them are ill. How many singers does the choir have for the concert?"
TASK, OTHER = SINGERS.format(5), SINGERS.format(8)
BELOW_40 = r"^[1-3]?\d$"
WHY = "ill singers cannot sing"
Do = Callable[..., RunResult]


def planned(task: str, expression: str, result: str) -> dict[str, Any]:
    return {
        "task": task,
        "context": [],
        "open": [],
        "approach": "calculate",
        "confidence": "high",
        "steps": [{"tool": "calc", "args": {"expression": expression}}],
        "success": [{"step": 1, "has": result}],
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def do(work: Path) -> Do:
    """A run of a process of its own; the model plans `expression`."""

    def run(
        task: str = TASK, expression: str = "36 - 5", result: str = "", reuse: bool = False, **settings: Any
    ) -> RunResult:
        place = work.parent / "script.json"
        accept = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "{{ steps[1].result }}"}
        plan = planned(task, expression, result or BELOW_40)
        place.write_text(json.dumps({"plan": plan, "check": accept}))
        values = {"sandbox": "off", "embedder": "lexical", "model": f"scripted:{place}", **settings}
        return with_fractal(work, lambda fractal: asyncio.run(fractal.run(task, reuse=reuse)), values)

    return run


def with_fractal(work: Path, use: Callable[[Fractal], Any], settings: Mapping[str, Any] | None = None) -> Any:
    fractal = Fractal(work, settings={"embedder": "lexical", **(settings or {})})
    try:
        return use(fractal)
    finally:
        fractal.brain.close()


def refuse(work: Path, run: str, why: str = WHY) -> None:
    with_fractal(work, lambda fractal: fractal.feedback(run, False, why))


def accept(work: Path, run: str) -> None:
    with_fractal(work, lambda fractal: fractal.feedback(run, True))


def records(work: Path, kind: type[Any]) -> list[Any]:
    return with_fractal(work, lambda fractal: list(fractal.brain.shelf.scan(kind)))


def decision(work: Path, result: RunResult) -> Decision:
    (found,) = [each for each in records(work, Decision) if each.run == result.run]
    return found


def calls(result: RunResult) -> int:
    return int(result.spent["calls"])


# ---- one refusal is enough ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("again", "replays"),
    [
        pytest.param(TASK, 0, marks=pytest.mark.night),
        (OTHER, 0),
        (TASK, 3),
        pytest.param(OTHER, 3, marks=pytest.mark.night),
    ],
)
def test_what_a_person_refused_is_not_replayed(work: Path, do: Do, again: str, replays: int) -> None:
    last = do()
    for _ in range(replays):
        last = do()
        assert (calls(last), last.output) == (0, "31")
    refuse(work, last.run)
    assert calls(do(again)) > 0
    assert decision(work, do(again)).path == "novel"


def test_a_replay_is_not_booked_as_right_by_its_own_criterion(work: Path, do: Do) -> None:
    do()
    replayed = decision(work, do())
    assert (replayed.path, replayed.outcome) == ("exact", None)
    (tree,) = records(work, NeuronTree)
    assert (tree.ledger.uses, tree.ledger.correct) == (1, 0)


def test_a_refusal_outweighs_any_number_of_uses(work: Path, do: Do) -> None:
    run = do().run

    def mature(fractal: Fractal) -> None:
        shelf = fractal.brain.shelf
        for tree in list(shelf.scan(NeuronTree)):
            ledger = Ledger(uses=100, correct=100)
            shelf.put(tree.model_copy(update={"ledger": ledger, "standing": Standing(stage="cerebellum")}))

    with_fractal(work, mature)
    assert calls(do(OTHER)) == 0
    refuse(work, run)
    assert calls(do(OTHER)) > 0


def test_it_holds_after_a_dream(work: Path, do: Do) -> None:
    refuse(work, do().run)
    with_fractal(work, lambda fractal: asyncio.run(dream(fractal, Order())))
    assert calls(do()) > 0 and calls(do(OTHER)) > 0


def test_without_a_model_a_person_is_asked_instead(work: Path, do: Do) -> None:
    refuse(work, do().run)
    assert do(model="reflex").status == "waiting"


@pytest.mark.parametrize("again", [TASK, OTHER], ids=["the same", "other numbers"])
@pytest.mark.parametrize("remember", [True, False])
def test_it_is_obeyed_by_reuse(work: Path, do: Do, again: str, remember: bool) -> None:
    if not remember and again != TASK:
        pytest.skip("without a memory only the same task is known")
    settings = {"recall": False, "remember": remember, "reuse": True}
    first = do(again, **settings)
    assert do(again, **settings).run == first.run
    refused = do(TASK, **settings | {"reuse": False})
    refuse(work, refused.run)
    assert do(again, **settings).run not in (first.run, refused.run)


def test_who_takes_a_refusal_back_has_it_replayed(work: Path, do: Do) -> None:
    run = do().run
    refuse(work, run)
    accept(work, run)
    assert calls(do()) == 0


# ---- a new way ---------------------------------------------------------------------------------------------


def test_a_new_way_is_replayed_once_a_person_accepts_it_and_the_refused_one_is_not(
    work: Path, do: Do
) -> None:
    refuse(work, do().run)
    new = do(expression="36 - 5 - 0")
    assert calls(do(expression="36 - 5 - 0")) > 0, "nobody has accepted it yet"
    accept(work, new.run)
    again = do(OTHER)
    assert calls(again) == 0
    (tree,) = [each for each in records(work, NeuronTree) if each.id == decision(work, again).tree]
    assert tree.exemplar.steps[0]["args"] == {"expression": "36 - 5 - 0"}


def test_the_same_way_solved_again_is_still_refused(work: Path, do: Do) -> None:
    refuse(work, do().run)
    do()
    do(OTHER, expression="36 - 8")
    assert calls(do()) > 0 and calls(do(SINGERS.format(7))) > 0


def test_another_task_is_still_replayed(work: Path, do: Do) -> None:
    kept = "A box has 3 rows of 12 eggs. How many eggs does the box have?"
    do(kept, expression="3 * 12")
    refuse(work, do().run)
    assert calls(do(kept)) == 0


# ---- what is said of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [TASK, OTHER], ids=["the same", "other numbers"])
def test_the_next_prompt_of_that_kind_shows_it_with_its_reason(work: Path, do: Do, again: str) -> None:
    run = do().run
    refuse(work, run)
    (shown,) = with_fractal(work, lambda fractal: refusals(fractal.brain, again))
    assert WHY in shown and run in shown and TASK in shown
    result = do(again)
    root = with_fractal(work, lambda fractal: fractal.document(result.id))
    (note,) = [note for note in root.section(1).notes if note.source == "memory: refused"]
    assert WHY in note.text
    assert not with_fractal(work, lambda fractal: refusals(fractal.brain, "Count the lines of a.md"))


def test_a_decision_names_the_refusal(work: Path, do: Do) -> None:
    refuse(work, do().run)
    assert WHY in decision(work, do()).why


# ---- methods -----------------------------------------------------------------------------------------------

WORDED = [("Tom", 3, "apples", 4), ("Anna", 5, "pears", 7), ("Ben", 5, "apples", 6), ("Tom", 3, "plums", 9)]
WORDED += [("Joe", 9, "figs", 4)]


def with_method(work: Path) -> str:
    """A memory with a mature method; returns its name."""

    def born(fractal: Fractal) -> str:
        brain = fractal.brain
        for each in WORDED:
            method = brain.methods.consider(brain.memory.learn(bought(*each)))
        assert method
        for _ in range(60):
            brain.methods.settle(method.id, Verdict(True, 1.0, "person"))
        return method.id

    return with_fractal(work, born)


def test_a_refusal_switches_a_mature_method_off(work: Path, do: Do) -> None:
    name = with_method(work)
    task = bought("Max", 4, "melons", 6).task
    used = do(task, expression="4 * 6")
    assert (calls(used), decision(work, used).method) == (0, name)
    refuse(work, used.run, "the fourth box is free")
    for again in (task, bought("Ida", 7, "melons", 3).task, bought(*WORDED[0]).task):
        assert calls(do(again, expression="1 + 1")) > 0
    (listed,) = with_fractal(work, lambda fractal: fractal.brain.methods.listed())
    assert listed.status == "off" and "the fourth box is free" in listed.note


def test_a_refused_exemplar_switches_its_method_off(work: Path, do: Do) -> None:
    with_method(work)
    (method,) = records(work, Method)
    task = bought(*WORDED[0]).task
    solved = do(task, expression="3 * 4", recall=False)
    refuse(work, solved.run)
    assert calls(do(bought("Ida", 7, "melons", 3).task, expression="1 + 1")) > 0
    assert method.trees


def test_refused_ones_make_no_method(work: Path, do: Do) -> None:
    first = bought(*WORDED[0])
    refuse(work, do(first.task, expression="3 * 4").run)
    for name, boxes, thing, price in WORDED[1:]:
        do(bought(name, boxes, thing, price).task, expression=f"{boxes} * {price}")
    do(bought("Ida", 7, "melons", 3).task, expression="7 * 3")
    assert not records(work, Method)
