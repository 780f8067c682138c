"""`fractal learn`: what was learned from runs, attempts, trials of changes, and agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kernel.errors import ConfigurationError, UsageError
from runtime.api import learning
from runtime.api.fractal import Fractal
from runtime.api.learning import trials_of
from runtime.api.sample_runs import sample_tasks
from runtime.catalogue.exporting import skill_text, write_skill
from runtime.cli.output import (
    Columns,
    echo,
    elide,
    emit,
    line,
    local,
    notify,
    print_list,
    print_table,
    put,
    wants_json,
)
from runtime.cli.progress import PHASES
from runtime.cli.session import Session, budget_option, command, json_option, opened, run_argument
from runtime.cli.system import adoption_of, sample_reporter
from runtime.evolution.adoption import ChangeTrials
from runtime.evolution.trials import Trial
from runtime.memory.context import awareness
from runtime.memory.learning.patterns import Pattern, write_practice
from runtime.workspace.runs import RunResult


class _Learn(click.Group):
    """A group whose arguments are a task if `--group` is given."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.params.get("group"):
            return "attempts", _attempts, args
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            names = ", ".join(self.commands)
            hint = f'to try a task several times: fractal learn --group 4 "{args[0]} …"'
            raise click.UsageError(f"there is no command learn {args[0]}; use {names}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Learn)
@click.option("--group", type=int, metavar="N", help="Try the following TASK N times and learn from it.")
@click.pass_context
def learn(context: click.Context, group: int | None) -> None:
    """Learn from runs that succeeded and runs that failed.

    This happens after each run; `learn: off` in fractal.yaml switches it off. Learned patterns are files in
    state/memory/patterns/ that you can read, correct, switch off or delete.

    \b
      fractal learn patterns
      fractal learn --group 4 "add a test for the function total"
      fractal learn import good-practice.md
    """
    context.ensure_object(dict)


@click.command("attempts", hidden=True)
@click.argument("words", nargs=-1, required=True, metavar="TASK…")
@click.option("-m", "--model", help="The model, such as ollama/llama3.2.")
@click.option("-y", "--yes", is_flag=True, hidden=True)
@click.pass_context
def _attempts(context: click.Context, words: tuple[str, ...], model: str | None, yes: bool) -> int:
    """Try a task several times."""
    parent = context.parent
    assert parent is not None
    session = Session(quiet=True)
    fractal = session.open(model=model)
    results: list[RunResult] = []

    def report_attempt(number: int, result: RunResult) -> None:
        results.append(result)
        notify(f"attempt {number}: run {result.run}: {result.status}")

    learned = asyncio.run(
        learning.attempts(fractal, " ".join(words), parent.params["group"], report_attempt, yes=yes)
    )
    good = sum(each.exit == 0 for each in results)
    notify(f"{good} of {len(results)} accepted")
    _print_learned(learned)
    if not 0 < good < len(results):
        notify("all attempts ended alike, so there is nothing to compare")
    return 0


@learn.command("from")
@run_argument()
@json_option("Print the new and changed patterns as a list of objects.")
def from_(run: str) -> None:
    """Learn from a finished run (default: the newest), even if learning was off."""
    learned = learning.from_run(opened(), run)
    emit([_object(each) for each in learned])
    _print_learned(learned)


@learn.command()
@json_option("Print an object: before, after, types, mistakes, coverage.")
def report() -> None:
    """Compare success, time and tokens before and after learning; show coverage and repeated mistakes."""
    result = learning.report(opened())
    emit(result)
    put("\n".join(learning.in_words(result)))


@learn.command()
@click.argument("action", type=click.Choice(["list", "show", "on", "off", "delete"]), default="list")
@click.argument("names", nargs=-1, metavar="NAME…")
@click.option("--type", "type_", metavar="TYPE", help="Only patterns for tasks of this type.")
@json_option("Print a list of objects.")
def patterns(action: str, names: tuple[str, ...], type_: str | None) -> int:
    """List the learned patterns; show one, switch it off or on, or delete it.

    A pattern that is switched off or deleted is not learned again.
    """
    fractal = opened()
    library = fractal.memory.library
    if action == "list":
        return _list_patterns(fractal, type_)
    if not names:
        raise click.UsageError(f"name the pattern to {action if action in ('show', 'delete') else 'switch'}")
    for name in names:
        if action == "show":
            path = library.folder / f"{name}.md"
            above = [place / f"{name}.md" for place in library.above]
            source = next((each for each in (path, *above) if each.is_file() and each.stem == name), None)
            if source is None:
                raise UsageError(f"there is no pattern {name}; `fractal learn patterns` lists them")
            put(source.read_text("utf-8", "replace"))
        elif action == "delete":
            library.delete(name, person=True)
            notify(f"{name} is deleted and will not be learned again")
        else:
            library.update(name, person=True, status="active" if action == "on" else "off")
            notify(f"{name} is switched {action}")
    return 0


@learn.command("import")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.md")
def import_(path: Path) -> None:
    """Import good practice: each heading of FILE.md, or each item of its list, becomes a pattern.

    Lines `Applies to: code, edit` and `Avoid: …` below a heading give the task types and what to avoid.
    """
    new, merged = learning.imported(opened(), path)
    for pattern in new:
        notify(f"{pattern.name} (for {', '.join(pattern.types)})")
    for pattern in merged:
        notify(f"{pattern.name} says the same")
    notify(f"{len(new)} patterns imported, {len(merged)} already known")


@learn.command()
@click.argument(
    "path", required=False, type=click.Path(writable=True, path_type=Path), metavar="[FILE.md|FOLDER]"
)
@click.option("--skill", metavar="NAME", help="Write FOLDER/NAME/SKILL.md, which other agents read.")
def export(path: Path | None, skill: str | None) -> None:
    """Write the learned patterns to one file, which `fractal learn import` reads elsewhere.

    With --skill they become an Agent Skill in FOLDER, the current one by default.
    """
    exported = opened().memory.library.patterns()
    text = write_practice(exported)
    if skill is not None:
        if not exported:
            raise UsageError("no patterns are learned here yet: there is nothing to export")
        types = ", ".join(sorted({name for each in exported for name in each.types}))
        about = f"Practice that Fractal learned from its runs. Read it before tasks of these types: {types}"
        put(str(write_skill(skill_text(skill, about, text), (path or Path()) / skill)))
    elif path is None:
        put(text)
    elif path.is_dir():
        raise UsageError(f"{path} is a folder; name a file, or use --skill NAME")
    else:
        path.write_text(text, "utf-8")
        notify(f"{len(exported)} patterns are in {path}")


def _list_patterns(fractal: Fractal, type_: str | None) -> int:
    library = fractal.memory.library
    by_name = {each.name: each for each in (*library.patterns(), *library.all())}
    chosen = [each for each in by_name.values() if type_ is None or type_ in each.types]
    chosen.sort(key=lambda each: (each.status, -each.confidence, each.name))
    shown: Columns = {
        "NAME": "name",
        "TYPES": lambda each: ", ".join(each.types),
        "CONFIDENCE": lambda each: f"{each.confidence:.2f} {each.grade()}",
        "HELPED": "helpful",
        "HARMED": "harmful",
        "SCOPE": lambda each: f"agent {each.agent}" if each.scope == "agent" else each.scope,
        "STATUS": "status",
        "SAYS": lambda each: elide(each.guidance, 60),
    }
    for fault in library.faults.values():
        notify(str(fault), "yellow")
    code = 1 if library.faults else 0
    emit([_object(each) for each in chosen], code)
    print_list(chosen, shown, "no patterns learned here yet")
    return code


def _object(pattern: Pattern) -> dict[str, Any]:
    fields = {key: value for key, value in vars(pattern).items() if key not in ("path", "edited")}
    return {**fields, "tokens": pattern.tokens, "edited": pattern.edited}


def _print_learned(learned: Sequence[Pattern]) -> None:
    if not learned:
        notify("nothing new: no difference between successes and failures beyond chance")
    for pattern in learned:
        off = " (off)" if not pattern.active else ""
        notify(f"{pattern.name}{off}: {' '.join(pattern.guidance.split())}")


TRIALS: Columns = {
    "ID": "id",
    "WHEN": lambda each: local(each.at),
    "WHAT": lambda each: f"{each.kind} {each.unit}",
    "FOUND": lambda each: elide(each.compared.summary, 80),
    "THEN": "did",
}


@learn.command()
@click.argument("what", required=False, metavar="[PROPOSAL|ENTRY|PATTERN]")
@click.option("-m", "--model", help="The model for the sample tasks.")
@budget_option
@click.option("--dry-run", is_flag=True, help="Only report what was found.")
@json_option("Print the trial as an object; without a name, all.")
def trial(what: str | None, model: str | None, usd: float | None, dry_run: bool) -> int:
    """Compare a change with the present state on the same sample tasks; without a name, list the trials.

    \b
      p3            a proposal: a phase file, a tool, any change of the system
      12            an entry of `fractal system log`: the present state against the one before it
      read-first    a learned pattern: with it against without it
      draft.md      a file with a new pattern

    A change that is shown to be better is adopted; an active one that is shown to be worse is reverted (a
    pattern is switched off). If the result is inconclusive, nothing changes, and the number of tasks that
    would decide is shown. The tasks are the samples of the guided tools and those in system/samples/.
    """
    session = Session()
    fractal = session.open(model=model, usd=usd)
    fractal.workshop.open()
    if what is None:
        nothing = f"no trials yet; try a proposal, an entry or a pattern: {command('learn', 'trial', '…')}"
        print_list(trials_of(fractal).all(), TRIALS, nothing)
        return 0
    result = asyncio.run(_run_trial(fractal, what, dry_run, wants_json()))
    code = 0 if result.compared.finding == "better" else 1
    emit(result, code)
    notify(f"{result.id}: {line(result.compared.summary)}")
    notify(f"{result.unit} {result.did}")
    return code


async def _run_trial(fractal: Fractal, subject: str, dry_run: bool, quiet: bool) -> Trial:
    if not fractal.has_model:
        raise ConfigurationError("a trial needs a model for the sample tasks; name one with --model")
    tasks = sample_tasks(fractal, sample_reporter(quiet))
    trying = ChangeTrials(fractal.workshop.journal, tasks, trials_of(fractal), dry_run)
    if any(each.id == subject for each in fractal.workshop.proposals.all()):
        return await trying.proposal(adoption_of(fractal, fractal.workshop.proposals.get(subject), quiet))
    if subject.isdigit():
        return await trying.entry(int(subject))
    return await trying.pattern(fractal.memory.library, subject)


@learn.command()
@json_option("Print an object: the agents, the best by task type, and active runs.")
def agents() -> None:
    """Show the agents: attempts and success by task type, the best of each, and active runs."""
    fractal = opened()
    profiles = fractal.memory.profiles()
    active = awareness.active(fractal.workspace.runs)
    types = sorted({name for each in profiles for name in each.by_type})
    best = {name: found for name in types if (found := awareness.best(awareness.totals(profiles, name)))}
    scores = {name: {"agent": each[0], "score": round(each[1].score, 4)} for name, each in best.items()}
    emit({"agents": profiles, "best": scores, "active": active})
    if not profiles and not active:
        notify(f"no agent has worked here yet; start one: {command('run', '…')}")
        return
    rows = [(each, name, tried) for each in profiles for name, tried in sorted(each.by_type.items())]

    def mark(row: tuple[Any, str, Any]) -> str:
        is_best = best[row[1]][0] == row[0].agent and row[2].samples >= awareness.FEW
        return "best" if is_best else ""

    shown: Columns = {
        "AGENT": lambda row: row[0].agent,
        "SPACE": lambda row: row[0].space,
        "TYPE": lambda row: row[1],
        "TRIED": lambda row: row[2].samples,
        "DONE": lambda row: f"{row[2].successes / row[2].samples:.0%}",
        "SCORE": lambda row: f"{row[2].score:.2f}",
        "BEST": mark,
    }
    print_table(shown, rows)
    for each in active:
        doing = PHASES.get(each.phase, each.phase)
        echo(f"now: {each.agent}, run {each.run}, {doing}: {elide(each.task, 70)}")
