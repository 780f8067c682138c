"""bash: run a command in the folder, inside the sandbox."""

from __future__ import annotations

from kernel.operations import OperationContext, Result
from kernel.sandbox import neutralise


async def bash(ctx: OperationContext, command: str, stdin: str = "", network: bool = False) -> Result:
    """Run `command`; its result is what it printed. The network is there only where the settings allow it."""
    ran = await ctx.sandbox.run(
        command,
        folder=ctx.folder,
        stdin=stdin or None,
        timeout=ctx.timeout - 1,
        protected=ctx.protected,
        network=network and ctx.network,
    )
    text = neutralise(ran.output).rstrip("\n")
    marks = [f"[refused: {each}]" for each in ran.refused]
    if ran.timed_out:
        marks.append(f"[stopped after {ctx.timeout - 1:g} s]")
    elif ran.exit:
        marks.append(f"[exit {ran.exit}]")
    if network and not ctx.network:
        marks.append("[the network is off: `network: true` in fractal.yaml allows it]")
    evidence = {"exit": ran.exit, "mode": ran.mode, "seconds": round(ran.seconds, 3)}
    evidence |= {"timed_out": True} if ran.timed_out else {}
    evidence |= {"cut": True} if ran.cut else {}
    ok = ran.exit == 0 and not ran.timed_out and not ran.refused
    return Result("\n".join([text, *marks] if text else marks), ok, evidence)
