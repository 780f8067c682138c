"""One connection to one server, from its first use to the end of the run.

A separate task enters and leaves the SDK's client, because its cancel scopes require it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kernel.errors import ConfigurationError, FractalError, OperationFailed
from kernel.tools.operations import Result
from runtime.mcp.client.configured import Entry
from runtime.mcp.client.listing import MOST
from runtime.mcp.client.mending import as_sent, mended
from runtime.mcp.client.results import result_of
from runtime.mcp.client.transports import Address, Program, Starting
from runtime.secrets.known import learn_headers, learn_secrets
from runtime.secrets.redaction import redact

if TYPE_CHECKING:
    from mcp import Client

START_SECONDS = 30.0
"""The first start of a server may download a package."""
LIST_SECONDS = 10.0
CLOSE_SECONDS = 5.0
"""Seconds that a server has to end a session before its task is cancelled."""
PAGES = 50
"""The most pages of a list of tools."""
Listed = Callable[[Sequence[Any], Sequence[str]], None]
"""Gets a list of tools as it was sent, and what is wrong with the list."""


class Broken(OperationFailed):
    """The connection is lost; a new one may work. `begun`: it had worked before."""

    def __init__(self, message: str, *, begun: bool = False) -> None:
        super().__init__(message)
        self.begun = begun


class Connection:
    """A session with a server; `listed` gets its tools whenever they are fetched."""

    def __init__(
        self,
        entry: Entry,
        log: Path,
        listed: Listed,
        starting: Starting,
        *,
        lists: bool = True,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.entry = entry
        self._start_seconds = start_seconds
        self.ended = False
        self.doubtful = False  # a call got no answer
        self.version = ""
        self._listed = listed
        self._outputs: dict[str, Any] = {}  # the schemas of results, by tool
        self._session = Program(entry, log, starting) if entry.transport == "stdio" else Address(entry)
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._changed, self._closing = asyncio.Event(), asyncio.Event()
        if lists:  # the cached list may be out of date
            self._changed.set()
        self._keeper = asyncio.create_task(self._keep())
        learn_headers(entry.headers)
        learn_secrets(entry.env)

    @property
    def broken(self) -> bool:
        """Whether the connection is unusable."""
        return self.ended or bool(self._session.why)

    async def tools(self) -> None:
        """Fetch the server's tools."""
        client = await asyncio.shield(self._ready)
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self._list(client)
        except Exception as error:
            raise self._failure(error, "the request for its tools") from None

    async def call(self, tool: str, args: Mapping[str, Any], seconds: float | None) -> Result:
        """Make one call. Raises `Broken` if the connection is lost, `OperationFailed` if the call fails."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        client = await asyncio.shield(self._ready)
        try:
            async with asyncio.timeout(seconds):
                answer = await client.call_tool(tool, dict(args))
        except Exception as error:
            self._changed.set()  # its tools may be others now
            raise self._failure(error, f"the call of {tool[:60]}", seconds) from None
        took = round(loop.time() - began, 3)
        schema = self._outputs.get(tool)
        result = result_of(as_sent(answer), schema, server=self.entry.name, seconds=took)
        if not result.ok:
            self._changed.set()
        return result

    async def close(self) -> None:
        """End the session, and the server if it is a program."""
        self._closing.set()
        if not self._ready.done():
            self._keeper.cancel()
        cancelled = False
        for _ in range(3):
            try:
                await asyncio.wait([self._keeper], timeout=CLOSE_SECONDS)
            except asyncio.CancelledError:  # raised below, after the session has ended
                cancelled = True
            if self._keeper.done():
                break
            self._keeper.cancel()
        if cancelled:
            raise asyncio.CancelledError

    async def _keep(self) -> None:
        """Hold the session open until it is closed or the server is gone."""
        from mcp import Client

        _silence_the_sdk()
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_seconds):
                    mcp_client = Client(
                        mended(self._session.streams()),
                        message_handler=self._take_notification,
                        cache=None,
                        input_required_max_rounds=1,
                    )
                    client = await stack.enter_async_context(mcp_client)
                self.version = client.protocol_version
                self._session.why = ""  # an older server may refuse the first version of the handshake
                self._ready.set_result(client)
                ends = [asyncio.create_task(each.wait()) for each in (self._closing, self._session.gone)]
                work = [
                    asyncio.create_task(each) for each in (self._refresh(client), self._subscribe(client))
                ]
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (*ends, *work):
                        task.cancel()
                    await asyncio.gather(*ends, *work, return_exceptions=True)
        except Exception as error:  # after the handshake, the next call reports it
            self._not_ready(self._failure(error, "the handshake", self._start_seconds))
        finally:
            self.ended = True
            self._not_ready(Broken(f"{self._name} was closed before it was ready"))

    def _not_ready(self, error: FractalError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # marks it as retrieved: there may be no caller

    async def _refresh(self, client: Client) -> None:
        """Fetch the tools whenever they may have changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with suppress(Exception):  # the next call reports the error
                async with asyncio.timeout(LIST_SECONDS):
                    await self._list(client)

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to changes of the tools: newer servers require it."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        if not getattr(client.server_capabilities.tools, "list_changed", False):
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed.set()

    async def _take_notification(self, message: Any) -> None:
        """Older servers send the notification without a subscription."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._changed.set()

    async def _list(self, client: Client) -> None:
        """Fetch the pages of the list, up to the last one, or to one that brings nothing new."""
        tools: list[Any] = []
        troubles: list[str] = []
        names: set[str] = set()
        cursor, seen = None, set[str]()
        for number in range(PAGES):
            answer = await client.list_tools(cursor=cursor)
            sent = as_sent(answer)
            page = cast(dict[str, Any], sent) if isinstance(sent, dict) else {}
            found = page.get("tools")
            if not isinstance(found, list):
                troubles.append("its list of tools is not a list")
                break
            usable = {each.name for each in answer.tools}  # the SDK leaves out what the protocol forbids
            new = [each for each in cast(list[Any], found) if _name_of(each) in {*usable, ""}]
            if number and usable <= names:
                troubles.append("its list of tools goes in a circle; what came before is used")
                break
            tools += new
            names |= usable
            following = page.get("nextCursor")
            cursor = str(following) if isinstance(following, str | int) and following else ""
            if not cursor:
                break
            if cursor in seen:
                troubles.append("its list of tools goes in a circle; what came before is used")
                break
            seen.add(cursor)
            if len(tools) > MOST:
                break
        else:
            troubles.append(f"its list of tools has more than {PAGES} pages; the others are left out")
        self._outputs = {_name_of(each): each.get("outputSchema") for each in tools if _name_of(each)}
        self._listed(tools, troubles)

    @property
    def _name(self) -> str:
        return f"MCP server {self.entry.name}"

    def _failure(self, error: Exception, action: str, seconds: float | None = LIST_SECONDS) -> FractalError:
        """The error as a `FractalError`, with a message that names the server."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        first = _first(error)
        if isinstance(first, FractalError):
            return ConfigurationError(redact(f"{self._name}: {first}"))
        details = self._session.details()
        if isinstance(first, TimeoutError):
            self.doubtful = True
            text = f"{self._name} did not answer {action} within {seconds or 0:g} s"
            return OperationFailed(f"{text}; {details}" if details else text)
        begun = self._ready.done() and self._ready.exception() is None
        if isinstance(first, MCPError):
            if self._session.is_over(first.message):
                self.ended = True
                return Broken(f"{self._name} has ended the session", begun=begun)
            if first.code == CONNECTION_CLOSED or self._session.why:
                self.ended = True
                text = f"{self._name} is gone and did not answer {action}: {details or first.message}"
                return Broken(redact(text), begun=begun)
            return OperationFailed(f"{self._name} refused {action}: {redact(first.message[:500])}")
        if isinstance(first, OSError) or type(first).__module__.startswith(("httpx2", "anyio")):
            self.ended = True
            cause = details or str(first) or type(first).__name__
            text = f"{self._name} ({self.entry.shown}) cannot be reached: {cause}"
            return Broken(redact(text), begun=begun)
        message = redact(_first_line(first))
        return OperationFailed(f"{self._name} sent an invalid answer to {action}: {message}")


def _name_of(tool: Any) -> str:
    """The name of a tool in a list; "" if it has none."""
    name: Any = cast(dict[str, Any], tool).get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else ""


def _first(error: BaseException) -> BaseException:
    """The first error of an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _first_line(error: BaseException) -> str:
    """The first line of an error; of a validation error its first place."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        wrong = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"[:300]
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _silence_the_sdk() -> None:
    """Keep the SDK's warnings from the terminal."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
