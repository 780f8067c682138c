"""Runs `fractal serve` as a process of its own on a free port of loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-c", "from runtime.cli import main; main()", "serve", "--address", "127.0.0.1:0"]
REPOSITORY = Path(__file__).parents[3]


@dataclass
class Served:
    """A server: its address, and its process."""

    url: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """Kill it as a crash would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def served(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Generator[Served]:
    """A server of this folder, with these options and variables; it is stopped after the block."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "FRACTAL_TRUST") if key in os.environ}
    own = {"PYTHONPATH": str(REPOSITORY), "XDG_CONFIG_HOME": "/nonexistent", "FRACTAL_EMBEDDER": "lexical"}
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env={**kept, **own, **(env or {})},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("Fractal at http"), line + process.stderr.read()
        yield Served(line.split()[2].rstrip(","), process)
    finally:
        process.terminate()
        process.communicate(timeout=60)
