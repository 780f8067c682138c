"""Models, tools and transitions cost lifeforce, where an agent has a pool of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, limited, plan, put

from kernel.asking.responder import Ask, Ladder
from kernel.errors import DocumentError, Exit
from runtime.api.fractal import Fractal
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.nervous.lifeforce import Lifeforce
from runtime.workspace.workspace import run_lock

DOOR = """---
name: door
description: opens and shuts a door
args:
  action: {type: string, enum: [open, shut]}
required: [action]
states: {by: action, start: shut, moves: {shut: {open: open}, open: {shut: shut}}}
lifeforce: {open: 2, shut: 0.5}
effects: [read]
sample: {task: open the door, args: {action: open}, shows: moved}
run: "command: ./door.sh"
---
"""
LOOK = {"tool": "read", "args": {"path": "a.txt"}}
OPEN, SHUT = ({"tool": "door", "args": {"action": action}} for action in ("open", "shut"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    put(tmp_path, "work/a.txt", "a")
    put(tmp_path, "work/system/tools/door/pattern.md", DOOR)
    put(tmp_path, "work/system/tools/door/door.sh", "#!/bin/sh\necho moved\n").chmod(0o755)
    put(tmp_path, "work/fractal.yaml", "")
    return tmp_path / "work"


def fractal(work: Path, *rungs: tuple[Any, float], pool: Any = None, **settings: Any) -> Fractal:
    """A workspace whose models answer so, at this cost a call."""
    settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", "lifeforce": pool, **settings}
    models = [limited(Scripted(answer, f"model-{n}"), cost) for n, (answer, cost) in enumerate(rungs, 1)]
    return Fractal(work, settings=settings, ladder=Ladder((*models, Human())), trusted=True)


def doing(*steps: Any) -> Callable[[Ask], Any]:
    return lambda ask: ACCEPT if ask.phase == "check" else plan(*steps, success=[{"judge": "done"}])


def text(one: Fractal, run: str) -> str:
    return one.path(run).read_text("utf-8")


def pool_of(one: Fractal, clock: Callable[[], float]) -> Lifeforce:
    assert one.config.lifeforce
    return Lifeforce(one.workspace, one.config.agent, one.config.lifeforce, clock)


async def test_models_tools_and_transitions_cost_lifeforce_and_the_rest_is_given_back(work: Path) -> None:
    one = fractal(work, (doing(LOOK, OPEN, SHUT), 10.0), pool={"capacity": 100, "per_hour": 0})
    result = await one.run("open the door and shut it")
    assert result.exit == Exit.ACCEPTED, result
    assert result.spent["calls"] == 2
    assert result.spent["lifeforce"] == 22.5
    assert one.lifeforce
    level = one.lifeforce.level()
    assert (level.free, level.held) == (77.5, {})


async def test_without_a_pool_nothing_is_counted_or_shown(work: Path) -> None:
    one = fractal(work, (doing(OPEN), 10.0))
    result = await one.run("open the door")
    assert result.exit == Exit.ACCEPTED
    folder = one.path(result.run).parent
    assert not any(b"lifeforce" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert not (one.workspace.state / "lifeforce").exists()


async def test_a_run_without_lifeforce_waits_in_words_and_goes_on_when_there_is_some(
    work: Path,
) -> None:
    one = fractal(work, (doing(LOOK, OPEN), 10.0), pool={"capacity": 15, "per_hour": 0})
    result = await one.run("open the door")
    assert (result.exit, result.waiting) == (Exit.WAITING, "lifeforce")
    assert "a call of model-1 costs 10 lifeforce, and 3 is left; time restores it" in result.question
    assert result.question in text(one, result.run)
    assert not (await one.resume(result.run)).output, "nothing is affordable yet"
    restored = fractal(work, (doing(LOOK, OPEN), 10.0), pool={"capacity": 15, "per_hour": 3.6e9})
    result = await restored.resume(result.run)
    assert (result.exit, result.spent["lifeforce"]) == (Exit.ACCEPTED, 22)


async def test_a_tool_that_is_not_affordable_is_not_called(work: Path) -> None:
    one = fractal(work, (doing(LOOK, OPEN), 10.0), pool={"capacity": 11, "per_hour": 0})
    result = await one.run("open the door")
    assert result.waiting == "lifeforce"
    assert "step 2, door, costs 2 lifeforce, and 1 is left" in result.question
    assert one.lifeforce and one.lifeforce.level().free == 1


async def test_a_rung_that_is_not_affordable_is_skipped_and_the_document_says_so(work: Path) -> None:
    one = fractal(work, (doing(LOOK), 10.0), (doing(LOOK), 1.0), pool={"capacity": 5, "per_hour": 0})
    result = await one.run("look at it")
    assert (result.exit, result.spent["lifeforce"]) == (Exit.ACCEPTED, 2)
    assert "a call of model-1 costs 10 lifeforce, and 5 is left" in text(one, result.run)


async def test_a_task_that_needs_no_model_is_done_without_lifeforce(work: Path) -> None:
    settings = {"sandbox": "off", "fsync": False, "lifeforce": {"capacity": 0.5, "per_hour": 0}}
    ladder = [{"model": "reflex"}, {"model": f"scripted:{work}/none.yaml", "lifeforce": 1}]
    (work / "none.yaml").write_text("[]")
    result = await Fractal(work, settings={**settings, "ladder": ladder}, trusted=True).run("what is 2 + 2?")
    assert (result.exit, result.output) == (Exit.ACCEPTED, "4")


async def test_two_runs_at_once_never_use_more_than_there_is(work: Path) -> None:
    runs = [fractal(work, (doing(LOOK), 1.0), pool={"capacity": 5, "per_hour": 0}) for _ in range(6)]
    results = await asyncio.gather(*(each.run(f"look {n}") for n, each in enumerate(runs)))
    assert sum(each.spent.get("lifeforce", 0) for each in results) <= 5
    assert runs[0].lifeforce and runs[0].lifeforce.level().free >= 0
    for each in results:
        if each.waiting:
            await runs[0].resume(each.run)
    spent = [each.spent.get("lifeforce", 0) for each in runs[0].runs()]
    assert sum(spent) + runs[0].lifeforce.level().free == 5


async def test_what_oversight_is_asked_costs_the_run_lifeforce(work: Path) -> None:
    push = {"tool": "bash", "args": {"command": "git push origin main; true"}}
    oversight = Scripted(lambda ask: {"decision": "approve", "why": ""}, "large", tier="oversight")
    rungs = (limited(Scripted(doing(push)), 1.0), limited(oversight, 20.0), Human())
    settings = {"embedder": "lexical", "fsync": False, "sandbox": "off"}
    settings |= {"lifeforce": {"capacity": 100, "per_hour": 0}}
    one = Fractal(work, settings=settings, ladder=Ladder(rungs), trusted=True)
    result = await one.run("publish the branch main")
    assert (result.exit, result.spent["lifeforce"]) == (Exit.ACCEPTED, 22)
    assert one.lifeforce and one.lifeforce.level().free == 78


def test_time_restores_up_to_the_capacity_and_reading_writes_nothing(work: Path) -> None:
    at = 1000.0
    one = fractal(work, pool={"capacity": 100, "per_hour": 20})
    pool = pool_of(one, lambda: at)
    run = one.workspace.new_run()
    with one.workspace.claimed(run) as folder, run_lock(folder):
        assert pool.reserve(run) == 100
        at += 36000
        assert pool.level().free == 0, "what is reserved is not used yet"
        pool.path.write_text(pool.path.read_text().replace('"free":0.0', '"free":-60.0'))
    (folder / "calls.jsonl").write_text("")
    assert pool.level().free == 100
    before = pool.path.read_bytes()
    assert pool.level() == pool.level()
    assert pool.path.read_bytes() == before
    at -= 99999
    assert pool.level().free <= 100, "the clock was set back"


def test_the_reservation_of_a_killed_run_is_released_but_for_what_it_used(work: Path) -> None:
    def dies(ask: Ask) -> Any:
        if ask.phase == "check":
            os.kill(os.getpid(), signal.SIGKILL)
        return plan(OPEN, success=[{"judge": "done"}])

    one = fractal(work, (dies, 10.0), pool={"capacity": 50, "per_hour": 0})
    if not (child := os.fork()):
        asyncio.run(one.run("open the door"))
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert one.lifeforce
    level = one.lifeforce.level()
    assert (level.free, level.held) == (28, {}), "the open call counts in full"
    again = fractal(work, (doing(OPEN), 10.0), pool={"capacity": 50, "per_hour": 0})
    result = asyncio.run(again.resume())
    assert result.exit == Exit.ACCEPTED
    assert one.lifeforce.level().free == 50 - result.spent["lifeforce"]


async def test_each_agent_has_its_own_pool(work: Path) -> None:
    (work / "fractal.yaml").write_text("agents: {nyx: {lifeforce: {capacity: 30, per_hour: 0, per_run: 25}}}")
    ladder = Ladder((limited(Scripted(doing(LOOK)), 10.0), Human()))
    options = {"embedder": "lexical", "fsync": False, "sandbox": "off"}
    nyx = Fractal(work, settings={**options, "agent": "nyx"}, ladder=ladder, trusted=True)
    result = await nyx.run("look at it")
    assert nyx.lifeforce and nyx.lifeforce.level().free == 10
    assert nyx.root_document(result.run).meta.budget["lifeforce"] == 25
    other = Fractal(work, settings=options, ladder=ladder, trusted=True)
    assert other.lifeforce is None
    waiting = await nyx.run("look at it again")
    result = await other.resume(waiting.run)
    assert result.waiting == "lifeforce", "who resumes it does not change whose lifeforce it is"


async def test_a_resumed_run_does_not_get_its_share_again(work: Path) -> None:
    pool = {"capacity": 100, "per_hour": 0, "per_run": 12}
    result = await fractal(work, (doing(LOOK), 10.0), pool=pool).run("look at it")
    for _ in range(3):
        assert result.waiting == "lifeforce"
        assert "per_run" in result.question
        again = fractal(work, (doing(LOOK), 10.0), pool=pool)
        result = await again.resume(result.run)
        assert again.root_document(result.run).meta.budget["lifeforce"] == 12
    assert result.spent["lifeforce"] == 10


def test_a_pool_that_cannot_be_read_is_named(work: Path) -> None:
    one = fractal(work, pool={"capacity": 1, "per_hour": 0})
    put(one.workspace.state, "lifeforce/default.json", '{"free": "much"}')
    with pytest.raises(DocumentError, match="remove it to begin with a full one"):
        assert one.lifeforce and one.lifeforce.level()


@pytest.mark.parametrize("value", ["-1", "much", "{open: x}", "{slam: 1}", ".inf"])
def test_what_a_tool_costs_is_checked(work: Path, value: str) -> None:
    put(work, "system/tools/door/pattern.md", DOOR.replace("{open: 2, shut: 0.5}", value))
    (fault,) = fractal(work).catalogue().faults
    assert "lifeforce" in str(fault)
