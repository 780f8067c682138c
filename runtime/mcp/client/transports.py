"""The two transports: a program that speaks on its standard input and output, and a server at an address.

The SDK's stdio transport does not limit the length of a line, and prints to the terminal what it cannot
parse; this one does neither. A program gets its own process group, which ends with the connection.
Addresses use the SDK's transports with a limit on the size of answers.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.texts import Pieces
from kernel.errors import ConfigurationError
from runtime.http_transport import transport
from runtime.mcp.client import login
from runtime.mcp.client.configured import Entry
from runtime.mcp.client.mending import mend_body, message_of
from runtime.received import TooLarge, hold
from runtime.sandbox.sandbox import Lasting
from runtime.secrets.redaction import redact
from runtime.text.terminal import neutralise

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MESSAGE_BYTES = 16_000_000
"""A longer message ends the connection."""
GARBAGE_BYTES = 1_000_000
"""More invalid lines on standard output end it too."""
LOG_BYTES = 256_000
"""Bytes of a session's standard error that are logged."""
GRACE = 1.0
"""Seconds for a program to exit after its input is closed, and again after SIGTERM."""
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0
"""How long a stream may be silent; a call has a shorter limit."""
_NO_SESSION = re.compile(
    r"\bsession\b[^.]{0,60}\b(?:not (?:found|valid|exist)|terminat|expir|invalid|unknown|clos|ended|gone)"
    r"|\bsession\b[^.]{0,60}\b(?:required|no longer|missing|unrecogni)|\bnot initiali[sz]ed"
    r"|\b(?:no|unknown|invalid|expired|missing|stale)(?: valid)? (?:mcp[- ])?session",
    re.IGNORECASE,
)
"""How servers say that they do not know a session; the protocol wants the status 404."""
STREAM_BYTES = 8 * MESSAGE_BYTES
"""The limit of a stream of messages; a single message is limited by `MESSAGE_BYTES`."""
Starting = Callable[[], AbstractContextManager[tuple[Lasting, Path]]]
"""What starts a program, and in which folder; what it needs is there until the context ends."""


