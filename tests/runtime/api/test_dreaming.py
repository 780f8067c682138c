"""A dream is a run: it has a document, it resumes after a crash, and memory learns nothing from it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT, PATIENCE

sys.path.insert(0, str(Path(__file__).parents[1] / "memory" / "dream"))
import nights
from playing import ACCEPT, by_turns, plan
from warm import run as run_process

from kernel.asking.responder import Ask, Ladder
from kernel.document.model import Step
from kernel.errors import UsageError
from runtime.api.dreaming import dream, undo
from runtime.api.fractal import Fractal
from runtime.api.scheduling import Scheduler
from runtime.api.spans import moment, seconds
from runtime.memory.dream.stages import ALL, Dream, Stage, StageResult
from runtime.memory.tasks.decisions import Decision
from runtime.models.scripted import Scripted
from runtime.reflexes.dreaming import Order, order_of
from runtime.workspace.runs import RunResult
from runtime.workspace.workspace import run_lock

NAMES = [stage.name for stage in ALL]
LONG = () if NIGHT else ("mitosis", "cluster-substrates", "birth-methods")
"""Stages that take long: by day a dream whose stages are not the point does without them."""


def fractal_in(folder: Path, *models: Any) -> Fractal:
    settings = {"embedder": "lexical", "fsync": False, "sandbox": "off"}
    fractal = Fractal(folder, settings=settings, ladder=Ladder(tuple(models)) if models else None)
    fractal.memory.clock = lambda: nights.NOW
    return fractal


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose memory holds something for each stage."""
    work = tmp_path_factory.mktemp("filled")
    nights.filled(work / ".fractal" / "state").close()
    return work


@pytest.fixture
def fractal(filled: Path, tmp_path: Path) -> Fractal:
    return fractal_in(shutil.copytree(filled, tmp_path / "work"))


def test_its_document_says_what_each_stage_did(fractal: Fractal) -> None:
    before = nights.exported(fractal.brain)
    result = asyncio.run(dream(fractal, Order()))
    assert result.exit == 0
    root = fractal.root_document(result.run)
    steps = [root.steps[n] for n in sorted(root.steps)]
    assert [(each.args or {})["stage"] for each in steps] == NAMES
    merged = steps[NAMES.index("merge-neurons")].result or ""
    assert merged.startswith("2 merged\n- ")
    assert "A farmer who keeps bees" in merged
    assert "merge-neurons: 2 merged" in result.output
    assert "merge solved tasks that are one procedure" in root.text(2, "rationale")
    assert undo(fractal).dream == result.id
    assert nights.exported(fractal.brain) == before


def test_it_teaches_memory_nothing(fractal: Fractal) -> None:
    before = {each.id for each in fractal.brain.shelf.scan(Decision)}
    asyncio.run(dream(fractal, Order(phases=("p",), without=LONG)))
    assert {each.id for each in fractal.brain.shelf.scan(Decision)} <= before
    assert (
        fractal.brain.recall("Dream: phase p.") is None
        or fractal.brain.recall("Dream: phase p.").kind == "novel"
    )  # pyright: ignore


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("cluster", marks=pytest.mark.night),
        "merge-neurons",
        pytest.param("birth-methods", marks=pytest.mark.night),
        "report",
    ],
)
def test_killed_in_a_stage_the_run_is_resumed_with_the_stages_that_are_left(
    fractal: Fractal, name: str
) -> None:
    before = nights.exported(fractal.brain)
    fractal.brain.close()
    child = os.fork()
    if not child:
        stages = fractal.memory.dreamer.stages
        fractal.memory.dreamer.stages = {**stages, name: nights.dying(stages[name], "end")}
        asyncio.run(dream(fractal, Order(without=LONG[:2])))
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    again = fractal_in(fractal.workspace.folder)
    (run,) = again.workspace.run_ids()
    result = asyncio.run(again.resume(run))
    assert result.exit == 0
    root = again.root_document(run)
    staged = [(root.steps[n].args or {})["stage"] for n in sorted(root.steps)]
    assert staged == [each for each in NAMES if each not in LONG[:2]]
    assert undo(again).left == ()
    assert nights.exported(again.brain) == before


