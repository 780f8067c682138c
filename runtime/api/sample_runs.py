"""Runs sample tasks, each in a folder of its own, with the configured ladder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal
from runtime.api.memory_tools import runner
from runtime.evolution.adoption import SampleTasks
from runtime.evolution.samples import Play, Tested
from runtime.models.ladder import build as build_ladder
from runtime.operations.running import Runner
from runtime.sandbox.context import OperationContext
from runtime.workspace.runs import RunResult
from runtime.workspace.workspace import DEFAULT


def player(fractal: Fractal) -> Play:
    """A function that runs a task in another folder, with the settings of this one and no person to ask."""
    fractal.refuse_untrusted()

    async def play(folder: Path, task: str, tool: str = "", usd: float | None = None) -> RunResult:
        config = fractal.config
        values = {name: getattr(config, name) for name, at in fractal.sources.items() if at != "default"}
        skills = [str((fractal.workspace.root / name).expanduser()) for name in config.skills]
        values |= {"skills": skills, "build": "never", "fsync": False, "learn": "off", "space": DEFAULT}
        values |= {"discovery": "open"}  # a person tests what nobody knows yet
        values |= {} if usd is None else {"usd": usd}
        systems = Fractal(folder, settings=values).systems
        ladder = fractal.given or build_ladder(config, systems, fractal.workspace.state, folder=folder)
        trial = Fractal(folder, settings=values, ladder=ladder, trusted=True)  # the folder was made by us
        return await trial.run(task, tool=tool)

    return play


def sample_tasks(fractal: Fractal, on_tested: Callable[[Tested, str], None]) -> SampleTasks:
    """The sample tasks of a workspace, with its settings; `on_tested` is called after each."""
    return SampleTasks(fractal.workspace, fractal.catalogue(), player(fractal), fractal.config.usd, on_tested)


def memory_runner() -> Runner:
    """The runner of `memory:` tools in samples; memory is in the sample's folder."""

    async def run(context: OperationContext, tool: Tool, args: Mapping[str, Any]) -> Result:
        fractal = Fractal(context.folder, settings={"embedder": "lexical"}, trusted=True)
        return await runner(fractal, None)(context, tool, args)

    return run
