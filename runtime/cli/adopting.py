"""`fractal system propose`, `adopt` and `drop`: changes of the system, tested before they are active."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import Session, command, json_option, opened, put, tell
from runtime.cli.view import view
from runtime.cli.words import elide, line, local, money, table

if TYPE_CHECKING:
    from runtime.building.adopting import Adoption
    from runtime.building.proposals import Proposal
    from runtime.building.samples import Tested
    from runtime.fractal import Fractal


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--as", "place", metavar="PLACE", default="", help="Where in system/ the one file belongs.")
@click.option("--why", default="", help="What it is to make better.")
@json_option("Print the proposal as an object.")
def propose(paths: tuple[Path, ...], place: str, why: str, as_json: bool) -> None:
    """Hand in changed files of the system, or tool folders: they are kept until somebody adopts them.

    \b
      fractal system propose plan.md --why "shorter plans"
      fractal system propose draft.md --as phases/check.md
    """
    from runtime.building import proposing

    fractal = opened()
    workshop = fractal.workshop
    workshop.open()
    made = proposing.propose(
        workshop.journal, workshop.proposals, fractal.systems, paths, place=place, why=why
    )
    if as_json:
        put(json.dumps(made.as_dict(), indent=2))
    else:
        put(made.id)
    tell(f"{', '.join(sorted(made.files))}; test and adopt: {command('system', 'adopt', made.id)}")


@click.command()
@click.argument("name", required=False, metavar="[PROPOSAL|RUN]")
@click.option("--force", is_flag=True, help="Also where the tests say no, or prove nothing.")
@click.option("-m", "--model", help="The model for the sample tasks, or for the run that builds.")
@click.option(
    "--budget-usd", "usd", type=click.FloatRange(min=0), metavar="USD", help="The most that it may cost."
)
@click.option(
    "--trial", "strict", is_flag=True, help="Only where it is shown to be better, not only no worse."
)
@json_option("Print objects.")
def adopt(
    name: str | None, force: bool, model: str | None, usd: float | None, strict: bool, as_json: bool
) -> int:
    """Test a proposal, or all of a run, and make it active; without a name, list the open ones.

    A program runs its own sample. For what guides or steers, the sample tasks are done with it and without
    it: it is adopted when they do no worse; with --trial, when they do better beyond chance, and the trial
    is kept (`fractal learn trial`). A proposal to build starts the run that builds.
    """
    session = Session(view(json=as_json, quiet=False), as_json)
    given = {key: value for key, value in {"model": model, "usd": usd}.items() if value is not None}
    fractal = session.open(**given)
    fractal.workshop.open()
    if name is None:
        _list(fractal, as_json)
        return 0
    chosen = _chosen(fractal, name)
    codes = [
        _build(session, fractal, each)
        if each.kind == "build"
        else _adopt(fractal, each, force, strict, as_json)
        for each in chosen
    ]
    return max(codes)


def _chosen(fractal: Fractal, name: str) -> list[Proposal]:
    from kernel.errors import UsageError

    workshop = fractal.workshop
    if any(each.id == name for each in workshop.proposals.all()):
        return [workshop.proposals.get(name)]
    run = fractal.find(name)
    found = workshop.salvaged(run)
    if not found:
        raise UsageError(f"run {run} has nothing that is not part of the system")
    return found


def _list(fractal: Fractal, as_json: bool) -> None:
    found = fractal.workshop.proposals.open()
    if as_json:
        put(json.dumps([each.as_dict() for each in found], indent=2, ensure_ascii=False))
        return
    if not found:
        tell("there are no open proposals")
        return
    rows = [["ID", "WHEN", "WHAT", "BY", "WHY"]]
    rows += [
        [each.id, local(each.time), f"{each.kind} {each.unit}", each.author, elide(each.reason, 70)]
        for each in found
    ]
    lines = table(rows)
    click.echo(click.style(lines[0], dim=True))
    for text in lines[1:]:
        click.echo(text)
    tell(f"look: {command('system', 'diff')}; adopt: {command('system', 'adopt', 'ID')}")


def _adopt(fractal: Fractal, proposal: Proposal, force: bool, strict: bool, as_json: bool) -> int:
    from runtime.building.workshop import sentence

    adoption = adoption_of(fractal, proposal, as_json)
    if (moved := adoption.moved()) and not force:
        tell(
            f"{proposal.id}: {', '.join(moved)} changed since it was proposed; look: "
            f"{command('system', 'diff')}; --force puts the proposal in its place",
            "red",
        )
        return 1
    tasks = len(adoption.tasks())
    if tasks and not as_json:
        usd = fractal.config.usd
        most = f"of at most {fractal.config.calls} calls each"
        most += "" if usd is None else f", at most {money(usd)} together"
        tell(f"{tasks} sample task{'s'[: tasks != 1]}, with it and without it: {2 * tasks} runs {most}")
    verdict = asyncio.run(adoption.trial() if strict else adoption.judge())
    good = verdict.good or force
    reason = verdict.why if verdict.good else f"{verdict.why}; adopted all the same"
    entry = adoption.adopt(reason) if good else None
    if strict:
        from runtime.building.trying import keep_proposal
        from runtime.cli.learn_trial import trials_of

        did = "is adopted" if entry else "stays as it was"
        keep_proposal(trials_of(fractal), adoption, verdict.compared, did)
    if as_json:
        told: dict[str, Any] = {"proposal": proposal.id, **verdict.as_dict(), "entry": entry and entry.id}
        put(json.dumps(told, indent=2, ensure_ascii=False))
    if not good:
        tell(f"{proposal.id} is not adopted: {line(verdict.why)}; --force adopts it all the same", "red")
        return 1
    if entry is None:
        tell(f"{proposal.id}: all of it stands there already")
    elif not as_json:
        tell(f"{proposal.id}: {line(reason)}")
        tell(sentence(entry))
    return 0


def adoption_of(fractal: Fractal, proposal: Proposal, quiet: bool) -> Adoption:
    """A proposal on its way; `quiet`: the samples are not told of one by one."""
    from runtime.building.adopting import Adoption, Purse
    from runtime.growing import modelled, player

    workshop = fractal.workshop

    return Adoption(
        workshop.workspace,
        workshop.journal,
        workshop.proposals,
        proposal,
        fractal.catalogue(),
        workshop.context,
        player(fractal),
        modelled(fractal),
        Purse(fractal.config.usd),
        said(quiet),
    )


def said(quiet: bool) -> Callable[[Tested, str], None]:
    """What tells of each sample task as it is done."""

    def say(tested: Tested, how: str) -> None:
        if not quiet:
            mark, colour = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}[tested.passed]
            note = "" if tested.passed else f": {elide(tested.note, 120)}"
            tell(f"{mark} {tested.tool}, {how}{note}", colour)

    return say


def _build(session: Session, fractal: Fractal, proposal: Proposal) -> int:
    """Start the run that builds what a proposal asks for; it is closed once the run is accepted."""
    from runtime.growing import build

    return session.conclude(fractal, session.drive(build(fractal, proposal)))


@click.command()
@click.argument("name", metavar="PROPOSAL")
@click.option("--why", default="", help="Why nobody wants it.")
def drop(name: str, why: str) -> None:
    """Close a proposal that nobody wants."""
    workshop = opened().workshop
    workshop.open()
    workshop.proposals.drop(name, "person", why)
    tell(f"{name} is closed")
