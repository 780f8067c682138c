"""`fractal mcp` as a process of its own, and the official client that speaks to it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from lanes import PATIENCE
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from playing import ACCEPT, plan
from warm import Process, started

from runtime.api.live_runs import Runs
from runtime.mcp.server.mcp import make

COMMAND = [sys.executable, "-m", "runtime.cli"]


TOKEN = "a-token-of-the-tests"


def settings(folder: Path, **values: Any) -> None:
    """The workspace's settings, in JSON, which is YAML."""
    (folder / "fractal.yaml").write_text(json.dumps({"sandbox": "off", **values}), "utf-8")


def trusting(config: Path) -> None:
    """The user's own settings (`XDG_CONFIG_HOME`): nothing waits for approval but what is dangerous."""
    (config / "fractal").mkdir(parents=True, exist_ok=True)
    (config / "fractal" / "fractal.yaml").write_text("approve: []\n", "utf-8")


def script(folder: Path, *steps: Mapping[str, Any], delay: float = 0, **more: Any) -> str:
    """A scripted model that plans these steps and accepts; returns its name."""
    entries = [
        {"phase": "fused", "reply": plan(*steps, **more), "delay": delay},
        {"phase": "plan", "reply": plan(*steps, **more), "delay": delay},
        {"phase": "understand", "reply": {"task": "as it stands", "context": [], "open": []}},
        {"phase": "check", "reply": ACCEPT},
    ]
    path = folder / "script.json"
    path.write_text(json.dumps(entries), "utf-8")
    return f"scripted:{path}"


def environment(**more: str) -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "XDG_CONFIG_HOME", "FRACTAL_TRUST")
    return {name: os.environ[name] for name in kept if name in os.environ} | more


class Caller:
    """A session with the server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, name: str, /, **args: Any) -> dict[str, Any]:
        """A call that goes well; returns its structured content."""
        result = await self.client.call_tool(name, args)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return result.structured_content

    async def fails(self, name: str, /, **args: Any) -> str:
        """A call that does not; returns what it says."""
        result = await self.client.call_tool(name, args)
        assert result.is_error, result.structured_content
        return result.content[0].text  # type: ignore[union-attr]


@contextmanager
def listening(folder: Path, *words: str, **env: str) -> Iterator[tuple[str, Process]]:
    """The server on a free port of loopback: its address and its process. Its token is `TOKEN` by default."""
    if not {"--token", "--no-token"} & set(words):
        env = {"FRACTAL_TOKEN": TOKEN, **env}
    command = [*COMMAND, "-C", str(folder), "mcp", "--http", "127.0.0.1:0", *words]
    process = Process(command, stderr=subprocess.PIPE, text=True, env=environment(**env))
    try:
        assert process.stderr
        line = process.stderr.readline()
        assert "/mcp" in line, line + process.stderr.read()
        yield next(word.rstrip(",") for word in line.split() if word.startswith("http")), process
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def over_stdio(folder: Path, *words: str, mode: str = "auto") -> AsyncIterator[Caller]:
    command, *args = started([*COMMAND, "-C", str(folder), "mcp", *words])
    parameters = StdioServerParameters(command=command, args=args, env=environment())
    async with Client(stdio_client(parameters, errlog=sys.__stderr__), mode=mode) as client:
        yield Caller(client)


@asynccontextmanager
async def over_http(url: str, token: str = TOKEN, mode: str = "auto") -> AsyncIterator[Caller]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as web,
        Client(streamable_http_client(url, http_client=web), mode=mode) as client,
    ):
        yield Caller(client)


Work = Callable[[Caller], Coroutine[Any, Any, Any]]


def speak(folder: Path, work: Work, transport: str = "inside", mode: str = "auto") -> Any:
    """Start the server, do the work with a client, leave; `inside` is without a process of its own."""

    async def inside() -> Any:
        runs = Runs(folder)
        try:
            async with Client(make(runs), mode=mode) as client:
                return await work(Caller(client))
        finally:
            await runs.close()

    async def stdio() -> Any:
        async with over_stdio(folder, mode=mode) as caller:
            return await work(caller)

    async def http(url: str) -> Any:
        async with over_http(url, mode=mode) as caller:
            return await work(caller)

    try:
        if transport == "inside":
            return asyncio.run(inside())
        if transport == "stdio":
            return asyncio.run(stdio())
        with listening(folder) as (url, _):
            return asyncio.run(http(url))
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
