"""`fractal brain checkpoint` copies memory and goes back; dreams and time make copies too."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import Command
from lanes import async_pause, async_until
from postgres_server import PostgresServer

from runtime.api.checkpointing import keep_making, listed, make_if_due
from runtime.api.fractal import Fractal
from runtime.api.knowledge import remember
from runtime.workspace.workspace import run_lock

SETTINGS = {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_FSYNC": "false"}


def facts(fractal: Command, env: dict[str, str]) -> str:
    lines = fractal("brain", "export", env=env).out.splitlines()
    return "\n".join(line for line in lines if '"type-stamp"' not in line)


def names(fractal: Command, env: dict[str, str] = SETTINGS) -> list[str]:
    return [each["name"] for each in json.loads(fractal("brain", "checkpoint", "ls", "--json", env=env).out)]


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_memory_goes_back_to_a_checkpoint_and_forth(fractal: Command, store: str) -> None:
    env = {**SETTINGS, "FRACTAL_STORE": store}
    fractal("remember", "the gate code is 4711", env=env)
    memory = fractal.folder / ".fractal" / "state" / "memory"
    (memory / "patterns").mkdir(exist_ok=True)
    (memory / "patterns" / "one.md").write_text("one", "utf-8")
    before = facts(fractal, env)
    assert fractal("brain", "checkpoint", env=env).exit == 0
    fractal("remember", "the gate is green", env=env)
    (memory / "patterns" / "one.md").write_text("two", "utf-8")
    after = facts(fractal, env)
    (first,) = names(fractal, env)
    done = fractal("brain", "checkpoint", "restore", first, env=env)
    assert done.exit == 0, done.err
    assert facts(fractal, env) == before != after
    assert (memory / "patterns" / "one.md").read_text("utf-8") == "one"
    assert fractal("brain", "check", env=env).exit == 0
    fractal("brain", "checkpoint", "restore", names(fractal, env)[-1], env=env)
    assert facts(fractal, env) == after
    assert (memory / "patterns" / "one.md").read_text("utf-8") == "two"
    assert "green" in fractal("recall", "gate green", env=env).out


def test_the_oldest_are_removed_and_what_a_crash_left_is_no_checkpoint(fractal: Command) -> None:
    env = {**SETTINGS, "FRACTAL_CHECKPOINTS": "2"}
    fractal("remember", "the gate code is 4711", env=env)
    folder = fractal.folder / ".fractal" / "state" / "checkpoints"
    (folder / ".unfinished" / "memory").mkdir(parents=True)
    made = [json.loads(fractal("brain", "checkpoint", "--json", env=env).out)["name"] for _ in range(3)]
    assert names(fractal) == made[1:]
    assert not (folder / ".unfinished").exists()


def test_a_dream_makes_one_first_unless_the_setting_is_off(fractal: Command) -> None:
    fractal("remember", "the gate code is 4711", env=SETTINGS)
    assert fractal("dream", "-q", env={**SETTINGS, "FRACTAL_CHECKPOINTS": "0"}).exit == 0
    assert names(fractal) == []
    assert fractal("dream", "-q", env=SETTINGS).exit == 0
    (made,) = json.loads(fractal("brain", "checkpoint", "ls", "--json", env=SETTINGS).out)
    assert made["why"] == "before a dream"


def test_forgetting_removes_them(fractal: Command) -> None:
    fractal("remember", "the gate code is heliotrope", env=SETTINGS)
    fractal("brain", "checkpoint", env=SETTINGS)
    looked = fractal("forget", "heliotrope", env=SETTINGS)
    done = fractal("forget", "heliotrope", "--yes", env=SETTINGS)
    assert done.exit == 0
    assert "stays" not in looked.out + done.out, "what is removed does not stay"
    assert "1 file" in done.out
    assert names(fractal) == []
    left = (fractal.folder / ".fractal").rglob("*")
    assert not [path for path in left if path.is_file() and b"heliotrope" in path.read_bytes()]


def test_what_cannot_be_done_is_said(fractal: Command) -> None:
    assert "nothing is remembered" in fractal("brain", "checkpoint", env=SETTINGS).err
    fractal("remember", "the gate code is 4711", env=SETTINGS)
    name = json.loads(fractal("brain", "checkpoint", "--json", env=SETTINGS).out)["name"]
    assert "a NAME is for restore" in fractal("brain", "checkpoint", "restore", env=SETTINGS).err
    unknown = fractal("brain", "checkpoint", "restore", "1999", env=SETTINGS)
    assert (unknown.exit, name in unknown.err) == (2, True)
    run = fractal.folder / ".fractal" / "state" / "runs" / "7f3kq2"
    run.mkdir(parents=True)
    with run_lock(run):
        busy = fractal("brain", "checkpoint", "restore", name, env=SETTINGS)
    assert (busy.exit, "7f3kq2" in busy.err) == (2, True)
    copy = fractal.folder / ".fractal" / "state" / "checkpoints" / name / "memory" / "brain.sqlite3"
    before = facts(fractal, SETTINGS)
    copy.write_bytes(b"SQLite format 3\0 and no more")
    broken = fractal("brain", "checkpoint", "restore", name, env=SETTINGS)
    assert broken.exit != 0
    assert facts(fractal, SETTINGS) == before
    copy.unlink()
    missing = fractal("brain", "checkpoint", "restore", name, env=SETTINGS)
    assert "choose another checkpoint" in missing.err
    assert facts(fractal, SETTINGS) == before


async def test_time_makes_one_only_where_memory_has_changed(tmp_path: Path) -> None:
    settings = {"embedder": "lexical", "fsync": False, "checkpoint_hours": 0.05 / 3600}
    fractal = Fractal(tmp_path, settings=settings)
    remember(fractal, "the gate code is 4711")
    making = asyncio.create_task(keep_making(fractal))
    await async_until(lambda: listed(fractal))
    await async_pause(0.5)  # ten times as long as it waits between two
    making.cancel()
    with suppress(asyncio.CancelledError):
        await making
    (made,) = listed(fractal)
    assert made.why == "by time"


def test_what_changes_in_postgres_is_copied_too(tmp_path: Path, postgres: PostgresServer) -> None:
    settings = {"embedder": "lexical", "store": "postgres:checkpoints"}
    fractal = Fractal(tmp_path, settings=settings)
    for number in range(2):
        remember(fractal, f"the gate code is {number}")
        assert make_if_due(fractal, "by time")
    assert len(listed(fractal)) == 2
    fractal.brain.close()