def test_a_stage_that_goes_wrong_is_reported_and_the_others_are_done(fractal: Fractal) -> None:
    def fails(given: Dream) -> StageResult:
        raise ValueError("what a surprise")

    stages = fractal.memory.dreamer.stages
    fractal.memory.dreamer.stages = {**stages, "mitosis": replace(stages["mitosis"], run=fails)}
    result = asyncio.run(dream(fractal, Order()))
    assert result.status in ("escalated", "failed")
    assert int(result.exit) == 1
    assert "mitosis: failed, and nothing of it is kept: ValueError: what a surprise" in result.output
    assert "birth-methods: 1 born" in result.output


def test_two_at_once_are_refused_before_anything_is_written(fractal: Fractal) -> None:
    fractal.memory.dreamer.hold("another")
    other = fractal_in(fractal.workspace.folder)
    with pytest.raises(UsageError, match="already running here"):
        asyncio.run(dream(other, Order()))
    assert other.workspace.run_ids() == []


def test_it_asks_for_no_approval_and_needs_its_tool(fractal: Fractal) -> None:
    careful = fractal.anew(approve=("write",))
    assert asyncio.run(dream(careful, Order(phases=("a",)))).status == "complete"
    with pytest.raises(UsageError, match="no tool dream"):
        asyncio.run(dream(fractal.anew(shipped=False), Order()))


def test_a_dream_in_a_run_is_within_its_budget_and_is_not_the_newest_run(fractal: Fractal) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": "{{ steps[1].result }}"}
        if ask.phase == "plan":
            return plan({"tool": "dream", "args": {"phase": "a", "without": "probe, refine, create, verify"}})
        return {"text": f"hello, {ask.phase}"}

    def greets(given: Dream) -> StageResult:
        assert given.ask
        greetings = [given.ask("greet", {"who": f"sleeper {n}"}) for n in range(9)]
        return StageResult(list(filter(None, greetings)), {"greeted": len(greetings)}, "model")

    prepared, _, _ = greeted(fractal, answers, lambda given: StageResult([], {}, "model"))
    outer = fractal_in(fractal.workspace.folder, by_turns(answers)).anew(calls=4, check="always")
    outer.memory.clock = prepared.memory.clock
    stage = Stage("cluster", "a", "greets", greets)
    outer.memory.dreamer.stages = {**outer.memory.dreamer.stages, "cluster": stage}
    result = asyncio.run(outer.run("consolidate what you know"))
    assert result.spent["calls"] == 4, "its plan, two greetings, its check"
    assert outer.find("") == result.run
    assert outer.runs()[0].run == result.run
    (inner,) = [each for each in outer.runs() if each.within]
    assert (inner.type, inner.within, inner.spent["calls"]) == ("dream", result.run, 2)


def greeted(
    fractal: Fractal, model: Callable[[Ask], Any], greets: Callable[[Dream], StageResult]
) -> tuple[Fractal, RunResult, Step]:
    """Run a dream in which a stage asks a model with its own prompt; return its fractal, result and step."""
    system = fractal.workspace.root / "system" / "memory"
    system.mkdir(parents=True, exist_ok=True)
    (system / "greet.md").write_text("Greet {{ who }}.", "utf-8")
    with_model = fractal_in(fractal.workspace.folder, Scripted(model))
    stage = Stage("cluster", "a", "greets", greets)
    with_model.memory.dreamer.stages = {**with_model.memory.dreamer.stages, "cluster": stage}
    chosen = Order(phases=("a",), without=("probe", "refine", "create", "verify"))
    result = asyncio.run(dream(with_model, chosen))
    assert result.exit == 0
    steps = with_model.root_document(result.run).steps.values()
    return with_model, result, next(each for each in steps if (each.args or {})["stage"] == "cluster")


def test_a_model_is_asked_at_the_cost_of_the_dream(fractal: Fractal) -> None:
    def greets(given: Dream) -> StageResult:
        assert given.ask
        return StageResult([given.ask("greet", {"who": "the sleeper"})], {"greeted": 1}, "model")

    _, result, step = greeted(fractal, lambda ask: {"text": f"hello, {ask.phase}"}, greets)
    assert (
        step.result
        == "1 greeted (by a model)\n- hello, greet\n- asked: 1 calls, "
        + f"{step.evidence['asked']['tokens']} tokens, 0.0 usd"
    )
    assert result.spent["calls"] == 1
    assert result.spent["prompt_tokens"] > 0


