"""What worker, oversight and human say to each other and decide: `fractal messages`, `beat`, `review`, …"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernel import disk
from runtime.cli import person
from runtime.cli.diffs import print_changes
from runtime.cli.output import (
    Columns,
    count,
    echo,
    emit,
    line,
    local,
    notify,
    notify_changes,
    print_line,
    print_list,
    print_table,
)
from runtime.cli.session import (
    command,
    decider,
    json_option,
    opened,
    run_and_words,
    run_argument,
    until_signal,
)

if TYPE_CHECKING:
    from runtime.nervous.decisions import Decision
    from runtime.nervous.growth import Month
    from runtime.nervous.messages import Message
    from runtime.nervous.queue import Priority
    from runtime.nervous.waiting import Waits

SHORT = 8
"""Characters of a message's id that are shown and suffice as an argument."""

DIFF_LINES = 60
"""Lines of the changes that one plan would make."""


@click.group(invoke_without_command=True)
@click.option("--run", metavar="RUN", default="", help="Only the messages of this run.")
@click.option("--open", "only_open", is_flag=True, help="Only those that wait for a reply or an outcome.")
@click.option("--since", metavar="WHEN", default="", help="Only those since then: 2h, 3d, 2026-11-20.")
@click.option("--render", is_flag=True, help="Write the markdown in state/messages/ anew.")
@json_option("Print a list of objects.")
@click.pass_context
def messages(context: click.Context, run: str, only_open: bool, since: str, render: bool) -> None:
    """Show the messages between worker, oversight and human, oldest first; or send one.

    With --open, tasks that wait to be taken up come last, in the order of the queue.
    """
    if context.invoked_subcommand is not None:
        return
    from runtime.api.messaging import listed, places

    fractal = opened()
    if render and fractal.memory.there:
        files = fractal.nerves.messages.render()
        notify(f"written: {count(len(files), 'file')} in {fractal.messages_folder}")
        return
    found = listed(fractal, run=run, only_open=only_open, since=since)
    for fault in fractal.nerves.messages.shelf.faults.values() if fractal.memory.there else ():
        notify(f"skipped: {fault}", "yellow")
    queued = places(fractal) if only_open else {}
    emit([_as_json(each) | ({"queue": queued[each.id]} if each.id in queued else {}) for each in found])
    if not found:
        notify("no messages")
        return
    shown: Columns = {
        "id": lambda each: each.id[:SHORT],
        "time": lambda each: local(each.at),
        "from": _sender,
        "type": "type",
        "run": "run",
        **({"queue": lambda each: queued.get(each.id, "")} if queued else {}),
        "text": lambda each: line(each.text)[:300],
    }
    print_table(shown, found, cut=[len(shown) - 1])


def _as_json(message: Message) -> dict[str, Any]:
    return message.model_dump(mode="json", exclude={"vectors"})


def _sender(message: Message) -> str:
    return message.tier if message.sender in ("", message.tier) else f"{message.tier} {message.sender}"


@messages.command()
@click.argument("words", nargs=-1, required=True, metavar="TASK…")
@click.option("--to", metavar="AGENT", default="", help="Who is to do it (default: the default agent).")
@click.option(
    "--priority", type=click.Choice(["low", "normal", "high"]), default="normal", show_default=True,
    help="How soon a beat takes it up.",
)  # fmt: skip
@json_option("Print the message.")
def send(words: tuple[str, ...], to: str, priority: Priority) -> None:
    """Send a task to an agent; `fractal beat` starts a run for it, and its outcome is a message."""
    message = opened().send(" ".join(words), to, priority=priority, by=decider())
    emit(_as_json(message))
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
    fractal = opened()
    written = fractal.reply(message, kind, " ".join(words), by=decider())
    emit(_as_json(written))
    resume = f", or with: {command('resume', written.run)}"
    where = resume if fractal.workspace.has(written.run) else " on the machine where it is"
    notify(f"kept; run {written.run} goes on at the next beat{where}")


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

    say = notify_changes(quiet)
    beating = Beat(opened(), say)
    if not once:
        say(f"a beat every {every}; stop with Ctrl-C")
    asyncio.run(until_signal(beating.run(seconds(every), once=once)))
    emit([{"run": each.run, "status": each.status} for each in beating.results])
    say(count(len(beating.results), "run"))


