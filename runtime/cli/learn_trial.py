"""`fractal learn trial` and `fractal learn agents`: a change on trial, and who does what how well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import Session, command, json_option, opened, put, tell
from runtime.cli.view import view
from runtime.cli.words import elide, line, local, table

if TYPE_CHECKING:
    from runtime.building.proposals import Proposal
    from runtime.building.samples import Tested
    from runtime.building.trying import Comparison, Side
    from runtime.fractal import Fractal
    from runtime.memory.learning.library import Library
    from runtime.memory.learning.patterns import Pattern
    from runtime.memory.learning.trials import Compared, Kind, Trial, Trials


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
    trials = _trials(fractal)
    if what is None:
        _list(trials.all(), as_json)
        return 0
    if any(each.id == what for each in fractal.workshop.proposals.all()):
        made = _proposal(fractal, what, dry_run, as_json)
    elif what.isdigit():
        made = _entry(fractal, int(what), trials, dry_run, as_json)
    else:
        made = _pattern(fractal, what, trials, dry_run, as_json)
    if as_json:
        put(json.dumps(made.as_dict(), indent=2, ensure_ascii=False))
    else:
        tell(f"{made.id}, {made.unit}: {line(made.compared.told)}")
        tell(f"{made.unit} {made.did}")
    return 0 if made.compared.finding == "better" else 1


def _trials(fractal: Fractal) -> Trials:
    from runtime.memory.learning.trials import Trials

    return Trials(fractal.workspace.state / "memory" / "trials")


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


def _said(quiet: bool) -> Any:
    def say(tested: Tested, how: str) -> None:
        if not quiet:
            mark, colour = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}[tested.passed]
            note = "" if tested.passed else f": {elide(tested.note, 120)}"
            tell(f"{mark} {tested.tool}, {how}{note}", colour)

    return say


def _comparison(fractal: Fractal, quiet: bool) -> Comparison:
    from kernel.errors import ConfigurationError
    from runtime.building.adopting import Purse
    from runtime.building.trying import Comparison
    from runtime.growing import modelled, player

    if not modelled(fractal):
        raise ConfigurationError("a trial needs a model that does the sample tasks; name one with --model")
    return Comparison(fractal.workspace, player(fractal), Purse(fractal.config.usd), _said(quiet))


# ---- a proposal, an entry --------------------------------------------------------------------------------


def _proposal(fractal: Fractal, name: str, dry_run: bool, quiet: bool) -> Trial:
    from kernel.errors import UsageError
    from runtime.cli.adopting import adoption_of

    proposal = fractal.workshop.proposals.get(name)
    if proposal.kind == "build":
        raise UsageError(f"{name} asks for something to be built; there is nothing to try yet")
    adoption = adoption_of(fractal, proposal, quiet)
    if (moved := adoption.moved()) and not dry_run:
        raise UsageError(f"{name}: {', '.join(moved)} changed since it was proposed; propose it anew")
    verdict = asyncio.run(adoption.trial())
    did = "stays as it was"
    if verdict.good and not dry_run:
        did = "is adopted" if adoption.adopt(verdict.why) else "stands there already"
    return keep(fractal, proposal, verdict.compared, did)


def keep(fractal: Fractal, proposal: Proposal, compared: Compared, did: str) -> Trial:
    """Write the trial of a proposal down."""
    from kernel.events import now

    more = {"did": did, "against": "what is there now", "proposal": proposal.id}
    return _trials(fractal).keep(_kind(proposal.unit), proposal.unit, now(), compared, **more)


def _kind(unit: str) -> Kind:
    return "phase" if unit.startswith("phases/") else "tool" if "/" in unit else "change"


def _entry(fractal: Fractal, number: int, trials: Trials, dry_run: bool, quiet: bool) -> Trial:
    from kernel.events import now
    from runtime.building import history
    from runtime.building.adopting import sample_tasks
    from runtime.building.trying import Side

    journal = fractal.workshop.journal
    entry = history.entry_of(journal.entries(), number)
    before = {change.path: journal.blobs.file(change.before) for change in entry.files}
    sides = Side("before it", before), Side("as it is now")
    compared = _run(fractal, sample_tasks(fractal.catalogue()), *sides, quiet)
    did = "stays as it is"
    if compared.finding == "worse" and not dry_run:
        history.rollback(journal, number)
        did = "is taken back"
    told = {"did": did, "against": f"what was before entry {number}"}
    return trials.keep(_kind(entry.unit), entry.unit, now(), compared, **told)


def _run(fractal: Fractal, tasks: Sequence[Any], present: Side, tried: Side, quiet: bool) -> Compared:
    return asyncio.run(_comparison(fractal, quiet).run(tasks, present, tried))


# ---- a pattern -------------------------------------------------------------------------------------------


def _pattern(fractal: Fractal, name: str, trials: Trials, dry_run: bool, quiet: bool) -> Trial:
    from kernel.events import now
    from runtime.building.adopting import sample_tasks
    from runtime.building.trying import Side
    from runtime.memory.learning.patterns import write

    library = fractal.memory.library
    pattern, new = _found(library, name)
    others = {
        f"{each.name}.md": write(each).encode() for each in library.patterns() if each.name != pattern.name
    }
    whole: Mapping[str, bytes] = {**others, f"{pattern.name}.md": write(pattern).encode()}
    sides = Side("without it", patterns=others), Side("with it", patterns=whole)
    compared = _run(fractal, sample_tasks(fractal.catalogue()), *sides, quiet)
    did = "is not kept" if new else "stays as it is"
    if not dry_run and new and compared.finding == "better":
        library.add(pattern)
        did = "is adopted"
    elif not dry_run and not new and compared.finding == "worse":
        library.update(pattern.name, person=True, status="off")
        did = "is switched off"
    return trials.keep("pattern", pattern.name, now(), compared, did=did, against="without it")


def _found(library: Library, name: str) -> tuple[Pattern, bool]:
    """The pattern of that name, or a new one in a file."""
    from kernel.errors import UsageError
    from runtime.memory.learning.patterns import parse

    if known := library.get(name):
        return known, False
    path = Path(name)
    if path.suffix == ".md" and path.is_file():
        return parse(path.read_text("utf-8", "replace"), path), True
    names = ", ".join(each.name for each in library.all()[:8]) or "none yet"
    raise UsageError(f"{name} is no proposal, no entry, no learned pattern ({names}), and no file")


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
