"""What runs `run: "memory: NAME"`: the tools of a workspace's memory, called by a loop of a run.

Each is an async function of the Fractal, the run's world, the call's context and its arguments; its module is
imported when it is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernel.acting import Runner
from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result
from kernel.tools import Tool

if TYPE_CHECKING:
    from kernel.world import World
    from runtime.fractal import Fractal

Act = Callable[["Fractal", "World", OperationContext, Mapping[str, Any]], Awaitable[Result]]
ACTS: Mapping[str, str] = {
    "dream": "runtime.dreaming:act",
}
"""By the name behind `memory:`, where its function is."""


def runner(fractal: Fractal, world: World) -> Runner:
    """The runner of one run."""

    async def run(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        name = tool.run.partition(":")[2].strip()
        if name not in ACTS:
            raise OperationFailed(f"{tool.path}: run: {tool.run!r}: memory can {', '.join(ACTS)}")
        module, _, function = ACTS[name].partition(":")
        act: Act = getattr(import_module(module), function)
        return await act(fractal, world, context, args)

    return run
