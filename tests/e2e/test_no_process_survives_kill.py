"""A run killed while its command starts leaves no process behind."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None or Sandbox("bwrap").available() is not None,
    reason="bubblewrap does not work here",
)
KILLS, BY_NIGHT = 40, 300
LONGEST = 0.06
"""Seconds within which the set-up of a command ends."""
PROGRAM = """
import asyncio, sys
from pathlib import Path
from runtime.sandbox.sandbox import Sandbox

async def main():
    sandbox = Sandbox("bwrap")
    assert sandbox.available() is None
    await sandbox.run("true", folder=Path(sys.argv[1]))
    for _ in sys.stdin:
        print("starting", flush=True)
        await sandbox.run(["bash", "-c", "sleep 1000; :", sys.argv[2]], folder=Path(sys.argv[1]))

asyncio.run(main())
"""

SLOW = """#!{python}
import os, sys
words = ["bwrap", *sys.argv[1:]]
if sys.argv[-1].startswith("outlives-"):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    for each in (reading, writing):
        os.set_inheritable(each, True)
    words[1:1] = ["--info-fd", str(writing)]
os.execv("{bwrap}", words)
"""
"""A bubblewrap that stands still where it reports the process that it has started: the pipe is full."""


def _having(marker: str) -> list[str]:
    """The command lines that contain the marker."""
    found: list[str] = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if marker in line:
                found.append(f"{each.name}: {line[:200]} … {line[-120:]}")
    return found


def _left(folder: Path, kills: int, seconds: tuple[float, float] = (0, LONGEST)) -> list[str]:
    """Kill runs at random moments of the start of their command; returns the remaining processes."""
    chance = random.Random(5)
    marker = f"outlives-{uuid.uuid4().hex}"
    for number in range(kills):
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), f"{marker}-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin and process.stdout
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "starting\n"
            time.sleep(chance.uniform(*seconds))
            process.kill()
    until = time.monotonic() + 10
    while (left := _having(marker)) and time.monotonic() < until:
        time.sleep(0.1)
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(int(each.partition(":")[0]), 9)
    return left


def test_killed_run_leaves_no_process(tmp_path: Path) -> None:
    assert _left(tmp_path, KILLS) == []


def test_run_killed_before_bubblewrap_lets_its_process_go_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "bwrap"
    slow.parent.mkdir()
    slow.write_text(SLOW.format(python=sys.executable, bwrap=shutil.which("bwrap")))
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    assert _left(tmp_path, 1, (1, 1)) == []


@pytest.mark.night
@pytest.mark.timeout(600)
def test_hundreds_of_killed_runs_leave_no_process(tmp_path: Path) -> None:
    assert _left(tmp_path, BY_NIGHT) == []
