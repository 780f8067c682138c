"""`fractal grant` and `revoke`: which tools an agent knows."""

from __future__ import annotations

from typing import Any

import click

from runtime.cli.output import count, emit, line, local, notify, print_table
from runtime.cli.session import command, decider, json_option, opened


@click.command()
@click.argument("agent", required=False)
@click.argument("tools", nargs=-1, metavar="[TOOL…]")
@click.option("--why", metavar="TEXT", default="", help="The reason, which the journal keeps.")
@json_option("Print an object: granted (a list), and of an agent also known (names) and of (how many).")
def grant(agent: str | None, tools: tuple[str, ...], why: str) -> None:
    """Let AGENT know these tools. Without TOOL, list what was granted, and what AGENT knows.

    A new agent knows what `system/nervous/discovery.md` says where `discovery` is `progressive`.
    """
    fractal = opened()
    if agent in fractal.catalogue().tools and not tools:
        raise click.UsageError(f"name the agent first: {command('grant', fractal.config.agent, agent)}")
    for tool in tools:
        new = fractal.grant(tool, agent or "", why=why, by=decider())
        notify(f"agent {agent} {'knows' if new else 'knew'} {tool}{' now' if new else ' already'}")
    if tools:
        return
    held = fractal.grants(agent or "")
    known = [tool.name for tool in fractal.known(agent)] if agent else []
    of = len(fractal.catalogue().tools)
    shown: dict[str, Any] = {"known": known, "of": of} if agent else {}
    emit({"granted": [each.model_dump(mode="json", exclude={"vectors"}) for each in held], **shown})
    if agent and len(known) == of:
        notify(f"agent {agent} knows all {count(of, 'tool')}")
    elif agent:
        notify(f"agent {agent} knows {len(known)} of {count(of, 'tool')}: {', '.join(known)}")
    if not held:
        notify(f"nothing was granted yet; grant a tool: {command('grant', agent or 'default', '…')}")
        return
    print_table(
        {
            "AGENT": "to",
            "TOOL": lambda each: each.data["tool"],
            "WHAT": "type",
            "VIA": lambda each: each.data["via"],
            "BY": "sender",
            "WHEN": lambda each: local(each.at),
            "WHY": lambda each: line(each.text)[:300],
        },
        held,
        cut=(6,),
    )


@click.command()
@click.argument("agent")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL…")
@click.option("--why", metavar="TEXT", default="", help="The reason, which the journal keeps.")
def revoke(agent: str, tools: tuple[str, ...], why: str) -> None:
    """Take tools from AGENT; its runs cannot call them from now on."""
    fractal = opened()
    for tool in tools:
        fractal.revoke(tool, agent, why=why, by=decider())
        notify(f"agent {agent} does not know {tool} any more; undo it: {command('grant', agent, tool)}")
