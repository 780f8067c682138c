"""`fractal system`: edits files of `system/`, shows its history, and tests and adopts proposals."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Callable
from pathlib import Path

import click

from kernel.errors import UsageError
from runtime.api.building import build
from runtime.api.fractal import Fractal
from runtime.api.learning import trials_of
from runtime.api.sample_runs import sample_tasks
from runtime.cli.output import (
    OUTCOMES,
    Columns,
    count,
    elide,
    emit,
    line,
    local,
    money,
    notify,
    print_json,
    print_line,
    print_list,
    put,
    wants_json,
)
from runtime.cli.session import Session, budget_option, command, json_option, opened, opened_to_change
from runtime.evolution.adoption import Adoption
from runtime.evolution.files import read
from runtime.evolution.journal import Entry, Journal, counts, difference
from runtime.evolution.proposals import Proposal
from runtime.evolution.samples import Tested


@click.group()
def system() -> None:
    """Edit, review, revert and adopt changes of the system: tools, operations, phase files, pattern.md."""


@system.command()
@click.argument("name")
def edit(name: str) -> None:
    """Open the file NAME of the system in $EDITOR; copies a shipped file to the workspace's system/ first.

    NAME is a path such as phases/turn.md, or the name of a tool, operation, phase or reflex. Without a
    terminal, the path of the copy is printed.
    """
    fractal = opened()
    root = fractal.workspace.root / "system"
    place = _file_of_system(fractal, name)
    own = root / place
    if not own.is_file():
        source = next(folder / place for folder in fractal.systems if (folder / place).is_file())
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(source.read_bytes())
        notify(f"copied {place} to {root}; this copy is used from now on")
    if sys.stdin.isatty() and sys.stdout.isatty():
        click.edit(filename=str(own))
    else:
        put(str(own))


def _file_of_system(fractal: Fractal, name: str) -> Path:
    """The path below system/ that a person means by NAME. Raises `UsageError`."""
    tries = [name, f"{name}.md", f"tools/{name}/pattern.md", f"tools/{name}/SKILL.md"]
    tries[2:2] = [f"{kind}/{name}.md" for kind in ("phases", "operations", "kernel", "reflexes")]
    folders = [folder.resolve() for folder in fractal.systems]
    for folder, path in ((folder, (folder / each).resolve()) for each in tries for folder in folders):
        if path.is_file() and path.is_relative_to(folder):
            return path.relative_to(folder)
    files = {path.relative_to(folder).as_posix() for folder in folders for path in folder.rglob("*.md")}
    names = files | {Path(each).stem for each in files} | {Path(each).parent.name for each in files}
    near = difflib.get_close_matches(name, sorted(names), 1)
    raise UsageError(f"there is no file {name} in system/" + (f"; did you mean {near[0]}?" if near else ""))


@system.command()
@click.argument("unit", required=False)
@click.option("-n", "limit", type=click.IntRange(1), default=50, show_default=True, help="Entries to list.")
@json_option("Print a list of objects.")
def log(unit: str | None, limit: int) -> None:
    """List changes, newest first: who made them, in which run, and why."""
    journal = opened_to_change().workshop.journal
    chosen = (journal.about(unit) if unit else journal.entries())[::-1][:limit]
    shown: Columns = {
        "ENTRY": "id",
        "WHEN": lambda entry: local(entry.time),
        "WHAT": "kind",
        "UNIT": lambda entry: entry.unit or count(len(entry.files), "file"),
        "BY": lambda entry: f"{entry.author}, {entry.step}" if entry.step else entry.author,
        "LINES": lambda entry: _lines(journal, entry),
        "WHY": lambda entry: elide(entry.reason, 60),
    }
    print_list(chosen, shown, "no changes: this workspace uses the shipped system", right=(0,))


def _lines(journal: Journal, entry: Entry) -> str:
    if not entry.unit or not entry.files:
        return ""
    more, fewer = counts(journal.diff(entry))
    return f"+{more} −{fewer}"


@system.command("diff")
@click.argument("what", required=False, metavar="[ENTRY|UNIT|PROPOSAL]")
@json_option("Print a list of objects, each with its diff.")
def diff_(what: str | None) -> None:
    """Show what an entry changed, what changed in a unit such as web, or what a proposal would change.

    Without an argument: what open proposals, and drafts of runs that were not accepted, would change.
    """
    fractal = opened_to_change()
    journal = fractal.workshop.journal
    if what is None or any(each.id == what for each in fractal.workshop.proposals.open()):
        _open_ones(fractal, what or "")
        return
    chosen = [journal.entry(int(what))] if what.isdecimal() else journal.about(what)
    diffs = [(entry, journal.diff(entry)) for entry in chosen]
    emit([entry.as_dict() | {"diff": text} for entry, text in diffs])
    for entry, text in diffs:
        if len(diffs) > 1:
            head = f"# {entry.id} {entry.kind} {entry.unit} by {entry.author}, {local(entry.time)}"
            print_line(head, dim=True)
        if text:
            put(text)


def _open_ones(fractal: Fractal, proposal: str) -> None:
    """Print how each proposal and draft, or one of them, differs from the active system."""
    workshop = fractal.workshop
    open_ones = [(each.id, each.unit, each.reason, each.files) for each in workshop.proposals.open()]
    open_ones += [(f"draft of {run}", unit, "", files) for run, unit, files in workshop.drafted()]
    changes: list[dict[str, str]] = []
    for name, unit, reason, files in (each for each in open_ones if proposal in ("", each[0])):
        texts: list[str] = []
        for path, file in sorted(files.items()):
            present = filter(None, (read(folder / path) for folder in fractal.systems))
            texts.append(difference(path, next(present, None), file))
        changes.append({"name": name, "unit": unit, "reason": reason, "diff": "\n".join(filter(None, texts))})
    emit(changes)
    if not changes:
        notify("no proposals and no drafts")
    for change in changes:
        print_line(f"# {change['name']} {change['unit']} {change['reason']}".rstrip(), dim=True)
        if change["diff"]:
            put(change["diff"])


@system.command()
@click.argument("entry", type=int)
@click.option("--force", is_flag=True, help="Roll back even if later entries changed the same files.")
@json_option("Print the new entry as an object.")
def rollback(entry: int, force: bool) -> None:
    """Restore the state before an entry. The rollback is an entry too and can be rolled back."""
    reverted = opened_to_change().workshop.journal.rollback(entry, force=force)
    if wants_json():
        print_json(reverted)
    back = command("system", "rollback", str(reverted.id))
    notify(f"{reverted.unit}: restored to before entry {entry} (entry {reverted.id}; to revert: {back})")


@system.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--as", "place", metavar="PLACE", default="", help="The path of the file in system/.")
@click.option("--why", default="", help="What it improves.")
@json_option("Print the proposal as an object.")
def propose(paths: tuple[Path, ...], place: str, why: str) -> None:
    """Propose changed files of the system, or tool folders; they are kept until you adopt them.

    \b
      fractal system propose turn.md --why "shorter turns"
      fractal system propose draft.md --as phases/check.md
    """
    fractal = opened_to_change()
    proposal = fractal.workshop.proposals.hand_in(fractal.systems, paths, place=place, why=why)
    print_json(proposal) if wants_json() else put(proposal.id)
    notify(f"{', '.join(sorted(proposal.files))}; test and adopt: {command('system', 'adopt', proposal.id)}")


@system.command()
@click.argument("name", required=False, metavar="[PROPOSAL|RUN]")
@click.option("--force", is_flag=True, help="Adopt even if the trial fails or is inconclusive.")
@click.option("-m", "--model", help="The model for the sample tasks, or for the build.")
@budget_option
@click.option(
    "--trial", "strict", is_flag=True, help="Adopt only if it is shown to be better, not just no worse."
)
@json_option("Print objects.")
def adopt(name: str | None, force: bool, model: str | None, usd: float | None, strict: bool) -> int:
    """Test a proposal, or the drafts of a run, and activate it; without a name, list open proposals.

    A program runs its own sample. For guidance, the sample tasks run with and without it: it is adopted if
    they do no worse, or with --trial if they do better beyond chance; `fractal learn trial` lists trials.
    A proposal to build something starts the run that builds it.
    """
    session = Session()
    fractal = session.open(model=model, usd=usd)
    fractal.workshop.open()
    if name is None:
        _list(fractal)
        return 0
    chosen = _chosen(fractal, name)
    return max(
        session.conclude(session.drive(build(fractal, each)))
        if each.kind == "build"
        else _adopt(fractal, each, force, strict)
        for each in chosen
    )


def _chosen(fractal: Fractal, name: str) -> list[Proposal]:
    workshop = fractal.workshop
    if any(each.id == name for each in workshop.proposals.all()):
        return [workshop.proposals.get(name)]
    run = fractal.find(name)
    salvaged = workshop.salvaged(run)
    if not salvaged:
        raise UsageError(f"run {run} has no drafts outside the system")
    return salvaged


def _list(fractal: Fractal) -> None:
    proposals = fractal.workshop.proposals.open()
    shown: Columns = {
        "ID": "id",
        "WHEN": lambda each: local(each.time),
        "WHAT": lambda each: f"{each.kind} {each.unit}",
        "BY": "author",
        "WHY": lambda each: elide(each.reason, 70),
    }
    print_list(proposals, shown, "no open proposals")
    if proposals:
        notify(f"compare: {command('system', 'diff')}; adopt: {command('system', 'adopt', 'ID')}")


def _adopt(fractal: Fractal, proposal: Proposal, force: bool, strict: bool) -> int:
    adoption = adoption_of(fractal, proposal, wants_json())
    if (moved := adoption.moved()) and not force:
        notify(
            f"{proposal.id}: {', '.join(moved)} changed since the proposal; compare: "
            f"{command('system', 'diff')}; --force replaces it with the proposal",
            "red",
        )
        return 1
    tasks = len(adoption.tasks())
    if tasks and not wants_json():
        usd = fractal.config.usd
        most = f"of at most {fractal.config.calls} calls each"
        most += "" if usd is None else f", at most {money(usd)} in total"
        notify(f"{count(tasks, 'sample task')}, with and without it: {2 * tasks} runs {most}")
    verdict = asyncio.run(adoption.trial() if strict else adoption.judge())
    good = verdict.good or force
    reason = verdict.why if verdict.good else f"{verdict.why}; adopted because of --force"
    entry = adoption.adopt(reason) if good else None
    if strict:
        did = "is adopted" if entry else "stays as it was"
        adoption.keep_trial(trials_of(fractal), verdict, did)
    if wants_json():
        print_json({"proposal": proposal.id, **verdict.as_dict(), "entry": entry and entry.id})
    if not good:
        notify(f"{proposal.id} is not adopted: {line(verdict.why)}; --force adopts it anyway", "red")
        return 1
    if entry is None:
        notify(f"{proposal.id}: already active")
    elif not wants_json():
        notify(f"{proposal.id}: {line(reason)}")
        notify(entry.sentence())
    return 0


def adoption_of(fractal: Fractal, proposal: Proposal, quiet: bool) -> Adoption:
    """The adoption of a proposal; `quiet` prints no samples."""
    workshop, tasks = fractal.workshop, sample_tasks(fractal, sample_reporter(quiet))
    return Adoption(
        workshop.journal, workshop.proposals, proposal, tasks, workshop.context, fractal.has_model
    )


def sample_reporter(quiet: bool) -> Callable[[Tested, str], None]:
    """A callback that prints each finished sample task."""

    def say(tested: Tested, how: str) -> None:
        mark, colour = OUTCOMES[tested.passed]
        note = "" if tested.passed else f": {elide(tested.note, 120)}"
        notify(f"{mark} {tested.tool}, {how}{note}", colour)

    return (lambda tested, how: None) if quiet else say


@system.command()
@click.argument("name", metavar="PROPOSAL")
@click.option("--why", default="", help="Why it is dropped.")
def drop(name: str, why: str) -> None:
    """Close a proposal without adopting it."""
    opened_to_change().workshop.proposals.drop(name, "person", why)
    notify(f"{name} is closed")