class Program:
    """One session with a program; `why` says how it failed, else it is empty."""

    def __init__(self, entry: Entry, log: Path, starting: Starting) -> None:
        self.entry = entry
        self.log = log
        self._starting = starting
        self.why = ""
        self.garbage = 0
        self.invalid = ""  # the first invalid line
        self.last_output = ""  # its last line on standard error
        self.gone = asyncio.Event()

    def is_over(self, message: str) -> bool:
        """Whether an error says that the session is over: a program has only one."""
        return False

    def details(self) -> str:
        """What is known about a failure, for the error message."""
        pieces: list[str] = [self.why] if self.why else []
        if self.invalid:
            pieces.append(f"it printed an invalid message: {self.invalid!r}")
        if self.last_output:
            pieces.append(f"its last output: {self.last_output!r}; see {self.log}")
        return "; ".join(pieces)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Start the program and yield its streams; at the end, end its process group."""
        import anyio
        from mcp.shared.message import SessionMessage

        stack = ExitStack()
        try:
            process = await self._started(stack)
        except BaseException:
            stack.close()
            raise
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
                _signal(process, signal.SIGKILL)  # the rest of its group
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                to_us.close()
                from_us.close()
                if transport := getattr(process, "_transport", None):
                    transport.close()  # it stays open while another process holds a pipe
                stack.close()

    async def _started(self, stack: ExitStack) -> asyncio.subprocess.Process:
        start, folder = stack.enter_context(self._starting())
        try:
            process = await asyncio.create_subprocess_exec(
                *start.words,
                cwd=folder,
                env=dict(start.env),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                pass_fds=tuple(start.pass_fds),
                limit=MESSAGE_BYTES,
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"it cannot be started: {error}") from None
        start.begun()
        return process

    async def _read(self, process: asyncio.subprocess.Process, to_us: Any) -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        assert process.stdout
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with to_us:
                while True:
                    try:
                        line = await process.stdout.readuntil(b"\n")
                    except asyncio.IncompleteReadError as error:
                        if error.partial.strip():
                            self._record_invalid(error.partial)
                        break
                    except asyncio.LimitOverrunError:
                        self.why = f"it sent a message of more than {MESSAGE_BYTES // 1_000_000} MB"
                        break
                    if not line.strip():
                        continue
                    if message := message_of(line):
                        await to_us.send(SessionMessage(message))
                    elif self._record_invalid(line):
                        break
                await self._find_out_why(process)
                self.gone.set()

    def _record_invalid(self, line: bytes) -> bool:
        """Record an invalid line; True when there are too many bytes of them."""
        self.garbage += len(line)
        if not self.invalid:
            self.invalid = neutralise(line[:200].decode("utf-8", "replace").strip())[:80]
        if self.garbage > GARBAGE_BYTES:
            self.why = f"it printed more than {GARBAGE_BYTES // 1_000_000} MB of invalid messages"
        return self.garbage > GARBAGE_BYTES

    async def _find_out_why(self, process: asyncio.subprocess.Process) -> None:
        """Find out how the program ended, before the connection is reported as lost."""
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
        """Log the beginning of its standard error, and keep the last line."""
        assert process.stderr
        self.log.parent.mkdir(parents=True, exist_ok=True)
        room = LOG_BYTES
        large = self.log.exists() and self.log.stat().st_size > 4 * LOG_BYTES
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if large else os.O_APPEND)
        with os.fdopen(os.open(self.log, flags, 0o600), "wb") as log, ExitStack() as stack:
            log.write(
                redact(f"== {datetime.now(UTC).isoformat(timespec='seconds')} {self.entry.shown}\n").encode()
            )
            pieces = Pieces(lambda text: log.write(text.encode("utf-8", "surrogateescape")))
            stack.callback(pieces.end)
            while data := await process.stderr.read(65_536):
                if room > 0:
                    pieces(data[:room].decode("utf-8", "surrogateescape"))
                    if len(data) > room:
                        pieces("\n[the rest of this session is not logged]\n")
                    log.flush()
                    room -= len(data)
                lines = data[-2_000:].decode("utf-8", "replace").strip().splitlines()
                self.last_output = neutralise(lines[-1].strip())[:200] if lines else self.last_output

    async def _ended(self, process: asyncio.subprocess.Process) -> None:
        """Close its input and wait; then terminate it and wait; then kill it."""
        if process.stdin:
            process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number:
                _signal(process, number)
            elif self.why:
                continue  # it has failed: do not wait for it to exit
            if await _exited(process, GRACE):
                break


async def _exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether it exits in time. It polls: `wait` would also wait for other holders of its pipes."""
    end = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the process group; its id stays valid after the leader has exited."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class Address:
    """One session with a server at an address; `why` says how it failed, else it is empty."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.why = ""
        self.gone = asyncio.Event()  # never set: only a call can find out
        self._named = False  # whether the server has given the session an id
        self._over = False
        self._logged_in = False

    def is_over(self, message: str) -> bool:
        """Whether the server has ended the session: by its status, or by the message of an error."""
        return self._over or (self._named and bool(_NO_SESSION.search(message)))

    def details(self) -> str:
        """What is known about a failure, for the error message."""
        return self.why

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Connect and yield its streams."""
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        auth = login.provider_of(self.entry, self._refused) if login.wanted(self.entry) else None
        self._logged_in = auth is not None
        if self.entry.transport == "sse":
            async with sse_client(
                self.entry.url,
                dict(self.entry.headers),
                timeout=CONNECT_SECONDS,
                sse_read_timeout=SILENT_SECONDS,
                httpx_client_factory=self._client,
                auth=auth,
            ) as streams:
                yield streams
            return
        async with (
            self._client(dict(self.entry.headers), auth=auth) as client,
            streamable_http_client(
                self.entry.url, http_client=client, max_sse_event_size=MESSAGE_BYTES
            ) as streams,
        ):
            yield streams

    def _refused(self) -> None:
        self.why = f"its login is no longer valid; {login.how(self.entry)}"

    def _client(self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
        import httpx2

        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=SILENT_SECONDS),
            auth=auth,
            event_hooks={"response": [self._look]},
            transport=transport(httpx2),
        )

    async def _look(self, response: Any) -> None:
        """Check the status and encoding of a response, and limit its size."""
        import httpx2

        status = response.status_code
        if status == 401 and not self._logged_in:  # with a login, that is renewed
            self.why = f"it requires a login (HTTP 401); {login.how(self.entry)}, or set headers"
        elif status == 403:
            self.why = "it refuses the credential or login (HTTP 403)"
        elif status >= 500:
            self.why = f"it answered with HTTP {status}"
        if response.headers.get("content-encoding", "identity") not in ("", "identity"):
            self.why = "it sent an unrequested compressed answer"
            limit = 0
        else:
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            limit = STREAM_BYTES if streamed else MESSAGE_BYTES

        def told(error: TooLarge) -> Exception:
            self.why = self.why or f"it sent more than {limit // 1_000_000} MB"
            return httpx2.StreamError(self.why)

        hold(response, limit, httpx2, told)
        mend_body(response, httpx2)
        if response.request.headers.get("mcp-session-id") and response.request.method == "POST":
            self._named = True
            if status == 400:
                said = (await response.aread()).decode("utf-8", "replace")[:10_000]
                self._over = self._over or bool(_NO_SESSION.search(said))
            if status in (404, 410) or self._over:
                self._over, self.why = True, "it has ended the session"
