"""Workspaces that share messages in PostgreSQL: each works on its own runs, and a task is taken once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from in_process import Ran, in_process
from lanes import async_pause, async_until
from playing import ACCEPT, plan, write
from postgres_server import PostgresServer
from warm import Process

from kernel.asking.responder import Ask, Ladder
from kernel.errors import StorageError, UsageError
from runtime.api.beating import Beat
from runtime.api.fractal import Fractal
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.workspace.deciders import TERMINAL

Make = Callable[..., Fractal]


def worker(ask: Ask) -> Any:
    if ask.phase == "check":
        return ACCEPT
    return plan(write("words.txt", "5\n"), success=[{"file": "words.txt", "has": "5"}])


def passes(ask: Ask) -> Any:
    return {"decision": "pass", "why": "only you know"}


@pytest.fixture
def machine(tmp_path: Path, postgres: PostgresServer) -> Iterator[Make]:
    """A workspace of its own that shares its memory with the others."""
    store, made = f"postgres:{blake2b(str(tmp_path).encode(), digest_size=8).hexdigest()}", list[Fractal]()

    def make(place: str, oversight: Any = None, **settings: Any) -> Fractal:
        rungs = [Scripted(worker, name="worker")]
        rungs += [Scripted(oversight, name="large", tier="oversight")] if oversight else []
        (tmp_path / place).mkdir(exist_ok=True)
        settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", "store": store, **settings}
        made.append(Fractal(tmp_path / place, settings=settings, ladder=Ladder((*rungs, Human()))))
        return made[-1]

    yield make
    for each in made:
        each.memory.brain.close()


def beat(fractal: Fractal) -> list[str]:
    """One beat of a new process; the status of each run that it worked on."""
    beating = Beat(fractal, print)
    asyncio.run(beating.run(0.01, once=True))
    return [each.status for each in beating.results]


def types(fractal: Fractal) -> list[str]:
    return [each.type for each in fractal.nerves.messages.all() if not each.data.get("taken")]


def test_a_task_of_one_workspace_is_taken_by_the_beat_of_another_once(machine: Make, tmp_path: Path) -> None:
    here, there = machine("here"), machine("there")
    here.send("write the sum of two and three", by=TERMINAL)
    assert beat(there) == ["complete"]
    assert (tmp_path / "there/words.txt").exists() and not (tmp_path / "here/words.txt").exists()
    assert beat(here) == beat(there) == []
    assert types(here) == types(there) == ["task", "outcome"]


def test_a_run_is_continued_where_it_is_whoever_replies(machine: Make, tmp_path: Path) -> None:
    here, there = (machine(name, passes, review="always") for name in ("here", "there"))
    here.send("write the sum of two and three", by=TERMINAL)
    assert beat(there) == ["waiting"]
    assert beat(here) == []  # the run is not gone: it is elsewhere
    (proposal,) = [thread[0] for thread in here.nerves.messages.open() if thread[0].type == "proposal"]
    here.reply(proposal.id[:8], "approve", by=TERMINAL)
    assert beat(here) == []
    assert beat(there) == ["complete"]
    assert (tmp_path / "there/words.txt").exists() and here.nerves.messages.open() == []


def test_a_task_whose_machine_died_waits_for_that_machine(machine: Make) -> None:
    here, there = machine("here"), machine("there")
    task = here.send("write the sum of two and three", by=TERMINAL)
    there.workspace.make()
    there.nerves.messages.write(
        task.id, "taken", run=there.workspace.new_run(), in_reply_to=task.id, data={"taken": True}
    )
    assert beat(here) == []
    assert beat(there) == ["complete"]


def test_two_beats_at_once_begin_each_task_once(machine: Make, tmp_path: Path) -> None:
    here, _ = machine("here"), machine("there")
    tasks = [here.send(f"write the sum of two and {n}", by=TERMINAL).id for n in range(4)]
    store, environment = here.config.store, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    beats = [
        Process([sys.executable, "-c", BEATING, str(tmp_path / place), store], env=environment)
        for place in ("here", "there")
    ]
    assert [each.wait() for each in beats] == [0, 0]
    taken = [each for each in here.nerves.messages.all() if each.data.get("taken")]
    assert sorted(each.in_reply_to for each in taken) == sorted(tasks)
    runs = [run for place in ("here", "there") for run in Fractal(tmp_path / place).workspace.run_ids()]
    assert sorted(runs) == sorted(each.run for each in taken)
    assert here.nerves.messages.threads() == []


def test_one_workspace_at_a_time_dreams_and_restores_only_its_own_files(machine: Make) -> None:
    here, there = machine("here").memory.dreamer, machine("there").memory.dreamer
    here.hold("one")
    with pytest.raises(UsageError, match="a dream is already running on another machine; one at a time"):
        there.hold("two")
    here.archive.begin()
    here.release()  # as if it had been killed in a stage
    there.hold("two")
    pattern = there.memory / "patterns" / "mine.md"
    pattern.parent.mkdir()
    pattern.write_text("mine")
    assert there.archive.recover() == [] and pattern.exists()
    there.release()


def test_what_is_told_here_is_recalled_there_and_forgotten_everywhere(machine: Make, tmp_path: Path) -> None:
    store, environment = machine("here").config.store, {**os.environ, "NO_COLOR": "1"}

    def fractal(place: str, *words: str) -> Ran:
        return in_process(tmp_path / place, words, {**environment, "FRACTAL_STORE": store})

    (tmp_path / "there").mkdir()
    assert "I know nothing" in fractal("there", "recall", "where is the office?").err
    assert fractal("here", "remember", "The office is in Bern.").exit == 0
    assert "The office is in Bern." in fractal("there", "recall", "where is the office?").out
    assert f"{store} at " in fractal("there", "brain", "check").out
    assert fractal("there", "brain", "export", "all.jsonl").exit == 0
    assert "0 new, 0 changed" in fractal("here", "brain", "import", str(tmp_path / "there/all.jsonl")).out
    assert "its memory is in PostgreSQL" in fractal("there", "brain", "compare", "all.jsonl", ".").err
    assert fractal("here", "forget", "office", "--yes").exit == 0
    assert "I know nothing" in fractal("there", "recall", "where is the office?").err
    assert "no decisions here yet" in fractal("there", "brain", "report").err


def test_a_beat_goes_on_when_the_server_is_back(machine: Make, postgres: PostgresServer) -> None:
    here, there = machine("here"), machine("there")
    said: list[str] = []
    beating = Beat(there, said.append)

    async def through_a_restart() -> None:
        led = asyncio.create_task(beating.run(0.01))
        await async_pause(0.1)
        postgres.stop()
        await async_pause(0.1)
        with pytest.raises(StorageError, match="see that PostgreSQL runs and FRACTAL_POSTGRES is right"):
            here.send("write the sum of two and three", by=TERMINAL)
        postgres.start()
        here.send("write the sum of two and three", by=TERMINAL)
        await async_until(lambda: beating.results)
        led.cancel()
        await asyncio.gather(led, return_exceptions=True)

    asyncio.run(through_a_restart())
    assert [each.status for each in beating.results] == ["complete"]
    assert any("see that PostgreSQL runs" in text for text in said)
    assert types(here) == ["task", "outcome"]


BEATING = """
import asyncio, sys
from playing import ACCEPT, plan, write
from kernel.asking.responder import Ladder
from runtime.api.beating import Beat
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
settings = {"embedder": "lexical", "fsync": False, "sandbox": "off", "store": sys.argv[2]}
def worker(ask):
    return ACCEPT if ask.phase == "check" else plan(write("words.txt", "5"))
fractal = Fractal(sys.argv[1], settings=settings, ladder=Ladder((Scripted(worker, name="worker"),)))
asyncio.run(Beat(fractal, print).run(0.01, once=True))
"""
