"""`fractal tools new`, `add`, `test` and `retire`: tools made, brought, tested and taken out of use."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime.cli.session import ask_for_trust, command, json_option, opened, put, tell
from runtime.cli.words import line, money, safe, seconds

if TYPE_CHECKING:
    from kernel.tools import Tool
    from runtime.building.samples import Tested
    from runtime.fractal import Fractal


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["guided", "command"]),
    default="guided",
    show_default=True,
    help="A text that guides a loop, or a program.",
)
def new(name: str, kind: str) -> None:
    """Make a tool from a template: a draft, until its sample has passed."""
    from runtime.building import bringing

    fractal = opened()
    fractal.workshop.open()
    bringing.new(fractal.workshop.journal, fractal.catalogue(), name, kind)
    put(str(fractal.workspace.root / "system" / "tools" / name / "pattern.md"))
    tell(f"edit it, then: {command('tools', 'test', name)}")


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--force", is_flag=True, help="Put it in the place of one that differs.")
def add(path: Path, force: bool) -> int:
    """Copy a tool's folder, an operation's file or a skill into system/; or all that a folder holds.

    A program is used once its own sample has passed; one that fails is quarantined.
    """
    from kernel.errors import FractalError
    from runtime.building import bringing

    fractal = opened()
    workshop = fractal.workshop
    workshop.open()
    failed = False
    for brought in bringing.found(path):
        try:
            entry = bringing.add(workshop.journal, brought, force=force)
        except FractalError as error:
            tell(f"✗ {error}", "red")
            failed = True
            continue
        tell(f"{'added' if entry else 'there already:'} {brought.unit}")
        if entry and brought.tool.scheme == "command":
            tested = asyncio.run(_test(fractal, [_named(fractal, brought.tool.name)]))[0]
            _say(tested)
            if tested.passed is False:
                tool = _named(fractal, brought.tool.name)
                workshop.standing.mark(tool, "quarantined", tested.note, "fractal")
                tell(f"it is quarantined; mend it, then: {command('tools', 'test', tool.name)}", "yellow")
                failed = True
    return 1 if failed else 0


def _named(fractal: Fractal, name: str) -> Tool:
    from kernel.errors import UsageError

    catalogue = fractal.catalogue()
    if tool := catalogue.tools.get(name) or catalogue.idle.get(name):
        return tool
    raise UsageError(catalogue.unknown(name))


@click.command()
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Test all that have a sample.")
@click.option("-m", "--model", help="The model for the samples of guided tools.")
@json_option("Print a list of objects.")
def test(names: tuple[str, ...], everything: bool, model: str | None, as_json: bool) -> int:
    """Run the samples of tools: of code at once, of guided tools as a run with the configured model.

    A draft or a quarantined tool whose sample passes is active from then on.
    """
    from runtime.growing import modelled

    if bool(names) == everything:
        raise click.UsageError("name the tools to test, or give --all")
    fractal = opened(**({"model": model} if model else {}))
    fractal.workshop.open()
    catalogue = fractal.catalogue()
    if everything:
        chosen = [*catalogue.tools.values(), *(t for t in catalogue.idle.values() if t.status != "retired")]
        chosen = sorted((t for t in chosen if t.sample), key=lambda tool: (tool.guided, tool.name))
    else:
        chosen = [_named(fractal, name) for name in names]
    guided = [tool for tool in chosen if tool.guided and tool.sample]
    if guided and modelled(fractal) and not as_json:
        tell(f"{_runs(len(guided))} of at most {_budget(fractal)} each")
    found = asyncio.run(_test(fractal, chosen, quiet=as_json))
    if as_json:
        put(json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False))
    bad = [each for each in found if each.passed is False or (each.passed is None and not everything)]
    return 1 if bad else 0


def _runs(count: int) -> str:
    return "a run" if count == 1 else f"{count} runs"


def _budget(fractal: Fractal) -> str:
    bounds = fractal.config.bounds()
    usd = "" if bounds.usd is None else f" and {money(bounds.usd)}"
    return f"{bounds.calls} calls{usd}"


async def _test(fractal: Fractal, tools: list[Tool], *, quiet: bool = False) -> list[Tested]:
    from runtime.building.samples import test as test_one
    from runtime.growing import modelled, player
    from runtime.remembering.tools import on_trial

    if sys.stdin.isatty() and sys.stderr.isatty():
        ask_for_trust(fractal)
    fractal.refuse_untrusted()
    workshop, runners = fractal.workshop, {"memory": on_trial()}
    found: list[Tested] = []
    for tool in tools:
        play = player(fractal) if tool.guided and modelled(fractal) else None
        context = workshop.context(tool)
        standing = workshop.standing
        found.append(await test_one(tool, workshop.workspace, context, standing, play, runners))
        if not quiet:
            _say(found[-1])
    return found


def _say(tested: Tested) -> None:
    mark, colour = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}[tested.passed]
    word = {True: "passed", False: "failed", None: "not tested"}[tested.passed]
    cost = f", {money(tested.spent.get('usd', 0))}" if tested.spent.get("calls") else ""
    took = f" ({seconds(tested.seconds)}{cost})" if tested.passed is not None else ""
    note = "" if tested.passed else f": {line(tested.note)}"
    click.echo(click.style(f"{mark} {safe(tested.tool)} {word}{took}{note}", fg=colour))
    if tested.folder:
        click.echo(f"  look at it: fractal -C {shlex.quote(tested.folder)} show")


@click.command()
@click.argument("names", nargs=-1, required=True)
def retire(names: tuple[str, ...]) -> None:
    """Take tools out of use; `fractal system rollback` brings them back."""
    from runtime.building import bringing

    fractal = opened()
    workshop = fractal.workshop
    workshop.open()
    for name in names:
        entry = bringing.retire(workshop.journal, workshop.standing, _named(fractal, name))
        after = f"; back: {command('system', 'rollback', str(entry.id))}" if entry else ""
        tell(f"{name} is retired{after}")
