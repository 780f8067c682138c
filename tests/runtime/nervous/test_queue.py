"""Queued tasks are taken up by priority and cost, and none of them waits for ever."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crashing import crashes
from lanes import async_until, every, until
from playing import ACCEPT, limited, plan

from kernel.asking.responder import Ask, Ladder
from kernel.errors import UsageError
from runtime.api.beating import Beat
from runtime.api.fractal import Fractal
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.nervous.messages import Message
from runtime.nervous.queue import Priority, Queued

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
POOL = {"capacity": 1_000, "per_hour": 0}
Make = Callable[..., Fractal]


def queued(priority: str = "normal", cost: float | None = None, hours: float = 0, id: str = "x") -> Queued:
    at = (BEGAN + timedelta(hours=hours)).isoformat()
    return Queued(Message(id=id, type="task", at=at, data={"priority": priority}), cost)


def worker(ask: Ask) -> Any:
    """Reads a file."""
    read = {"tool": "read", "args": {"path": "a.txt"}}
    return ACCEPT if ask.phase == "check" else plan(read, success=[{"judge": "done"}])


@pytest.fixture
def fractal(tmp_path: Path) -> Make:
    def make(worker: Any = worker, place: str = "work", cost: float = 1.0, **settings: Any) -> Fractal:
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "a.txt").write_text("a")
        base = {"embedder": "lexical", "fsync": False, "sandbox": "off", "review": "off", "recall": False}
        ladder = Ladder((limited(Scripted(worker, "model"), cost), Human()))
        return Fractal(tmp_path / place, settings={**base, **settings}, ladder=ladder, trusted=True)

    return make


def beat(fractal: Fractal) -> list[str]:
    """One beat of a new process; the status of each run that it worked on."""
    beating = Beat(fractal, print)
    asyncio.run(beating.run(0.01, once=True))
    return [each.status for each in beating.results]


def taken(fractal: Fractal) -> list[str]:
    """The tasks of runs, in the order in which they began."""
    messages = fractal.nerves.messages
    found = sorted((each for each in messages.all() if each.data.get("taken")), key=lambda each: each.at)
    return [task.text for each in found if (task := messages.get(each.in_reply_to))]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (queued("high", hours=5), queued("normal")),
        (queued("normal", hours=5), queued("low")),
        (queued("normal"), queued("normal", hours=1)),
        (queued("normal", cost=1, hours=1), queued("normal", cost=10)),
        (queued("high", cost=7.5, hours=1), queued("normal", cost=2.5)),
        (queued("normal", cost=0, hours=1), queued("high", cost=30)),
        (queued("low"), queued("normal", hours=25)),  # a day of waiting is a step of priority
        (queued("normal"), queued("nonsense", hours=1)),
    ],
)
def test_the_order_is_by_priority_and_cost_and_waiting(first: Queued, second: Queued) -> None:
    assert first.turn < second.turn


def test_a_cheap_urgent_stream_starves_no_task() -> None:
    """Each hour two tasks are sent and one is done: the expensive one of low priority is done, too."""
    waits = [queued("low", cost=63, id="old")]
    for hour in range(24 * 11):
        waits += [queued("high", cost=0, hours=hour, id=f"{hour} {n}") for n in range(2)]
        done = min(waits, key=lambda each: each.turn)
        waits.remove(done)
        if done.message.id == "old":
            return
    raise AssertionError("it waits for ever")


def test_a_beat_takes_tasks_by_priority_and_then_by_time(fractal: Make) -> None:
    one = fractal()
    sent: list[tuple[str, Priority]] = [
        ("a", "low"),
        ("b", "normal"),
        ("c", "high"),
        ("d", "normal"),
        ("e", "high"),
    ]
    for text, priority in sent:
        one.send(f"look at {text}", priority=priority)
    names = [each.priority for each in one.queue()]
    assert names == ["high", "high", "normal", "normal", "low"]
    assert beat(one) == ["unverified"] * 5
    assert taken(one) == [f"look at {text}" for text in "cebda"]
    assert one.queue() == []
    with pytest.raises(UsageError, match="choose from low, normal, high"):
        one.send("look", priority="soon")  # pyright: ignore[reportArgumentType]


def test_the_unknown_costs_the_middle_of_what_is_known(fractal: Make) -> None:
    known = [("find it in a.txt", 1.0), ("find it in a.txt", 2.0), ("summarize a.txt", 10.0)]
    for text, cost in known:
        asyncio.run(fractal(lifeforce=POOL, cost=cost).run(text))
    one = fractal(lifeforce=POOL)
    for text in ("summarize a.txt", "translate a.txt", "find it in a.txt"):
        one.send(text)
    costs = [("find it in a.txt", 3.0), ("translate a.txt", 4.0), ("summarize a.txt", 20.0)]
    assert [(each.message.text, each.cost) for each in one.queue()] == costs
    assert str(one.queue()[0]) == "normal priority, about 3 lifeforce"
    assert len(beat(one)) == 3 and taken(one) == [text for text, _ in costs]
    unpooled = fractal()
    unpooled.send("translate a.txt")
    unpooled.send(
        "find it in a.txt"
    )  # what costs no lifeforce keeps its order: it may build on the one before
    assert [each.message.text for each in unpooled.queue()] == ["translate a.txt", "find it in a.txt"]


def test_without_lifeforce_what_needs_no_model_is_done_and_the_rest_waits(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("[]")
    ladder = [{"model": "reflex"}, {"model": f"scripted:{tmp_path}/none.yaml", "lifeforce": 10}]
    pool = {"capacity": 5, "per_hour": 0}
    one = Fractal(tmp_path, settings={"sandbox": "off", "ladder": ladder, "lifeforce": pool}, trusted=True)
    one.send("describe the folder", priority="high")
    one.send("what is 2 + 2?", priority="low")
    assert beat(one) == ["waiting", "complete"]
    assert one.lifeforce and one.lifeforce.level().free == 5


def test_a_run_that_waits_for_lifeforce_goes_on_while_beats_go_on(fractal: Make) -> None:
    one = fractal(lifeforce={"capacity": 3, "per_hour": 36_000}, cost=2.0)  # a task costs 4
    one.send("look at a")
    beating = Beat(one, print)

    async def beats() -> None:
        running = asyncio.create_task(beating.run(0.01))
        await async_until(lambda: not one.nerves.messages.open())
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(beats())
    statuses = [each.status for each in beating.results]
    assert statuses[0] == "waiting" and statuses[-1] == "unverified"


SENT: list[tuple[str, Priority]] = [("look at a", "low"), ("look at b", "normal"), ("look at c", "high")]
ORDER = ["look at c", "look at b", "look at a"]


@pytest.mark.timeout(240)
def test_a_beat_that_dies_at_any_write_keeps_the_order(fractal: Make, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": "files", "learn": "off", "observe": []}
    kept = fractal(place="kept", **settings)
    for text, priority in SENT:
        kept.send(text, priority=priority)
    at, died = 1, True
    while died:
        place = shutil.copytree(tmp_path / "kept", tmp_path / f"died{at}").name
        died = crashes(
            partial(beat, fractal(place=place, **settings)), at, ("before", "half", "after")[at % 3]
        )
        one = fractal(place=place, **settings)
        beat(one)
        assert taken(one) == ORDER and len(one.runs()) == 3
        assert one.queue() == [] == one.nerves.messages.open()
        at += 67 * every(3)
    assert at > 200


def test_another_machine_that_takes_over_keeps_the_order(fractal: Make, tmp_path: Path) -> None:
    def slow(ask: Ask) -> Any:
        (tmp_path / "begun").touch()
        signal.pause()

    one = fractal()
    for text, priority in SENT:
        one.send(text, priority=priority)
    if not (other := os.fork()):
        beat(fractal(slow))
        os._exit(1)
    until((tmp_path / "begun").exists)
    assert beat(one) == [] and taken(one) == ORDER[:1]  # the other one leads
    assert [each.message.text for each in one.queue()] == ORDER[1:]
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    assert beat(one) == ["unverified"] * 3 and taken(one) == ORDER
    assert len(one.runs()) == 3
