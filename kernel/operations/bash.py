"""bash: run a command in the folder, inside the sandbox."""

from __future__ import annotations

from kernel.operations import OperationContext, Result
from kernel.screening import neutralise


async def bash(ctx: OperationContext, command: str, stdin: str | None = None) -> Result:
    """Run `command`; its result is what it printed, and `[exit N]` when it failed.

    Whether it has the network is for the settings to say: an argument that is refused would only cost a step.
    What it changes below `.fractal/system/` becomes a draft.
    """
    with ctx.system(command) as system:
        ran = await ctx.run(command, system=system, stdin=stdin, timeout=ctx.seconds, network=ctx.network)
        drafted, refused = system.taken() if system else ([], [])
    text = neutralise(ran.output).removesuffix("\n")
    evidence = {**ran.evidence, "timed_out": ran.timed_out, "cut": ran.cut}
    if drafted:
        evidence["drafted"] = drafted
    good = not (ran.exit or ran.timed_out or refused)
    return Result(ran.marked(text, ctx.seconds, refused), good, evidence)
