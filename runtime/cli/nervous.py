"""`fractal messages`, `beat`, `grant` and `revoke`: messages between the tiers, and what they bring about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runtime.cli.output import count, emit, line, local, notify, print_table
from runtime.cli.session import command, decider, json_option, opened, until_signal

if TYPE_CHECKING:
    from runtime.nervous.messages import Message

SHORT = 8
"""Characters of a message's id that are shown and suffice as an argument."""


@click.group(invoke_without_command=True)
@click.option("--run", metavar="RUN", default="", help="Only the messages of this run.")
@click.option("--open", "only_open", is_flag=True, help="Only those that wait for a reply or an outcome.")
@click.option("--since", metavar="WHEN", default="", help="Only those since then: 2h, 3d, 2026-11-20.")
@click.option("--render", is_flag=True, help="Write the markdown in state/messages/ anew.")
@json_option("Print a list of objects.")
@click.pass_context
def messages(context: click.Context, run: str, only_open: bool, since: str, render: bool) -> None:
    """Show the messages between worker, oversight and human, oldest first; or send one."""
    if context.invoked_subcommand is not None:
        return
    from runtime.api.messaging import listed

    fractal = opened()
    if render and fractal.memory.there:
        files = fractal.nerves.messages.render()
        notify(f"written: {count(len(files), 'file')} in {fractal.messages_folder}")
        return
    found = listed(fractal, run=run, only_open=only_open, since=since)
    for fault in fractal.nerves.messages.shelf.faults.values() if fractal.memory.there else ():
        notify(f"skipped: {fault}", "yellow")
    emit([each.model_dump(mode="json", exclude={"vectors"}) for each in found])
    if not found:
        notify("no messages")
        return
    print_table(
        {
            "id": lambda each: each.id[:SHORT],
            "time": lambda each: local(each.at),
            "from": _sender,
            "type": "type",
            "run": "run",
            "text": lambda each: line(each.text)[:300],
        },
        found,
        cut=[5],
    )


def _sender(message: Message) -> str:
    return message.tier if message.sender in ("", message.tier) else f"{message.tier} {message.sender}"


@messages.command()
@click.argument("words", nargs=-1, required=True, metavar="TASK…")
@click.option("--to", metavar="AGENT", default="", help="Who is to do it (default: the default agent).")
@json_option("Print the message.")
def send(words: tuple[str, ...], to: str) -> None:
    """Send a task to an agent; `fractal beat` starts a run for it, and its outcome is a message."""
    message = opened().send(" ".join(words), to, by=decider())
    emit(message.model_dump(mode="json", exclude={"vectors"}))
    notify(f"kept as {message.id[:SHORT]}; a beat takes it up: {command('beat', '--once')}")


@messages.command()
@click.argument("message", metavar="ID")
@click.argument("kind", type=click.Choice(["answer", "approve", "nudge", "reject", "veto"]))
@click.argument("words", nargs=-1, metavar="[TEXT…]")
@json_option("Print the message.")
def reply(message: str, kind: str, words: tuple[str, ...]) -> None:
    """Reply to an open message by its id, or the first letters of it.

    \b
      approve   the plan or step is carried out
      nudge     the worker plans again with this guidance
      reject    as `fractal reject`
      veto      the run is cancelled; nobody of a lower tier can change that
      answer    answers a question

    A run that works takes it by itself; else a beat does, or `fractal resume`.
    """
    written = opened().reply(message, kind, " ".join(words), by=decider())
    emit(written.model_dump(mode="json", exclude={"vectors"}))
    notify(f"kept; run {written.run} goes on at the next beat, or with: {command('resume', written.run)}")


@click.command()
@click.option("--every", metavar="SPAN", default="1s", show_default=True, help="The time between two beats.")
@click.option("--once", is_flag=True, help="Take up what there is now, wait for it, and end.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@json_option("Print at the end how each run ended, or that it waits.")
def beat(every: str, once: bool, quiet: bool) -> None:
    """Take up tasks and replies as they come, until Ctrl-C: start runs, and continue those that waited.

    One process leads; another waits until it ends. Work that Ctrl-C interrupts goes on at the next beat.
    """
    import asyncio

    from runtime.api.beating import Beat
    from runtime.api.spans import seconds

    last = ""

    def say(text: str) -> None:
        nonlocal last
        if not quiet and text != last:
            notify(text)
        last = text

    beating = Beat(opened(), say)
    if not once:
        say(f"a beat every {every}; stop with Ctrl-C")
    asyncio.run(until_signal(beating.run(seconds(every), once=once)))
    emit([{"run": each.run, "status": each.status} for each in beating.results])
    say(count(len(beating.results), "run"))


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
