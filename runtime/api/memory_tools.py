"""Runs tools with `run: "memory: NAME"`: the tools of a workspace's memory.

Each is an async function of the Fractal, the run and the arguments; its module is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.operations.running import Runner
from runtime.sandbox.context import OperationContext

if TYPE_CHECKING:
    from kernel.loop.run_context import RunContext
    from runtime.api.fractal import Fractal

Act = Callable[["Fractal", "RunContext | None", Mapping[str, Any]], Awaitable[Result]]
ACTS: Mapping[str, str] = {
    "discover-tools": "discovering:act",
    "dream": "dreaming:act",
    "goal": "knowledge:act_goal",
    "learn": "learning:act",
    "recall": "knowledge:act_recall",
    "remember": "knowledge:act_remember",
    "wander": "knowledge:act_wander",
}
"""Module in this package and function, by the name after `memory:`."""


def runner(fractal: Fractal, run_context: RunContext | None) -> Runner:
    """The runner of one run; without a run context, of a call outside of all runs."""

    async def run(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        name = tool.run.partition(":")[2].strip()
        if name not in ACTS:
            raise OperationFailed(f"{tool.path}: run: {tool.run!r}: memory can {', '.join(ACTS)}")
        module, _, function = ACTS[name].partition(":")
        act: Act = getattr(import_module(f"{__package__}.{module}"), function)
        return await act(fractal, run_context, args)

    return run