@click.command()
@run_argument()
@json_option("Print a list of objects.")
def review(run: str) -> None:
    """Show what waits for a decision: of one run, or of all of them.

    Decide with `fractal approve`, `nudge`, `reject`, `veto` or `answer`.
    """
    fractal = opened()
    name = fractal.find(run) if run else ""
    waits = fractal.review(name)
    emit(waits)
    for number, each in enumerate(waits):
        if number:
            echo()
        _print(each)
    if not waits:
        notify(f"run {name} waits for no decision" if name else "nothing waits for a decision")
    if not name and (read := fractal.nerves.staging.waiting() if fractal.memory.there else ()):
        notify(f"{count(len(read), 'thing')} read and not yet known: {command('recall', '--staged')}")


def _print(waits: Waits) -> None:
    print_line(f"{waits.run}  {waits.since[:16].replace('T', ' ')}  {waits.kind}", bold=True)
    print_line(f"task: {waits.task}")
    for text in waits.about():
        print_line(text, fg="cyan" if text.startswith("oversight: ") else None)
    if waits.changes:
        echo()
        print_changes(waits.changes, most=DIFF_LINES)
    if waits.human:
        notify(f"decided: {waits.human}; continue with: {command('resume', waits.run)}")
        return
    ways = [("answer", "…")] if waits.kind == "question" else [("approve",), ("nudge", "…"), ("reject", "…")]
    notify(
        " or ".join(command(name, waits.run, *words) for name, *words in [*ways, ("veto",)]), "bright_black"
    )


@click.command()
@click.argument("agent", required=False)
@click.argument("tools", nargs=-1, metavar="[TOOL…]")
@click.option("--why", metavar="TEXT", default="", help="The reason, which the journal keeps.")
@json_option("Print an object: granted (a list), and of an agent also known (names) and of (how many).")
def grant(agent: str | None, tools: tuple[str, ...], why: str) -> None:
    """Let AGENT know these tools. Without TOOL, list what was granted, and what AGENT knows.

    A new agent knows what `system/nervous/discovery.md` says where `discovery` is `progressive`, and all
    tools elsewhere.
    """
    fractal = opened()
    if agent in fractal.catalogue().tools and not tools:
        raise click.UsageError(f"name the agent first: {command('grant', fractal.config.agent, agent)}")
    for tool in tools:
        knew = tool in (each.name for each in fractal.known(agent or ""))
        new = fractal.grant(tool, agent or "", why=why, by=decider())
        noted = "; noted for `discovery: progressive`" if new and knew else ""
        notify(f"agent {agent} {'knew' if knew else 'knows'} {tool} {'already' if knew else 'now'}{noted}")
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
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TEXT…")
@person.resume_option
def nudge(words: tuple[str, ...], resume: bool) -> int:
    """Send a plan or step back (default: of the newest run that waits), and say what to do differently.

    The run plans again, and its prompt has the text.
    """
    run, why = run_and_words(words, least=1)
    return person.send(run, "nudge", resume=resume, why=why)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [WHY…]")
@person.resume_option
def veto(words: tuple[str, ...], resume: bool) -> int:
    """End a run (default: the newest unfinished one) by a decision of yours, whatever oversight said.

    It is in the decision log, unlike a cancelled run.
    """
    run, why = run_and_words(words)
    return person.send(run, "veto", resume=resume, why=why)


