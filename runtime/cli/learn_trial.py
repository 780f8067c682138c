"""`fractal learn trial` and `fractal learn agents`: a change on trial, and who does what how well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from runtime.cli.session import Session, command, json_option, opened, put, tell
from runtime.cli.view import view
from runtime.cli.words import elide, line, local, table

if TYPE_CHECKING:
    from runtime.building.trying import Trying
    from runtime.fractal import Fractal
    from runtime.memory.learning.trials import Trial, Trials


@click.command()
@click.argument("what", required=False, metavar="[PROPOSAL|ENTRY|PATTERN]")
@click.option("-m", "--model", help="The model for the sample tasks.")
@click.option(
    "--budget-usd", "usd", type=click.FloatRange(min=0), metavar="USD", help="The most that it may cost."
)
@click.option("--dry-run", is_flag=True, help="Say what was found, and change nothing.")
@json_option("Print the trial as an object; without a name, all.")
def trial(what: str | None, model: str | None, usd: float | None, dry_run: bool, as_json: bool) -> int:
    """Try a change against what is there now, on the same sample tasks; without a name, list the trials.

    \b
      p3            a proposal: a phase file, a tool, any change of the system
      12            an entry of `fractal system log`: what is there now against what was before it
      read-first    a learned pattern: with it against without it
      draft.md      a file with a new one

    What is shown to be better is adopted; what is there and shown to be worse is taken back (a pattern is
    switched off). Where the interval holds nothing, all stays as it is, and the number of tasks that may
    tell is said. The tasks are the samples of the guided tools, and those in system/samples/.
    """
    session = Session(view(json=as_json, quiet=False), as_json)
    fractal = session.open(**{k: v for k, v in {"model": model, "usd": usd}.items() if v is not None})
    fractal.workshop.open()
    if what is None:
        _list(trials_of(fractal).all(), as_json)
        return 0
    made = asyncio.run(_tried(_trying(fractal, dry_run, as_json), fractal, what, as_json))
    if as_json:
        put(json.dumps(made.as_dict(), indent=2, ensure_ascii=False))
    else:
        tell(f"{made.id}: {line(made.compared.told)}")
        tell(f"{made.unit} {made.did}")
    return 0 if made.compared.finding == "better" else 1


async def _tried(trying: Trying, fractal: Fractal, what: str, quiet: bool) -> Trial:
    from runtime.cli.adopting import adoption_of

    if any(each.id == what for each in fractal.workshop.proposals.all()):
        return await trying.proposal(adoption_of(fractal, fractal.workshop.proposals.get(what), quiet))
    if what.isdigit():
        return await trying.entry(int(what))
    return await trying.pattern(fractal.memory.library, what)


def trials_of(fractal: Fractal) -> Trials:
    """The trials of a workspace."""
    from runtime.memory.learning.trials import Trials

    return Trials(fractal.workspace.state / "memory" / "trials")


def _trying(fractal: Fractal, dry_run: bool, quiet: bool) -> Trying:
    from kernel.errors import ConfigurationError
    from runtime.building.adopting import Purse
    from runtime.building.trying import Trying
    from runtime.cli.adopting import said
    from runtime.growing import modelled, player

    if not modelled(fractal):
        raise ConfigurationError("a trial needs a model that does the sample tasks; name one with --model")
    workshop = fractal.workshop
    return Trying(
        workshop.workspace,
        workshop.journal,
        fractal.catalogue(),
        player(fractal),
        Purse(fractal.config.usd),
        trials_of(fractal),
        dry_run,
        said(quiet),
    )


def _list(trials: Sequence[Trial], as_json: bool) -> None:
    if as_json:
        put(json.dumps([each.as_dict() for each in trials], indent=2, ensure_ascii=False))
        return
    if not trials:
        tell(f"nothing was tried yet; a proposal, an entry or a pattern: {command('learn', 'trial', '…')}")
        return
    rows = [["ID", "WHEN", "WHAT", "FOUND", "THEN"]]
    rows += [[t.id, local(t.at), f"{t.kind} {t.unit}", elide(t.compared.told, 80), t.did] for t in trials]
    for number, text in enumerate(table(rows)):
        click.echo(click.style(text, dim=True) if number == 0 else text)


# ---- agents ----------------------------------------------------------------------------------------------


@click.command()
@json_option("Print an object: the agents, who is best at what, and what is being worked on.")
def agents(as_json: bool) -> None:
    """Show the agents: what each did, how well by type of task, who is best, and what is worked on now."""
    from runtime.memory import awareness

    fractal = opened()
    profiles = fractal.memory.profiles()
    active = awareness.active(fractal.workspace.runs)
    types = sorted({name for each in profiles for name in each.by_type})
    best = {name: found for name in types if (found := awareness.best(profiles, name))}
    if as_json:
        told = {
            "agents": [each.as_dict() for each in profiles],
            "best": {
                name: {"agent": agent, "score": round(score, 4)} for name, (agent, score) in best.items()
            },
            "active": [vars(each) for each in active],
        }
        put(json.dumps(told, indent=2, ensure_ascii=False))
        return
    if not profiles and not active:
        tell(f"no agent has done anything here yet; to begin: {command('run', '…')}")
        return
    rows = [["AGENT", "SPACE", "TYPE", "TRIED", "DONE", "SCORE", "BEST"]]
    for each in profiles:
        for name, record in sorted(each.by_type.items()):
            top = (
                "best" if best.get(name, ("", 0))[0] == each.agent and record.samples >= awareness.FEW else ""
            )
            done = f"{record.successes / record.samples:.0%}"
            rows.append([each.agent, each.space, name, str(record.samples), done, f"{record.score:.2f}", top])
    for number, text in enumerate(table(rows)):
        click.echo(click.style(text, dim=True) if number == 0 else text)
    for each in active:
        click.echo(f"now: {each.agent}, run {each.run}, {each.phase.upper()}: {elide(each.task, 70)}")
