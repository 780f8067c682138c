"""bash: run a command in the folder, inside the sandbox."""

from __future__ import annotations

from kernel.operations import OperationContext, Result
from kernel.process import GRACE
from kernel.sandbox import neutralise


async def bash(ctx: OperationContext, command: str, stdin: str | None = None) -> Result:
    """Run `command`; its result is what it printed, and `[exit N]` when it failed.

    Whether it has the network is for the settings to say: an argument that is refused would only cost a step.
    """
    seconds = max(ctx.timeout - GRACE - 1, ctx.timeout / 2)  # ends before the step's own time is up
    ran = await ctx.sandbox.run(
        command,
        folder=ctx.folder,
        stdin=stdin,
        timeout=seconds,
        protected=ctx.protected,
        seen=ctx.places,
        private=ctx.private,
        network=ctx.network,
    )
    text = neutralise(ran.output).removesuffix("\n")
    marks: list[str] = []
    if ran.timed_out:
        marks.append(f"[stopped after {seconds:g} s]")
    if ran.exit:
        marks.append(f"[exit {ran.exit}]")
    evidence = {
        "exit": ran.exit,
        "mode": ran.mode,
        "seconds": round(ran.seconds, 3),
        "timed_out": ran.timed_out,
        "cut": ran.cut,
    }
    return Result("\n".join([text, *marks] if text else marks), ran.exit == 0 and not ran.timed_out, evidence)
