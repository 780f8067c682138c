"""The servers of one run: their tools for the catalogue, and the runner of `run: "mcp: server/tool"`.

Lists of tools are cached in `state/mcp/`; no server is started for a cached list. A list is fetched again
when its server is called, reports a change, or after a day. A `Servers` belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.errors import ConfigurationError, FractalError, OperationFailed
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime import found_files
from runtime.mcp.client.configured import Configured, Entry, places, read
from runtime.mcp.client.connection import START_SECONDS, Broken, Connection
from runtime.mcp.client.listing import Raw, kept, tools_of
from runtime.mcp.client.login import SECONDS as LOGIN_SECONDS
from runtime.mcp.client.login import log_in, log_out
from runtime.mcp.client.starting import allowed, starting, where
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.trust import place as trust_place
from runtime.workspace.workspace import Workspace

FRESH = 86_400.0
"""Seconds for which a cached list of tools is valid."""
FAILED = 300.0
"""Seconds after which a server that failed is tried again."""
MISSING = "the MCP SDK is not installed; pip install 'fractal-runtime[mcp]'"


@dataclass(frozen=True)
class Known:
    """The cached tools of a server, or its last error, with the time."""

    at: float
    tools: Sequence[Raw] = ()
    error: str = ""
    troubles: Sequence[str] = ()  # of the list as a whole

    @property
    def good(self) -> bool:
        """Whether it is still valid."""
        return 0 <= time.time() - self.at < (FAILED if self.error else FRESH)


@dataclass(frozen=True)
class Seen:
    """The result of connecting to a server, for `fractal doctor`."""

    name: str
    transport: str
    tools: int = 0
    version: str = ""
    error: str = ""
    fix: str = ""


class Servers:
    """The MCP servers of a workspace; files are read when they are first needed."""

    def __init__(
        self,
        workspace: Workspace,
        warn: Callable[[str], None] = lambda text: None,
        start_seconds: float = START_SECONDS,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Servers of the folder run in `sandbox`."""
        self._workspace = workspace
        self.sandbox = sandbox or Sandbox()
        self._warn = warn
        self._start_seconds = start_seconds
        self._warned: set[str] = set()
        self._stats: object = None
        self._configured = Configured({})
        self._tools: list[Tool] = []
        self._skipped: list[str] = []
        self._connections: dict[str, Connection] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def tools(self) -> list[Tool]:
        """The cached tools of all servers; starts none of them."""
        self._reload()
        return self._tools

    @property
    def troubles(self) -> tuple[str, ...]:
        """Messages about invalid files, failed servers and skipped tools."""
        self._reload()
        cached = (self._cached(entry) for entry in self._configured.entries.values())
        failed = [each.error for each in cached if each and each.error]
        return (*self._configured.troubles, *failed, *self._skipped)

    @property
    def configured(self) -> Configured:
        """The servers in the files that name them."""
        self._reload()
        return self._configured

    async def discover(self) -> None:
        """Fetch the tools of servers without a valid cached list, in parallel; warn about errors."""
        self._reload()
        entries = self._configured.entries.values()
        unknown = [each for each in entries if not ((known := self._cached(each)) and known.good)]
        if unknown and find_spec("mcp") is None:
            self._say(f"{unknown[0].source} names MCP servers, but {MISSING}")
            return
        await asyncio.gather(*(self._ask(entry) for entry in unknown))
        for text in self.troubles:
            self._say(text)

    async def look(self, seconds: float) -> list[Seen]:
        """Connect to every server in parallel, each with a time limit."""
        self._reload()
        entries = list(self._configured.entries.values())
        if entries and find_spec("mcp") is None:
            return [Seen(each.name, self._kind(each), error=MISSING) for each in entries]
        return list(await asyncio.gather(*(self._look_at(entry, seconds) for entry in entries)))

    async def _look_at(self, entry: Entry, seconds: float) -> Seen:
        import mcp  # noqa: F401  the import must not count as the server's delay

        try:
            async with asyncio.timeout(seconds):
                return await self._ask(entry)
        except TimeoutError:
            error = f"it did not answer within {seconds:g} s; runs wait longer"
            return Seen(entry.name, self._kind(entry), error=error, fix=f"try it by hand: {entry.shown}")

    async def run(self, context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        """Call a server's tool; the kernel's runner for the scheme `mcp`."""
        entry, remote = self._target(tool)
        if find_spec("mcp") is None:
            raise OperationFailed(MISSING)
        # less than the limit of the step, so that the error names the server
        seconds = max(context.timeout - 1.0, context.timeout * 0.8) or None
        try:
            return await (await self._connection(entry)).call(remote, args, seconds)
        except Broken as error:
            if not error.begun:
                raise
            if not tool.repeatable(args):
                why = f"the call of {remote[:60]} was not made again, because it may change something"
                raise OperationFailed(f"{error}; {why}") from None
        return await (await self._connection(entry)).call(remote, args, seconds)

    async def login(self, name: str, browse: Callable[[str], None], seconds: float = LOGIN_SECONDS) -> str:
        """Let a person log in at a server, at the address that `browse` gets; what came of it."""
        entry = self._remote(name)
        try:
            told = await log_in(entry, browse, seconds)
        except FractalError as error:
            raise ConfigurationError(f"MCP server {name}: {error}") from None
        with suppress(FileNotFoundError):  # what is cached may be that it wants a login
            self._place(entry, ".json").unlink()
        return told

    async def logout(self, name: str) -> bool:
        """Remove the login at a server; whether there was one."""
        return await log_out(self._remote(name))

    def _remote(self, name: str) -> Entry:
        """The server of this name, which has to be at an address, and without a credential of its own."""
        self._reload()
        entries, problems = self._configured.entries, "; ".join(self._configured.troubles)
        if name not in entries:
            there = ", ".join(sorted(entries)) or "none"
            more = f"; {problems}" if problems else ""
            raise ConfigurationError(f"there is no MCP server {name}; there are: {there}{more}")
        if entries[name].transport == "stdio":
            raise ConfigurationError(f"MCP server {name} is a program, which has no login")
        if any(each.lower() == "authorization" for each in entries[name].headers):
            raise ConfigurationError(f"MCP server {name} has a credential in headers, which is used instead")
        if find_spec("mcp") is None:
            raise ConfigurationError(MISSING)
        return entries[name]

    async def __aenter__(self) -> Servers:
        try:
            await self.discover()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all sessions, and the servers that are programs."""
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(each.close() for each in connections))

    def _target(self, tool: Tool) -> tuple[Entry, str]:
        """The server and the tool of `run: "mcp: server/tool"`; both may contain a slash."""
        self._reload()
        target = tool.run.removeprefix("mcp:").strip()
        entries = self._configured.entries
        for name in sorted(entries, key=len, reverse=True):
            prefix = f"{name}/"
            if target.startswith(prefix) and target != prefix:
                return entries[name], target.removeprefix(prefix)
        available = "; ".join([", ".join(sorted(entries)) or "none", *self._configured.troubles])
        raise OperationFailed(f"{tool.name}: run: {tool.run!r}: no such MCP server; there are: {available}")

    async def _connection(self, entry: Entry, *, lists: bool = True) -> Connection:
        """The current connection if it works, else a new one."""
        async with self._opening[entry.name]:
            existing = self._connections.get(entry.name)
            if existing and existing.doubtful and not existing.broken:
                try:
                    await existing.tools()
                    existing.doubtful = False
                except FractalError:
                    existing.ended = True
            if existing and (existing.broken or existing.entry.digest != entry.digest):
                del self._connections[entry.name]
                await existing.close()
                existing = None
            if existing is None:
                self._workspace.make()
                log = self._place(entry, ".log")
                keep = partial(self._keep, entry)
                start = partial(starting, entry, self.sandbox, self._workspace)
                existing = Connection(entry, log, keep, start, lists=lists, start_seconds=self._start_seconds)
                self._connections[entry.name] = existing
            return existing

    async def _ask(self, entry: Entry) -> Seen:
        """Fetch the tools of a server and cache them, or the error."""
        try:
            connection = await self._connection(entry, lists=False)
            await connection.tools()
        except FractalError as error:
            told = f"{error} (it runs {where(entry, self.sandbox)})" if entry.of_folder else str(error)
            self._write(entry, Known(time.time(), error=told))
            by_hand = f"try it by hand: {entry.shown}"
            fix = by_hand if entry.command else f"fix url or headers in {entry.source}"
            return Seen(entry.name, self._kind(entry), error=told, fix=fix)
        cached = self._cached(entry)
        usable, _ = tools_of(entry, cached.tools if cached else ())
        return Seen(entry.name, self._kind(entry), len(usable), connection.version)

    def _kind(self, entry: Entry) -> str:
        """The transport of a server and where it runs, for people."""
        place = where(entry, self.sandbox)
        return f"{entry.transport} ({place})" if place else entry.transport

    @cached_property
    def _reserved(self) -> frozenset[str]:
        """The names of the system's own tools, which no server may use."""
        from runtime.catalogue.catalogue import Catalogue

        catalogue = Catalogue(self._workspace.systems)
        return frozenset({*catalogue.tools, *catalogue.idle, "task"})

    def _reload(self) -> None:
        paths = places(self._workspace.folder, self._workspace.root)
        stats = {path: found_files.version(path) for path in paths}
        stats[trust_place()] = found_files.version(trust_place())
        if (stats, self._lists()) == self._stats:
            return
        self._configured = allowed(read(paths, self._workspace.folder), self.sandbox)
        self._tools, self._skipped = [], []
        for entry in self._configured.entries.values():
            if cached := self._cached(entry):
                reserved = {*self._reserved, *(tool.name for tool in self._tools)}
                tools, skipped = tools_of(entry, cached.tools, reserved)
                self._tools += tools
                self._skipped += [f"MCP server {entry.name}: {each}" for each in (*cached.troubles, *skipped)]
        self._stats = (stats, self._lists())

    def _lists(self) -> dict[str, tuple[int, int] | None]:
        """The version of each server's cache file."""
        entries = self._configured.entries.items()
        return {name: found_files.version(self._place(each, ".json")) for name, each in entries}

    def _cached(self, entry: Entry) -> Known | None:
        """The cached record of this exact entry, or None."""
        try:
            data = json.loads(self._place(entry, ".json").read_text("utf-8"))
            if data["digest"] != entry.digest:
                return None
            tools = [cast(Raw, each) for each in data["tools"] if isinstance(each, dict)]
            troubles = [str(each) for each in data.get("troubles", ())]
            return Known(float(data["at"]), tools, str(data.get("error", "")), troubles)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keep(self, entry: Entry, listed: Sequence[Any], troubles: Sequence[str]) -> None:
        tools, skipped = kept(listed)
        troubles = [*troubles, *skipped]
        cached = self._cached(entry)
        same = cached is not None and (cached.tools, cached.troubles) == (tools, troubles)
        if cached is None or cached.error or not same or not cached.good:
            self._write(entry, Known(time.time(), tools, troubles=troubles))

    def _write(self, entry: Entry, cached: Known) -> None:
        path = self._place(entry, ".json")
        old = self._cached(entry)
        tools = cached.tools if not cached.error or old is None else old.tools  # an error keeps the old tools
        data = {"digest": entry.digest, "at": cached.at, "tools": list(tools)}
        data |= {"error": cached.error} if cached.error else {}
        data |= {"troubles": list(cached.troubles)} if cached.troubles else {}
        self._workspace.make()
        with disk.writing_state(path):
            disk.put(path, json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), mode=0o600)

    def _place(self, entry: Entry, suffix: str) -> Path:
        """A file of this server in `state/mcp/`; a hash keeps names that differ only in punctuation apart."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", entry.name)
        name = plain if plain == entry.name else f"{plain}-{entry.digest[:6]}"
        return self._workspace.state / "mcp" / f"{name}{suffix}"

    def _say(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)
