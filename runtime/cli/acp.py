"""`fractal acp`: serves editors that speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import click

from kernel.errors import UsageError
from runtime.cli.output import notify
from runtime.cli.session import require

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter


@click.command()
@click.option("-m", "--model", help="The model for runs, such as ollama/llama3.2.")
def acp(model: str | None) -> None:
    """Serve editors such as Zed, JetBrains IDEs and Neovim on standard input and output.

    The editor starts this command and names the folder. A prompt is a run that follows the one before. When
    the editor ends, a run in progress is saved and can be resumed.
    """
    require("acp", "the ACP SDK")
    if not (_speaks(0) and _speaks(1)):
        raise UsageError("standard input and output must be pipes; an editor starts this command")
    if os.isatty(0):
        notify("an editor starts this command and speaks JSON with it; end it with Ctrl-C")
    asyncio.run(_serve({"model": model} if model else {}))


def _speaks(handle: int) -> bool:
    """Whether this is a pipe, a socket or a terminal: no file, and not closed."""
    with suppress(OSError):
        mode = os.fstat(handle).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(handle)
    return False


async def _serve(settings: dict[str, Any]) -> None:
    """Serve until the editor disconnects, or until a signal; prompts in progress are interrupted."""
    from acp import run_agent

    from runtime.acp.agent import FractalAgent
    from runtime.acp.lines import MessageReader

    stream, writer = await _streams()
    reader = MessageReader(stream, notify)
    serving = asyncio.create_task(run_agent(cast(Any, FractalAgent(settings)), writer, reader))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving


async def _streams() -> tuple[StreamReader, StreamWriter]:
    """The streams of the protocol. For all else, standard input is empty and standard output is the log."""
    from acp import stdio_streams
    from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES

    sys.stdin, sys.stdout = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        return await stdio_streams(DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    finally:
        sys.stdin, sys.stdout = sys.__stdin__, sys.stderr
