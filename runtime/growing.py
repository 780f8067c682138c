"""Runs that are started for the system's own sake: to try a sample, to build what was lacking."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from kernel.errors import Exit
from runtime.building.proposals import Proposal
from runtime.ladder import build as build_ladder
from runtime.places import DEFAULT
from runtime.results import RunResult

if TYPE_CHECKING:
    from runtime.building.samples import Play
    from runtime.fractal import Fractal

LEAST_CALLS = 10
"""With fewer calls left of a run's budget nothing is built by itself: it could not be finished."""
_P = ParamSpec("_P")
_Work = Callable[Concatenate[Any, _P], Coroutine[Any, Any, RunResult]]


def modelled(fractal: Fractal) -> bool:
    """Whether a model is on the ladder, beside code and a person."""
    return any(rung.tier in ("worker", "oversight") for rung in fractal.ladder)


def player(fractal: Fractal) -> Play:
    """What does a task in a folder that is a workspace of its own, as in this one, with nobody to ask."""
    fractal.refuse_untrusted()

    async def play(folder: Path, task: str, tool: str = "", usd: float | None = None) -> RunResult:
        config = fractal.config
        values = {name: getattr(config, name) for name, at in fractal.sources.items() if at != "default"}
        skills = [str((fractal.workspace.root / name).expanduser()) for name in config.skills]
        values |= {"skills": skills, "build": "never", "fsync": False, "learn": "off", "space": DEFAULT}
        values |= {} if usd is None else {"usd": usd}
        systems = type(fractal)(folder, settings=values).systems
        ladder = fractal.given or build_ladder(config, systems, fractal.workspace.state)
        trial = type(fractal)(folder, settings=values, ladder=ladder, trusted=True)  # we have made the folder
        return await trial.run(task, tool=tool)

    return play


async def build(fractal: Fractal, proposal: Proposal, limits: Mapping[str, Any] | None = None) -> RunResult:
    """Start the run that builds what a proposal asks for; the proposal is closed once it is accepted."""
    builder = fractal.anew(**(limits or {}), build="never")
    tool = "build" if builder.catalogue().guided("build") else ""
    result = await builder.run(proposal.task, tool=tool)
    if result.exit == Exit.ACCEPTED:
        builder.workshop.close(proposal, result.run)
    return result


def growing(work: _Work[_P]) -> _Work[_P]:
    """After a run, what it lacked is built, where the settings say so: with what is left of its budget."""

    @functools.wraps(work)
    async def then(self: Fractal, *args: _P.args, **kwargs: _P.kwargs) -> RunResult:
        result = await work(self, *args, **kwargs)
        for proposal in self.workshop.lacked(result.run):
            left = _left(self, result)
            if left["calls"] < LEAST_CALLS:
                break
            await build(self, proposal, left)
            break  # one a run: its budget is the bound
        return result

    return then


def _left(fractal: Fractal, result: RunResult) -> dict[str, Any]:
    bounds, spent = fractal.config.bounds(), result.spent
    used = spent.get("prompt_tokens", 0) + spent.get("completion_tokens", 0)
    left: dict[str, Any] = {
        "calls": bounds.calls - int(spent.get("calls", 0)),
        "tokens": max(bounds.tokens - int(used), 1),
        "seconds": max(bounds.seconds - float(spent.get("seconds", 0)), 1.0),
    }
    if bounds.usd is not None:
        left["usd"] = max(bounds.usd - float(spent.get("usd") or 0), 0.0)
    return left
