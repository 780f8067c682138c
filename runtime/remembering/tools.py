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

Act = Callable[["Fractal", "World | None", OperationContext, Mapping[str, Any]], Awaitable[Result]]
ACTS: Mapping[str, str] = {
    "dream": "runtime.remembering.dreaming:act",
    "goal": "runtime.remembering.knowledge:act_goal",
    "learn": "runtime.remembering.learning:act",
    "recall": "runtime.remembering.knowledge:act_recall",
    "remember": "runtime.remembering.knowledge:act_remember",
    "wander": "runtime.remembering.knowledge:act_wander",
}
"""By the name behind `memory:`, where its function is."""


def runner(fractal: Fractal, world: World | None) -> Runner:
    """The runner of one run; without a world, of a call outside of all runs."""

    async def run(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        name = tool.run.partition(":")[2].strip()
        if name not in ACTS:
            raise OperationFailed(f"{tool.path}: run: {tool.run!r}: memory can {', '.join(ACTS)}")
        module, _, function = ACTS[name].partition(":")
        act: Act = getattr(import_module(module), function)
        return await act(fractal, world, context, args)

    return run


def on_trial() -> Runner:
    """The runner of samples: with a memory of its own in the sample's folder, thrown away with it."""

    async def run(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        from runtime.fractal import Fractal

        fractal = Fractal(context.folder, settings={"embedder": "lexical"}, trusted=True)
        return await runner(fractal, None)(context, tool, args)

    return run
