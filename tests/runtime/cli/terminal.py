"""A terminal to run `fractal` in: a pseudo-terminal whose screen can be read."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lanes import PATIENCE, until
from warm import Process

pyte: Any = pytest.importorskip("pyte")


class Terminal:
    """One process in a terminal of its own. `raw` is everything that it wrote."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: dict[str, str], columns: int = 80, lines: int = 24
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._handle, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = Process(
            command,
            cwd=folder,
            env={**env, "TERM": "xterm-256color"},
            stdin=child,
            stdout=child,
            stderr=child,
            terminal=True,
        )
        os.close(child)
        # replies of a terminal, such as the position of its cursor
        self.screen.write_process_input = lambda data: os.write(self._handle, data.encode())

    def read(self, seconds: float) -> bool:
        """Take in what comes within so many seconds; False at the end."""
        if not select.select([self._handle], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._handle, 65536)
        except OSError:  # the other side is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def until(self, seen: Callable[[str], bool] | str, seconds: float = PATIENCE) -> str:
        """Wait until the screen shows it; returns the screen's text."""

        def shown() -> bool:
            more = self.read(0.05)
            found = seen(self.text) if callable(seen) else seen in self.text
            assert found or more, f"not shown: {seen}\n{self.text}"
            return found

        until(shown, seconds, lambda: f"{seen}\n{self.text}")
        return self.text

    def type(self, text: str) -> None:
        """What a person types; `\\x03` is Ctrl-C."""
        os.write(self._handle, text.encode())

    def finish(self) -> int:
        """Read to the end; returns the exit code."""
        until(lambda: not self.read(0.1), says=lambda: self.text)
        return self.process.wait(PATIENCE)

    @property
    def text(self) -> str:
        """The lines of the screen that are not empty."""
        return "\n".join(line.rstrip() for line in self.screen.display if line.strip())

    def close(self) -> None:
        """End the process if it is still there."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._handle)
