"""`fractal learn`: what runs taught, what it brought, and learning from a run or from several attempts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.learn_trial import agents, trial
from runtime.cli.session import Session, json_option, opened, put, run_argument, tell
from runtime.cli.view import view
from runtime.cli.words import elide, safe, table

if TYPE_CHECKING:
    from runtime.fractal import Fractal
    from runtime.memory.learning.patterns import Pattern
    from runtime.results import RunResult


class _Learn(click.Group):
    """A group whose words are a task where `--group` is given."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.params.get("group"):
            return "attempts", _attempts, args
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            names = ", ".join(self.commands)
            hint = f'to try a task several times: fractal learn --group 4 "{args[0]} …"'
            raise click.UsageError(f"there is no command learn {args[0]}; there are {names}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Learn)
@click.option("--group", type=int, metavar="N", help="Try the TASK that follows N times; learn from it.")
@click.pass_context
def learn(context: click.Context, group: int | None) -> None:
    """Learn from what went well and what did not.

    It happens by itself after each run; `learn: off` in fractal.yaml switches it off. What was learned are
    files in state/memory/patterns/, to be read, corrected, switched off or deleted by whoever likes.

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
    from runtime.remembering.learning import attempts

    parent = context.parent
    assert parent is not None
    session = Session(view(json=False, quiet=True), False)
    fractal = session.open(**({"model": model} if model else {}))
    results: list[RunResult] = []

    def told(number: int, result: RunResult) -> None:
        results.append(result)
        tell(f"attempt {number}: run {result.run}: {result.status}")

    found = asyncio.run(attempts(fractal, " ".join(words), parent.params["group"], told))
    good = sum(each.exit == 0 for each in results)
    tell(f"{good} of {len(results)} were accepted")
    _taught(found)
    if not 0 < good < len(results):
        tell("attempts that all come to the same tell nothing of what makes the difference")
    return 0


@learn.command("from")
@run_argument()
@json_option("Print the patterns that came or changed, as a list of objects.")
def from_(run: str, as_json: bool) -> None:
    """Learn from a run that has ended, also where learning was off then."""
    from runtime.remembering.learning import from_run

    found = from_run(opened(), run)
    if as_json:
        put(json.dumps([_object(each) for each in found], indent=2, ensure_ascii=False))
    else:
        _taught(found)


@learn.command()
@json_option("Print an object: before, after, types, mistakes, coverage.")
def report(as_json: bool) -> None:
    """Say what learning brought: success, time and tokens before and after, coverage, repeated mistakes."""
    from runtime.remembering.learning import in_words
    from runtime.remembering.learning import report as reported

    found = reported(opened())
    put(json.dumps(found.as_dict(), indent=2) if as_json else "\n".join(in_words(found)))


@learn.command()
@click.argument("action", type=click.Choice(["list", "show", "on", "off", "delete"]), default="list")
@click.argument("names", nargs=-1, metavar="NAME…")
@click.option("--type", "type_", metavar="TYPE", help="Only those for tasks of this type.")
@json_option("Print a list of objects.")
def patterns(action: str, names: tuple[str, ...], type_: str | None, as_json: bool) -> int:
    """List the patterns that were learned; show one, switch it off or on, or delete it.

    One that is switched off or deleted is not learned again.
    """
    from kernel.errors import UsageError

    fractal = opened()
    library = fractal.memory.library
    if action == "list":
        return _list(fractal, type_, as_json)
    if not names:
        raise click.UsageError(f"say which pattern to {action if action in ('show', 'delete') else 'switch'}")
    for name in names:
        if action == "show":
            path = library.folder / f"{name}.md"
            above = [place / f"{name}.md" for place in library.above]
            there = next((each for each in (path, *above) if each.is_file() and each.stem == name), None)
            if there is None:
                raise UsageError(f"there is no pattern {name}; `fractal learn patterns` lists them")
            put(there.read_text("utf-8", "replace"))
        elif action == "delete":
            library.delete(name, person=True)
            tell(f"{name} is deleted, and is not learned again")
        else:
            library.update(name, person=True, status="active" if action == "on" else "off")
            tell(f"{name} is switched {action}")
    return 0


@learn.command("import")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.md")
def import_(path: Path) -> None:
    """Begin with good practice: each heading of FILE.md is a pattern, or each point of its list.

    Lines `Applies to: code, edit` and `Avoid: …` under a heading say for which task types it is, and what not
    to do.
    """
    from runtime.remembering.learning import imported

    came, known = imported(opened(), path)
    for each in came:
        tell(f"{each.name} (for {', '.join(each.types)})")
    for each in known:
        tell(f"{each.name} says the same already")
    tell(f"{len(came)} patterns came, {len(known)} were known")


@learn.command()
@click.argument(
    "path",
    required=False,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="[FILE.md]",
)
def export(path: Path | None) -> None:
    """Write what was learned into one file, which `fractal learn import` reads elsewhere."""
    from runtime.memory.learning.practice import write_practice

    found = opened().memory.library.patterns()
    text = write_practice(found)
    if path is None:
        put(text)
    else:
        path.write_text(text, "utf-8")
        tell(f"{len(found)} patterns are in {path}")


def _list(fractal: Fractal, type_: str | None, as_json: bool) -> int:
    library = fractal.memory.library
    found = {each.name: each for each in (*library.patterns(), *library.all())}
    wanted = [each for each in found.values() if type_ is None or type_ in each.types]
    wanted.sort(key=lambda each: (each.status, -each.confidence, each.name))
    if as_json:
        put(json.dumps([_object(each) for each in wanted], indent=2, ensure_ascii=False))
    elif not wanted:
        tell("no pattern was learned here yet")
    else:
        heads = ["NAME", "TYPES", "CONFIDENCE", "HELPED", "HARMED", "SCOPE", "STATUS", "SAYS"]
        rows = [
            [
                each.name,
                ", ".join(each.types),
                f"{each.confidence:.2f} {each.grade()}",
                str(each.helpful),
                str(each.harmful),
                f"agent {each.agent}" if each.scope == "agent" else each.scope,
                each.status,
                safe(elide(" ".join(each.guidance.split()), 60)),
            ]
            for each in wanted
        ]
        lines = table([heads, *rows])
        click.echo(click.style(lines[0], dim=True))
        for line in lines[1:]:
            click.echo(line)
    for fault in library.faults.values():
        tell(str(fault), "yellow")
    return 1 if library.faults else 0


def _object(pattern: Pattern) -> dict[str, Any]:
    told = {key: value for key, value in vars(pattern).items() if key not in ("path", "edited")}
    return {**told, "tokens": pattern.tokens, "edited": pattern.edited}


def _taught(found: Sequence[Pattern]) -> None:
    if not found:
        tell("nothing new: nothing separates what went well from what did not beyond chance")
    for each in found:
        off = " is switched off" if not each.active else ""
        tell(f"{each.name}{off}: {' '.join(each.guidance.split())}")


learn.add_command(trial)
learn.add_command(agents)
