"""Makes the call of a tool with the runner that the run has for it, within the tool's time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kernel.errors import FractalError, OperationFailed, explained
from kernel.tools.operations import OperationContext, Result
from kernel.tools.tool import Tool

Runner = Callable[[OperationContext, Tool, Mapping[str, Any]], Awaitable[Result]]
"""Makes one call of a tool. A failure is a `Result` that is not `ok`, or a `FractalError`."""


async def carry_out(
    context: OperationContext, tool: Tool, args: Mapping[str, Any], runners: Mapping[str, Runner]
) -> Result:
    """Make a call within the tool's time limit. Any exception becomes a result that is not `ok`."""
    limit = asyncio.timeout(tool.timeout or None)
    try:
        async with limit:
            return await act(context, tool, args, runners)
    except Exception as error:
        if limit.expired():
            return Result(f"{tool.name} took longer than {tool.timeout:g} s and was stopped", ok=False)
        failed = "" if isinstance(error, FractalError) else f"{tool.name} failed: "
        return Result(failed + explained(error), ok=False)


async def act(
    context: OperationContext, tool: Tool, args: Mapping[str, Any], runners: Mapping[str, Runner]
) -> Result:
    """Make a call with the runner for the scheme of the tool's `run:`."""
    if tool.scheme not in runners:
        raise OperationFailed(f"{tool.path}: run: {tool.run!r} is of no kind that can be run here")
    executed = [tool.path.parent] if tool.scheme == "command" else []
    for folder in (*executed, *context.places):
        if why := context.sandbox.why_not_executed(folder):
            raise OperationFailed(why)
    return await runners[tool.scheme](context, tool, args)
