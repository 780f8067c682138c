"""One process and all that it starts: its input, its output, its time, its end.

This module knows nothing of what the process may see or do; `bubblewrap=True` only says whom to signal.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from kernel.errors import OperationFailed
from runtime.sandbox.limits import Watch, first_served
from runtime.text.terminal import neutralise, printed

_T = TypeVar("_T")

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL of a command."""
FLOOD_BYTES = 100_000_000
"""A process that prints more than this is stopped."""
LINGER = 0.5
"""Seconds that output is awaited from what a process left in the background."""


_LIVE: set[int] = set()
"""The process groups of commands that run now."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: exit code (128 + signal if killed), and its output and errors in order."""

    exit: int
    output: str
    timed_out: bool
    cut: bool
    mode: str
    seconds: float

    @property
    def shown(self) -> str:
        """The output as models and people read it: as a terminal shows it in the end, without colours."""
        return neutralise(printed(self.output))

    @property
    def evidence(self) -> dict[str, Any]:
        """The evidence of a step that ran the command."""
        return {"exit": self.exit, "mode": self.mode, "seconds": round(self.seconds, 3)}

    def marked(self, text: str, limit: float, marks: Sequence[str] = ()) -> str:
        """A text followed by these marks, and by one if the command failed or exceeded `limit` seconds."""
        stopped = [f"stopped after {limit:g} s"] if self.timed_out else []
        ended = [*marks, *stopped, *([f"exit {self.exit}"] if self.exit else [])]
        return "\n".join([*([text] if text else []), *(f"[{mark}]" for mark in ended)])


@dataclass(frozen=True)
class ProcessResult:
    """The result of a process; `started` is False if bubblewrap could not start the command."""

    exit: int
    output: str
    timed_out: bool
    cut: bool
    started: bool


async def supervise(
    words: Sequence[str],
    *,
    folder: Path,
    env: Mapping[str, str],
    stdin: str | None,
    timeout: float,
    limit: int,
    bubblewrap: bool,
    refused: bytes = b"",
    watch: Watch | None = None,
    lifeline: Lifeline | None = None,
) -> ProcessResult:
    """Run `words` until they end, for `timeout` seconds at most; output and errors come as one text.

    With `watch`, a command that takes more of the machine than it may is killed. Otherwise the group gets
    SIGTERM, then SIGKILL. Whatever is left of it is killed, also when this call is cancelled. With a
    `lifeline` the command asks over it before it begins, and does not begin if this process has died.
    `refused` is a filter of system calls for bubblewrap.
    """
    with ExitStack() as stack:
        output = _Output(stack, limit)
        status = _Status(stack) if bubblewrap else None
        passed = [status.file.fileno()] if status else []
        if status:
            words = [words[0], "--json-status-fd", str(status.file.fileno()), *words[1:]]
            if refused:
                passed.append(_in_memory(stack, refused))
                words = [words[0], "--seccomp", str(passed[-1]), *words[1:]]
        if lifeline:
            passed.append(lifeline.passed)
            words = lifeline.watched(words)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=folder,
                env=env,
                stdin=stack.enter_context(_input(stdin)),
                stdout=output.writing,
                stderr=output.writing,
                start_new_session=True,
                pass_fds=passed,
            )
        except (OSError, ValueError) as error:  # too long, or a NUL in it
            hint = "; give long data by standard input or a file" if isinstance(error, OSError) else ""
            raise OperationFailed(f"the command cannot be started: {error}{hint}") from None
        stack.callback(_LIVE.discard, process.pid)
        _LIVE.add(process.pid)
        output.handed_over()
        if lifeline:
            lifeline.answer(stack)
        if watch:
            stack.enter_context(first_served())
        timed_out = await _until_end(process, output, status, timeout, watch)
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        stopped = timed_out or output.flooded.is_set() or bool(watch and watch.exceeded)
        started = status is None or code < 0 or status.get("exit-code") is not None or stopped
        text, cut = output.text()
        if watch and watch.exceeded:
            text = f"{text.removesuffix(chr(10))}\n[stopped: {watch.exceeded}]".removeprefix("\n")
        return ProcessResult(code if code >= 0 else 128 - code, text, timed_out, cut, started)


def end_all() -> None:
    """Kill the process group of every running command, before this process exits at once."""
    for group in list(_LIVE):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


