"""bash: run a command in the folder, inside the sandbox."""

from __future__ import annotations

from kernel.tools.operations import Result
from runtime.sandbox.context import OperationContext


async def bash(ctx: OperationContext, command: str, stdin: str | None = None) -> Result:
    """Run `command`. The result is its output, with `[exit N]` if it failed.

    The settings decide about the network, not an argument. Changes below `.fractal/system/` become drafts.
    """
    with ctx.system(command) as system:
        ran = await ctx.run(command, system=system, stdin=stdin, timeout=ctx.seconds, network=ctx.network)
        drafted, refused = system.taken() if system else ([], [])
    text = ran.shown.removesuffix("\n")
    evidence = {**ran.evidence, "timed_out": ran.timed_out, "cut": ran.cut}
    if drafted:
        evidence["drafted"] = drafted
    good = not (ran.exit or ran.timed_out or refused)
    return Result(ran.marked(text, ctx.seconds, refused), good, evidence)