@click.command()
@click.option("--task-type", "task_type", metavar="TYPE", default="", help="Only tasks of this type.")
@click.option("--review-again", "again", metavar="TYPE", help="Review calls in tasks of this type again.")
@json_option("Print an object: decisions, settled.")
def decisions(task_type: str, again: str | None) -> None:
    """Show what workers chose, what oversight and you said, and what came of it; newest last.

    Below stands how often oversight approved which calls in a row: after ten times they need no review.
    """
    fractal = opened()
    if again:
        fractal.nerves.log.review_again(again, decider())
        notify(f"dangerous calls in tasks of the type {again} are reviewed again")
        return
    found = fractal.decisions(task_type)
    settled = [each for each in fractal.nerves.log.settled() if task_type in ("", each.task_type)]
    emit({"decisions": found, "settled": settled})
    if not found:
        notify("nothing had to be decided yet")
        return
    shown = {
        "RUN": "run",
        "TYPE": "task_type",
        "CHOSE": lambda each: each.chose,
        "CONFIDENCE": "confidence",
        "OVERSIGHT": lambda each: each.oversight.type if each.oversight else "",
        "HUMAN": lambda each: each.human.type if each.human else "",
        "OUTCOME": lambda each: each.outcome or "–",
    }

    def with_words(each: Decision, row: str) -> str:
        return "\n".join([row, *(f"    {line(str(said))}" for said in each.verdicts if said.text)])

    print_table(shown, found, cut=(2,), style=with_words)
    if settled:
        echo()
        columns = {
            "TYPE": "task_type",
            "CALL": "call",
            "APPROVED": "approvals",
            "REVIEW": lambda each: "no more" if each.holds else "yes",
        }
        print_table(columns, settled, right=(2,))
        if any(each.holds for each in settled):
            notify(f"review them again: {command('decisions', '--review-again', '…')}", "bright_black")


@click.command()
@click.argument("agent")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL…")
@click.option("--why", metavar="TEXT", default="", help="The reason, which the journal keeps.")
def revoke(agent: str, tools: tuple[str, ...], why: str) -> None:
    """Take tools from AGENT; no run of it calls them from now on, whatever `discovery` says."""
    fractal = opened()
    for tool in tools:
        fractal.revoke(tool, agent, why=why, by=decider())
        undo = command("grant", agent, tool)
        notify(f"no run of agent {agent} calls {tool} from now on, a run at work neither; undo it: {undo}")


@click.command()
@json_option("Print an array of months.")
@click.option("--months", default=12, type=click.IntRange(1, 600), show_default=True, help="How many months.")
@click.option("--svg", "picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw to this file.")
def growth(months: int, picture: Path | None) -> None:
    """Show by month: tasks, tools added and discovered, escalations, first tries, autonomy."""
    from runtime.nervous.growth import svg

    found = opened().growth(months)
    if picture:
        with disk.writing_state(picture):
            disk.put(picture, svg(found).encode())
        notify(f"drawn to {picture}")

    def share(name: str) -> Callable[[Month], str]:
        def cell(month: Month) -> str:
            value: float | None = getattr(month, name)
            return "–" if value is None else f"{value:.0%}"

        return cell

    shown: Columns = {
        "MONTH": "month",
        "TASKS": "tasks",
        "TOOLS ADDED": "tools",
        "DISCOVERED": "discovered",
        "ESCALATIONS": lambda month: f"{month.escalations} ({share('escalation_rate')(month)})",
        "FIRST TRY": share("first_try"),
        "AUTONOMY": share("autonomy"),
    }
    print_list(found, shown, "nothing was done yet", right=(1, 2, 3, 4, 5, 6))


@click.command()
@json_option("Print an object: agent, capacity, per_hour, free, reserved.")
def lifeforce() -> None:
    """Show the lifeforce of the agent: what is free, reserved, and restored by time."""
    pool = opened().lifeforce
    if pool is None:
        emit({})
        notify(
            "lifeforce is not counted; `lifeforce: {capacity: 100, per_hour: 20}` in fractal.yaml turns it on"
        )
        return
    level, rate = pool.level(), pool.pool
    free, reserved = round(level.free, 3), round(level.reserved, 3)
    emit({"agent": pool.agent, **rate.model_dump(), "free": free, "reserved": reserved})
    held = f", {reserved:g} reserved by {', '.join(level.held)}" if level.held else ""
    print_line(
        f"{pool.agent}: {free:.4g} of {rate.capacity:g} free{held}; time restores {rate.per_hour:g} an hour"
    )