WRITER = """
import sys
from pathlib import Path
from runtime.api.fractal import Fractal
from runtime.api.knowledge import remember
fractal = Fractal(sys.argv[1], settings={"embedder": "lexical"})
folder = fractal.memory.folder / "patterns"
folder.mkdir(exist_ok=True)
(folder / f"learned-{len(list(folder.iterdir()))}.md").write_text("what another run learned")
print(remember(fractal, "the shed is green").text)
"""


def test_others_write_to_memory_while_a_model_thinks(fractal: Fractal) -> None:
    """A stage asks twice, and the second question depends on the first reply. Nothing is done twice."""
    wrote: list[str] = []

    def thinks(ask: Ask) -> Any:
        order = [sys.executable, "-c", WRITER, str(fractal.workspace.folder)]
        ran = run_process(order, capture_output=True, text=True, timeout=PATIENCE)
        wrote.append(ran.stdout.strip() or ran.stderr)
        return {"text": f"{len(wrote)}"}

    def greets(given: Dream) -> StageResult:
        assert given.ask
        first = given.ask("greet", {"who": "the sleeper"})
        second = given.ask("greet", {"who": first}) if first else ""
        given.shelf.put(Decision(id=f"dreamt of {second}", path="novel"))
        return StageResult([first, second], {"greeted": 2}, "model")

    with_model, result, _ = greeted(fractal, thinks, greets)
    assert wrote == ["the shed is green"] * 2
    assert result.spent["calls"] == 2
    dreamt = [each.id for each in with_model.brain.shelf.scan(Decision) if each.id.startswith("dreamt")]
    assert dreamt == ["dreamt of 2"]
    patterns = with_model.memory.folder / "patterns"
    assert sorted(path.name for path in patterns.glob("*.md")) == ["learned-0.md", "learned-1.md"]
    assert undo(with_model).dream == result.id
    assert sorted(path.name for path in patterns.glob("*.md")) == ["learned-0.md", "learned-1.md"]


def test_a_stage_that_never_has_enough_is_done_with_what_it_knows(fractal: Fractal) -> None:
    rounds: list[int] = []

    def greets(given: Dream) -> StageResult:
        assert given.ask
        rounds.append(len(rounds))
        greetings = [given.ask("greet", {"who": f"sleeper {n}"}) for n in range(len(rounds))]
        return StageResult(greetings, {"greeted": len(greetings)}, "model")

    _, result, step = greeted(fractal, lambda ask: {"text": "good night"}, greets)
    assert (step.result or "").count("- good night") == 3
    assert result.spent["calls"] == len(rounds) - 1 == 3


def test_a_loop_calls_it_as_a_tool(fractal: Fractal, tmp_path: Path) -> None:
    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": "{{ steps[1].result }}"}
        return plan({"tool": "dream", "args": {"phase": "p", "without": ", ".join(LONG)}})

    outer = fractal_in(fractal.workspace.folder, Scripted(answers))
    result = asyncio.run(outer.run("consolidate what you know"))
    assert result.exit == 0, result.reason
    assert "merge-neurons: 2 merged" in result.output
    assert {each.type for each in outer.runs()} == {"task", "dream"}
    undone = undo(outer)
    assert undone.dream in {each.id for each in outer.runs() if each.type == "dream"}


def test_a_loop_can_ask_what_it_would_do(fractal: Fractal) -> None:
    before = nights.exported(fractal.brain)

    def answers(ask: Ask) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": "{{ steps[1].result }}"}
        return plan(
            {
                "tool": "dream",
                "args": {"dry_run": True, "without": ", ".join(("merge-neurons", "mitosis", *LONG))},
            }
        )

    outer = fractal_in(fractal.workspace.folder, Scripted(answers))
    result = asyncio.run(outer.run("what would you forget?"))
    assert "delete-weak-trees: 1 deleted" in result.output
    assert "merge-neurons" not in result.output
    known = {line for line in before.splitlines() if '"kind": "neuron-tree"' in line}
    assert known <= set(nights.exported(fractal.brain).splitlines())