async def _until_end(
    process: asyncio.subprocess.Process,
    output: _Output,
    status: _Status | None,
    timeout: float,
    watch: Watch | None,
) -> bool:
    """Wait for the process to end, or kill it; True after a timeout."""
    ending = asyncio.create_task(process.wait())
    over = [asyncio.create_task(output.flooded.wait())]
    over += [asyncio.create_task(watch.until_exceeded(process.pid))] if watch else []
    try:
        await asyncio.wait({ending, *over}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        timed_out = not any(each.done() for each in (ending, *over))
        if timed_out:
            end_group(process, status, signal.SIGTERM)
            await asyncio.wait({ending, *over}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(output.ended.wait(), LINGER)
        return timed_out
    finally:
        for each in over:
            each.cancel()
        end_group(process, status, signal.SIGKILL)
        await finish(ending)


def end_group(process: asyncio.subprocess.Process, status: _Status | None, number: signal.Signals) -> None:
    """Signal its group; not bubblewrap itself with SIGTERM: it would end, and take the command along."""
    ended = process.returncode is not None
    if status and ended:
        return  # and with it its process namespace: the numbers may be others' by now
    inner = status.get("child-pid") if status else None
    groups = [inner] if inner else []
    if status is None or number == signal.SIGKILL:
        groups.append(process.pid)
    for group in groups:
        if ended and Path(f"/proc/{group}").exists():
            continue  # its leader is dead; this process has reused its id
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


async def finish(task: asyncio.Future[_T]) -> _T:
    """Wait for a task to end, even if cancelled; the cancellation is raised afterwards."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()


def _input(text: str | None) -> IO[bytes]:
    """Standard input as an unnamed file, so that nothing is fed while the process runs."""
    if text is None:
        return Path(os.devnull).open("rb")
    handle = tempfile.TemporaryFile()  # noqa: SIM115 (the caller's stack closes it)
    handle.write(text.encode("utf-8", "surrogatepass"))
    handle.seek(0)
    return handle


def _in_memory(stack: ExitStack, raw: bytes) -> int:
    """The descriptor of a file with these bytes, read from its start."""
    handle = os.memfd_create("filter")
    stack.callback(os.close, handle)
    os.write(handle, raw)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


class _Output:
    """Output of the process: head and tail within the limit; the rest is counted and discarded."""

    def __init__(self, stack: ExitStack, limit: int) -> None:
        self.ended, self.flooded = asyncio.Event(), asyncio.Event()
        self._limit = limit
        self._head, self._tail, self._total = bytearray(), bytearray(), 0
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)
        stack.callback(self._close)

    def handed_over(self) -> None:
        """Close our copy of the writing end, so that the last process closes the pipe."""
        os.close(self.writing)
        self.writing = -1

    def _close(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        if self.writing >= 0:
            self.handed_over()

    def _read(self) -> None:
        try:
            data = os.read(self._reading, 262_144)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._reading)
            self.ended.set()
            return
        self._total += len(data)
        room = 4 * self._limit - len(self._head)  # a character takes at most four bytes
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 8 * self._limit:
            del self._tail[: -4 * self._limit]
        if self._total > FLOOD_BYTES:
            self.flooded.set()

    def text(self) -> tuple[str, bool]:
        """The output, and whether something was cut out of its middle."""
        run_to_end = len(self._head) + len(self._tail) == self._total
        text = (self._head + self._tail).decode("utf-8", "replace") if run_to_end else ""
        if run_to_end and len(text) <= self._limit:
            return text, False
        first = self._limit // 3
        head = (text or self._head.decode("utf-8", "replace"))[:first]
        tail = (text or self._tail.decode("utf-8", "replace"))[first - self._limit :]
        missing = self._total - len(head.encode()) - len(tail.encode())
        mark = f"[… about {max(missing, 1)} bytes of output cut …]"
        if self.flooded.is_set():
            mark += f"\n[stopped: more than {FLOOD_BYTES // 1_000_000} MB of output]"
        return f"{head}\n{mark}\n{tail}", True


class Lifeline:
    """Lets a sandboxed command ask whether the process that started it is alive.

    While bubblewrap sets the sandbox up, `--die-with-parent` does not hold yet: who is killed then would
    leave a command behind. So the command asks when the set-up is over, and ends where nobody answers.
    The process that bubblewrap starts first waits to be let go, for ever if bubblewrap is killed before. So
    a second process watches until the set-up is over, and kills the group if this process ends before.
    """

    ASK = 'fd=$1; shift; printf . >&"$fd" && read -rN1 -u "$fd" || exit 125; exec {fd}>&-; '
    """What bash does first, with the number of the descriptor as its first argument."""
    _WATCH = (
        'fd=$1; shift; (read -rN1 -u "$fd" || kill -9 0) </dev/null >/dev/null 2>&1 & '
        'exec "$@"'  # bash becomes bubblewrap: the first process of the group stays the same
    )

    def __init__(self, stack: ExitStack, bash: str) -> None:
        self._bash = bash
        self._own, self._other = (stack.enter_context(each) for each in socket.socketpair())
        self._own.setblocking(False)

    @property
    def passed(self) -> int:
        """The descriptor that the command gets."""
        return self._other.fileno()

    def watched(self, words: Sequence[str]) -> list[str]:
        """The words that start the process that watches, then become bubblewrap."""
        return [self._bash, "-c", self._WATCH, "watch", str(self.passed), *words]

    def answer(self, stack: ExitStack) -> None:
        """Close our copy of the command's end, and answer as soon as it asks."""
        self._other.close()
        loop, own = asyncio.get_running_loop(), self._own.fileno()
        loop.add_reader(own, self._answer, loop, own)
        stack.callback(loop.remove_reader, own)

    def _answer(self, loop: asyncio.AbstractEventLoop, own: int) -> None:
        loop.remove_reader(own)
        with suppress(OSError):
            if self._own.recv(1):
                self._own.send(b"..")  # one for the command, one for the process that watches


class _Status:
    """Status reports of bubblewrap: the process it started and how it ended.

    It writes into a file: a pipe without a reader would end it in the middle of the set-up, and the process
    that it has started would wait for it for ever.
    """

    def __init__(self, stack: ExitStack) -> None:
        self.file = stack.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115

    def get(self, name: str) -> Any:
        """A value reported so far, or None."""
        for line in os.pread(self.file.fileno(), 65_536, 0).splitlines():
            with suppress(ValueError):
                report = json.loads(line)
                if name in report:
                    return report[name]
        return None


async def run_to_end(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread; a cancellation waits for it to end."""
    return await finish(asyncio.ensure_future(asyncio.to_thread(work)))
