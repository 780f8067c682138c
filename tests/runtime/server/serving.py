"""Runs the server on a free port of loopback: as a process (`fractal serve`), or in a thread."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_place import TOKEN
from warm import Process

from runtime.server.app import create_app
from runtime.server.serving import serving

COMMAND = [sys.executable, "-c", "from runtime.cli import main; main()", "serve", "--address", "127.0.0.1:0"]
REPOSITORY = Path(__file__).parents[3]


@dataclass
class Served:
    """A server: its address, and its process."""

    url: str
    process: Process

    def kill(self) -> None:
        """Kill it as a crash would."""
        self.process.kill()
        self.process.wait()


def variables(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command of a test, with these variables."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "FRACTAL_TRUST") if key in os.environ}
    own = {"PYTHONPATH": str(REPOSITORY), "XDG_CONFIG_HOME": "/nonexistent", "FRACTAL_EMBEDDER": "lexical"}
    return {**kept, **own, **more}


@contextmanager
def served(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Generator[Served]:
    """A server of this folder, with these options and variables; it is stopped after the block.

    Its token is `TOKEN`, where neither says another.
    """
    own = {} if {"--token", "--no-token"} & set(words) else {"FRACTAL_TOKEN": TOKEN}
    process = Process(
        [*COMMAND, *words],
        cwd=folder,
        env=variables({**own, **(env or {})}),
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


@contextmanager
def in_thread(folder: Path, *, token: str = "", **settings: Any) -> Generator[str]:
    """The address of a server of this folder in this process, which starts faster than `served`."""
    app = create_app(folder, settings={"embedder": "lexical", **settings}, token=token)
    server, listening = serving(app), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