@pytest.mark.parametrize(
    "order",
    [
        Order(),
        Order(phases=("a", "p")),
        Order(since="2026-11-01T00:00:00+00:00"),
        Order(("b",), "2026-11-01T10:30:00+02:00", ("decay", "report")),
    ],
)
def test_what_it_was_asked_for_stands_in_its_task(order: Order) -> None:
    assert order_of(order.task) == order


def test_times_are_dates_and_spans() -> None:
    assert moment("2026-11-20", nights.NOW) == "2026-11-20T00:00:00+00:00"
    assert moment("2d", nights.NOW) == "2026-11-18T03:00:00+00:00"
    assert seconds("5m") == 300
    for wrong in ("", "soon", "0m", "5"):
        with pytest.raises(UsageError):
            seconds(wrong)
    with pytest.raises(UsageError, match="no date"):
        moment("someday", nights.NOW)


# ---- by itself -------------------------------------------------------------------------------------------


class Clock:
    """A clock that advances only by `sleep`."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 20, tzinfo=UTC)
        self.between: Callable[[], None] = lambda: None

    async def sleep(self, span: float) -> None:
        self.now += timedelta(seconds=span)
        self.between()


OFTEN, LATE = Order(phases=("p",) if NIGHT else ("a",)), "mitosis" if NIGHT else "create"
"""What the scheduler dreams, by day the phase that takes less time; and a stage towards its end."""


def scheduler_of(fractal: Fractal, clock: Clock, messages: list[str]) -> Scheduler:
    fractal.memory.clock = lambda: clock.now
    return Scheduler(fractal, OFTEN, 300.0, messages.append, clock.sleep)


def test_it_dreams_when_something_is_new_and_at_least_once_a_day(fractal: Fractal) -> None:
    clock, messages = Clock(), list[str]()
    scheduler = scheduler_of(fractal, clock, messages)
    asyncio.run(scheduler.run(10))
    assert len(scheduler.dreams) == 1
    clock.between = lambda: fractal.brain.shelf.put(Decision(id=f"at {clock.now}"))
    asyncio.run(scheduler.run(3))
    assert len(scheduler.dreams) == 4
    clock.between = lambda: None
    asyncio.run(scheduler.run(12 * 24 + 1))
    assert len(scheduler.dreams) == 5


def test_it_waits_while_a_run_is_at_work_and_goes_on_with_what_was_cut_short(fractal: Fractal) -> None:
    clock, messages = Clock(), list[str]()
    scheduler = scheduler_of(fractal, clock, messages)
    run = fractal.workspace.new_run()
    with fractal.workspace.claimed(run) as folder, run_lock(folder):
        asyncio.run(scheduler.run(2))
    assert scheduler.dreams == []
    assert messages[0] == "no dream: 1 run at work"
    child = os.fork()
    if not child:
        stages = fractal.memory.dreamer.stages
        fractal.memory.dreamer.stages = {**stages, LATE: nights.dying(stages[LATE], "end")}
        asyncio.run(dream(fractal, OFTEN))
        os._exit(1)
    os.waitpid(child, 0)
    (cut,) = [each.run for each in fractal.runs() if each.type == "dream"]
    asyncio.run(scheduler.run(1))
    assert [(each.run, each.status) for each in scheduler.dreams] == [(cut, "complete")]


def test_where_nothing_is_remembered_it_only_waits(tmp_path: Path) -> None:
    clock, messages = Clock(), list[str]()
    fractal = fractal_in(tmp_path)
    scheduler = scheduler_of(fractal, clock, messages)
    asyncio.run(scheduler.run(5))
    assert (scheduler.dreams, messages) == ([], [])
    assert not (tmp_path / ".fractal" / "state" / "memory").exists()


def test_an_error_is_reported_and_the_next_check_tries_again(fractal: Fractal) -> None:
    clock, messages = Clock(), list[str]()
    scheduler = scheduler_of(fractal, clock, messages)
    other_dreamer = fractal_in(fractal.workspace.folder).memory.dreamer
    other_dreamer.hold("somebody else")
    asyncio.run(scheduler.run(1))
    assert scheduler.dreams == []
    assert messages[0].startswith("no dream: a dream is already running here")
    other_dreamer.release()
    asyncio.run(scheduler.run(1))
    assert len(scheduler.dreams) == 1
