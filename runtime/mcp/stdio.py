"""A server that is a program of ours to start: messages on its standard input and output, a line each.

The SDK's own transport keeps a line however long it grows, writes what it cannot read to our terminal, and
lets the server write there too; this one does none of that. The program gets a clean environment and a
process group of its own, which is ended with the connection.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import ConfigurationError
from kernel.screening import neutralise
from runtime.mcp.configured import Entry

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MESSAGE_BYTES = 16_000_000
"""A longer message ends the connection."""
GARBAGE_BYTES = 1_000_000
"""So much on standard output that is no message ends it as well."""
LOG_BYTES = 256_000
"""Of what a server writes to standard error in one session, what is kept."""
GRACE = 1.0
"""Seconds that a server has to end by itself once its input is closed, and again after SIGTERM."""
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Program:
    """One session with a program; `why` tells how it went wrong, once it has."""

    def __init__(self, entry: Entry, log: Path) -> None:
        self.entry = entry
        self.log = log
        self.why = ""
        self.garbage = 0
        self.strange = ""  # the first line that was no message
        self.said = ""  # its last words on standard error
        self.gone = asyncio.Event()

    def told(self) -> str:
        """What is known of it, for whoever wonders why a call failed."""
        pieces: list[str] = [self.why] if self.why else []
        if self.strange:
            pieces.append(f"it printed what is no message: {self.strange!r}")
        if self.said:
            pieces.append(f"its last words: {self.said!r}; more in {self.log}")
        return "; ".join(pieces)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Start it, and hand over its messages; ends it and all that it has started."""
        import anyio
        from mcp.shared.message import SessionMessage

        process = await self._started()
        to_us, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(each)
            for each in (self._read(process, to_us), self._write(process, from_us), self._note(process))
        ]
        try:
            yield received, sent
        finally:
            for stream in (received, sent):
                stream.close()
            try:
                await self._ended(process)
            finally:
                _signal(process, signal.SIGKILL)  # whatever is left of its group
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                to_us.close()
                from_us.close()
                if transport := getattr(process, "_transport", None):
                    transport.close()  # else it stays open while somebody else holds a pipe

    async def _started(self) -> asyncio.subprocess.Process:
        entry = self.entry
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment = {**kept, "TERM": "dumb", **entry.env}
        folder = entry.cwd or Path.cwd()
        if not folder.is_dir():
            raise ConfigurationError(f"its folder {folder} is not there; mend cwd in {entry.source}")
        program = shutil.which(entry.command, path=environment.get("PATH", os.defpath))
        if "/" in entry.command:
            program = str(folder / entry.command)
        if program is None or not os.access(program, os.X_OK):
            mend = f"install it, or mend command in {entry.source}"
            raise ConfigurationError(f"there is no program {entry.command}; {mend}")
        words = [program, *entry.args]
        if setpriv := shutil.which("setpriv"):  # ends it also when we are killed
            words = [setpriv, "--pdeathsig", "KILL", "--", *words]
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                cwd=folder,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=MESSAGE_BYTES,
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"it cannot be started: {error}") from None

    async def _read(self, process: asyncio.subprocess.Process, to_us: Any) -> None:
        import anyio
        import mcp_types
        from mcp.shared.message import SessionMessage

        assert process.stdout
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with to_us:
                while True:
                    try:
                        line = await process.stdout.readuntil(b"\n")
                    except asyncio.IncompleteReadError as error:
                        if error.partial.strip():
                            self._strange(error.partial)
                        break
                    except asyncio.LimitOverrunError:
                        self.why = f"it sent a message of more than {MESSAGE_BYTES // 1_000_000} MB"
                        break
                    if not line.strip():
                        continue
                    try:
                        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        if self._strange(line):
                            break
                        continue
                    await to_us.send(SessionMessage(message))
                await self._say_why(process)
                self.gone.set()

    def _strange(self, line: bytes) -> bool:
        """Note a line that is no message; True when there are too many."""
        self.garbage += len(line)
        if not self.strange:
            self.strange = neutralise(line[:200].decode("utf-8", "replace").strip())[:80]
        if self.garbage > GARBAGE_BYTES:
            self.why = f"it printed more than {GARBAGE_BYTES // 1_000_000} MB that is no message"
        return self.garbage > GARBAGE_BYTES

    async def _say_why(self, process: asyncio.subprocess.Process) -> None:
        """Before anybody hears that the connection is gone, find out how the program ended."""
        if self.why:
            return
        await _exited(process, 0.3)
        code = process.returncode
        if code is None:
            self.why = "it closed its standard output"
        else:
            self.why = f"it ended with exit code {code}" if code >= 0 else f"signal {-code} ended it"

    async def _write(self, process: asyncio.subprocess.Process, from_us: Any) -> None:
        assert process.stdin
        with suppress(OSError):
            async with from_us:
                async for each in from_us:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                    await process.stdin.drain()

    async def _note(self, process: asyncio.subprocess.Process) -> None:
        """Keep the head of what it writes to standard error, and its last line."""
        assert process.stderr
        self.log.parent.mkdir(parents=True, exist_ok=True)
        room = LOG_BYTES
        large = self.log.exists() and self.log.stat().st_size > 4 * LOG_BYTES
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if large else os.O_APPEND)
        with os.fdopen(os.open(self.log, flags, 0o600), "wb") as log:
            log.write(f"== {datetime.now(UTC).isoformat(timespec='seconds')} {self.entry.shown}\n".encode())
            while data := await process.stderr.read(65_536):
                if room > 0:
                    log.write(data[:room])
                    if len(data) > room:
                        log.write(b"\n[the rest of this session is not kept]\n")
                    log.flush()
                    room -= len(data)
                lines = data[-2_000:].decode("utf-8", "replace").strip().splitlines()
                self.said = neutralise(lines[-1].strip())[:200] if lines else self.said

    async def _ended(self, process: asyncio.subprocess.Process) -> None:
        """Close its input, wait, then ask it to end, wait again."""
        if process.stdin:
            process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number:
                _signal(process, number)
            elif self.why:
                continue  # it is not at its best: no time to end by itself
            if await _exited(process, GRACE):
                break


async def _exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it ends in time; by looking, because waiting would be for whoever holds its pipes as well."""
    end = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the whole group: its number is the leader's, also when that has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
