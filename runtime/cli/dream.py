"""`fractal dream`: put memory in order, see what that would do, take it back, or have it done by itself."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import Session, command, json_option, opened, put, tell
from runtime.cli.view import view

if TYPE_CHECKING:
    from runtime.memory.dream.record import Done
    from runtime.responders.dreaming import Order


@click.command()
@click.argument("action", required=False, type=click.Choice(["undo"]))
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice(["a", "p", "b"]),
    help="Only what came in (a), how things are done (p), what is known as a whole (b).",
)
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--since", metavar="WHEN", help="Only what came after: 2026-11-20, or 3d for 3 days ago.")
@click.option("--every", metavar="SPAN", help="Stay, and dream every SPAN (5m) while no run is at work.")
@click.option("--without", multiple=True, metavar="STAGE", help="Leave a stage out; may be repeated.")
@json_option("Print an object: the dream, and what each stage did.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def dream(
    action: str | None,
    phases: tuple[str, ...],
    dry_run: bool,
    since: str | None,
    every: str | None,
    without: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> int:
    """Put memory in order: a run of its own, one step a stage, archived before anything is changed.

    `fractal dream undo` takes the last dream back, but for what was changed by others since.
    """
    from runtime.remembering.dreaming import moment, rehearse
    from runtime.responders.dreaming import Order

    if action:
        if phases or dry_run or since or every or without:
            raise click.UsageError("undo takes back the last dream, and has no options but --json")
        return _undo(as_json)
    if dry_run and every:
        raise click.UsageError("--dry-run is of one dream, --every of many; give one of them")
    fractal = opened()
    when = moment(since, fractal.memory.clock()) if since else ""
    order = Order(phases, when, without)
    if dry_run:
        found = rehearse(fractal, order)
        return _tell_rehearsal({each.stage.name: each.done for each in found}, as_json)
    return _stay(order, every, quiet) if every else _once(order, as_json, quiet)


def _once(order: Order, as_json: bool, quiet: bool) -> int:
    from runtime.remembering.dreaming import done
    from runtime.remembering.dreaming import dream as dreamt

    session = Session(view(quiet=quiet or as_json), as_json)
    fractal = session.open()
    result = session.drive(dreamt(fractal, order))
    if not as_json:
        return session.conclude(fractal, result)
    stages = {name: _plain(each) for name, each in done(fractal, result.id).items()}
    put(json.dumps({"dream": result.run, "status": result.status, "stages": stages}, indent=2))
    return int(result.exit)


def _tell_rehearsal(found: dict[str, Done], as_json: bool) -> int:
    from runtime.remembering.dreaming import shown

    if as_json:
        stages = {name: _plain(each) for name, each in found.items()}
        put(json.dumps({"dry_run": True, "stages": stages}, indent=2))
        return 0
    for name, each in found.items():
        put(f"{name}: {shown(each)}")
    tell(f"nothing was changed; to do it: {command('dream')}")
    return 0


def _plain(done: Done) -> dict[str, Any]:
    return done.model_dump(mode="json", exclude={"part"})


def _undo(as_json: bool) -> int:
    from runtime.remembering.dreaming import undo

    found = undo(opened())
    if as_json:
        told = {"dream": found.dream, "rows": found.rows, "files": found.files, "left": list(found.left)}
        put(json.dumps(told, indent=2))
        return 0
    put(f"{found.dream}: {found.rows} rows and {found.files} files are as they were before it")
    for name in found.left:
        tell(f"left as it is, since others have changed it: {name}", "yellow")
    return 0


def _stay(order: Order, every: str, quiet: bool) -> int:
    """Dream again and again; a signal ends it, and a dream that is at work is gone on with the next time."""
    from runtime.remembering.dreaming import seconds
    from runtime.remembering.scheduling import Scheduler

    session = Session(view(quiet=True))
    fractal = session.open()
    said = [""]

    def say(text: str) -> None:
        if not quiet and text != said[0]:
            tell(text)
        said[0] = text

    scheduler = Scheduler(fractal, order, seconds(every), say)
    say(f"dreams every {every} while no run is at work; Ctrl-C ends it")
    asyncio.run(_until_told(scheduler.run()))
    say(f"{len(scheduler.dreams)} dream{'' if len(scheduler.dreams) == 1 else 's'}")
    return 0


async def _until_told(work: Any) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return
