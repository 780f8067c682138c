"""A run killed while its command starts leaves no process behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from lanes import chance, pause, until

from runtime.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None or Sandbox("bwrap").available() is not None,
    reason="bubblewrap does not work here",
)
KILLS = 300
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


def _left(folder: Path, moments: Iterable[float]) -> list[str]:
    """Kill runs at these moments of the start of their command; returns the remaining processes."""
    marker = f"outlives-{uuid.uuid4().hex}"
    for number, seconds in enumerate(moments):
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
            pause(seconds)
            process.kill()
    with suppress(AssertionError):
        until(lambda: not _having(marker), 30)
    left = _having(marker)
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(int(each.partition(":")[0]), 9)
    return left


def test_killed_run_leaves_no_process(tmp_path: Path) -> None:
    assert _left(tmp_path, [LONGEST * part / 5 for part in range(6)]) == []


def test_run_killed_before_bubblewrap_lets_its_process_go_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "bwrap"
    slow.parent.mkdir()
    slow.write_text(SLOW.format(python=sys.executable, bwrap=shutil.which("bwrap")))
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    assert _left(tmp_path, [1.0]) == []


@pytest.mark.night
@pytest.mark.timeout(600)
def test_hundreds_of_killed_runs_leave_no_process(tmp_path: Path) -> None:
    random = chance(5)
    assert _left(tmp_path, (random.uniform(0, LONGEST) for _ in range(KILLS))) == []
