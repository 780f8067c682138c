"""`fractal mcp`: serves this workspace over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

import click

from runtime.api.listening import Token, bound, shown
from runtime.api.listening import token as token_of
from runtime.cli.mcp_install import install
from runtime.cli.output import notify
from runtime.cli.session import folder, opened, require

if TYPE_CHECKING:
    from runtime.api.live_runs import Runs


@click.group(invoke_without_command=True)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve streamable HTTP there, at /mcp.")
@click.option("--token", metavar="TEXT", help="The bearer token for clients; or FRACTAL_TOKEN.")
@click.option("--no-token", is_flag=True, help="With --http, let every user and program of this machine in.")
@click.option("-m", "--model", help="The model for runs, such as ollama/llama3.2.")
@click.pass_context
def mcp(
    context: click.Context, address: str | None, token: str | None, no_token: bool, model: str | None
) -> None:
    """Serve runs, documents and tools to MCP clients such as Claude Code, Cursor and VS Code.

    Uses standard input and output, or HTTP with --http and the token of --token, of FRACTAL_TOKEN, or in
    ~/.config/fractal/token, which is made once. A run continues when its client disconnects; when
    this process ends, it can be resumed like any other. Commands and writing wait for an approval, unless
    `approve` in your own ~/.config/fractal/fractal.yaml, or FRACTAL_APPROVE, says otherwise.
    """
    if context.invoked_subcommand is not None:
        return
    require("mcp", "the MCP SDK")
    asked = token_of(token, no_token) if address else Token("")
    listening = bound("--http", address, "" if asked.place else asked.text) if address else None
    settings = {"model": model} if model else {}
    asyncio.run(_serve(settings, listening, asked))


mcp.add_command(install)


@mcp.command()
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Only show the address; open it yourself.")
def login(name: str, no_browser: bool) -> int:
    """Log in at an MCP server of .mcp.json that wants OAuth, in your browser.

    The login is kept in ~/.config/fractal/logins, for you alone. Runs use and renew it.
    """
    require("mcp", "the MCP SDK")

    def browse(url: str) -> None:
        notify(f"log in here: {url}")
        if not no_browser and url.startswith(("https://", "http://")):  # the server says it: no other scheme
            webbrowser.open(url)

    async def work() -> str:
        servers = opened().servers()
        try:
            return await servers.login(name, browse)
        finally:
            await servers.close()

    notify(f"{name}: {asyncio.run(work())}")
    return 0


@mcp.command()
@click.argument("name")
def logout(name: str) -> int:
    """Remove the login at an MCP server, here and at the server."""
    require("mcp", "the MCP SDK")

    async def work() -> bool:
        servers = opened().servers()
        try:
            return await servers.logout(name)
        finally:
            await servers.close()

    notify(f"{name}: {'logged out' if asyncio.run(work()) else 'there is no login'}")
    return 0


async def _serve(settings: dict[str, Any], listening: socket.socket | None, asked: Token) -> None:
    """Serve until the client disconnects and its runs end, or until a signal."""
    from runtime.api.live_runs import Runs
    from runtime.mcp.server.mcp import application, make

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    runs = Runs(folder(), settings=settings)
    server = make(runs)
    serving = server.run_stdio_async()
    if listening is not None:
        serving.close()
        serving = _http(application(server, listening.getsockname()[0], asked.text), listening)
        notify(f"MCP at {shown(listening)}/mcp{asked.shown}")
    await _until_the_end(serving, runs, stop)


async def _http(application: Any, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        application, log_level="critical", access_log=False, timeout_graceful_shutdown=2, lifespan="on"
    )
    await uvicorn.Server(config).serve(sockets=[listening])


async def _until_the_end(serving: Coroutine[Any, Any, None], runs: Runs, stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    served = asyncio.create_task(serving)
    await asyncio.wait({served, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set() and not (served.done() and served.exception()):
        idle = asyncio.create_task(runs.idle())  # the client is gone, its runs continue
        await asyncio.wait({idle, stopped}, return_when=asyncio.FIRST_COMPLETED)
    await runs.close()
    if served.done() and (error := served.exception()):
        notify(f"fractal: {type(error).__name__}: {error}", "red")
        _end(1)
    _end(0)


def _end(code: int) -> NoReturn:
    """Exit at once: everything is saved, and the thread that reads standard input cannot be stopped."""
    from runtime.telemetry import tracing

    tracing.finish()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
