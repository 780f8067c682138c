"""Builds proposed tools, also automatically after a run that lacked one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from kernel.errors import Exit
from runtime.evolution.proposals import Proposal
from runtime.workspace.runs import RunResult

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal

LEAST_CALLS = 10
"""Calls that must be left of a run's budget for a build."""
_P = ParamSpec("_P")
_Work = Callable[Concatenate[Any, _P], Coroutine[Any, Any, RunResult]]


async def build(
    fractal: Fractal, proposal: Proposal, limits: Mapping[str, Any] | None = None, within: str = ""
) -> RunResult:
    """Run the task of a proposal; the proposal is closed if the run is accepted."""
    builder = fractal.anew(**(limits or {}), build="never")
    tool = "build" if builder.catalogue().guided("build") else ""
    result = await builder.run(proposal.task, tool=tool, within=within)
    if result.exit == Exit.ACCEPTED:
        builder.workshop.close(proposal, result.run)
    return result


def builds_what_it_lacked(work: _Work[_P]) -> _Work[_P]:
    """After a run, build one tool that it lacked, if the settings allow it and its budget has enough left."""

    @functools.wraps(work)
    async def then(self: Fractal, *args: _P.args, **kwargs: _P.kwargs) -> RunResult:
        result = await work(self, *args, **kwargs)
        for proposal in self.workshop.lacked(result.run)[:1]:
            remaining = _remaining(self, result)
            if remaining["calls"] >= LEAST_CALLS:
                await build(self, proposal, remaining, result.run)
        return result

    return then


def _remaining(fractal: Fractal, result: RunResult) -> dict[str, Any]:
    bounds, spent = fractal.config.bounds(), result.spent
    used = spent.get("prompt_tokens", 0) + spent.get("completion_tokens", 0)
    remaining: dict[str, Any] = {
        "calls": bounds.calls - int(spent.get("calls", 0)),
        "tokens": max(bounds.tokens - int(used), 1),
        "seconds": max(bounds.seconds - float(spent.get("seconds", 0)), 1.0),
    }
    if bounds.usd is not None:
        remaining["usd"] = max(bounds.usd - float(spent.get("usd") or 0), 0.0)
    return remaining
