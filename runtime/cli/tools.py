"""`fractal tools`: list, show, check, create, test and retire tools and operations."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from kernel.errors import FractalError, UsageError
from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal
from runtime.api.sample_runs import memory_runner, player
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.exporting import export_tool
from runtime.catalogue.skills import read_skill
from runtime.cli.output import (
    OUTCOMES,
    Columns,
    cost_of,
    count,
    elide,
    emit,
    line,
    money,
    notify,
    picked,
    print_json,
    print_line,
    print_table,
    put,
    seconds,
    wants_json,
)
from runtime.cli.session import Session, allow, command, json_option, opened, opened_to_change
from runtime.evolution import installing
from runtime.evolution.samples import Tested
from runtime.operations.running import caller, command_of
from runtime.reflexes.reflex import Reflex
from runtime.workspace.trust import digest_of

KINDS = click.Choice(["guided", "command"])
ABOUT = ("name", "description", "required", "returns", "run", "effects", "idempotent", "timeout", "status")
ABOUT += ("args", "origin", "path")
"""What `--json` shows of a tool."""


@click.group()
def tools() -> None:
    """List, show, check, create, test, export and retire the tools and operations that models can use."""


@tools.command("ls")
@click.option("--all", "everything", is_flag=True, help="Include drafts, quarantined and retired tools.")
@json_option("Print a list of objects.")
def ls(everything: bool) -> None:
    """List tools and operations: signature, effects, origin, description."""
    fractal = opened()
    troubles = _ask_servers(fractal)
    catalogue = fractal.catalogue()
    chosen = [*catalogue.tools.values(), *(catalogue.idle.values() if everything else ())]
    listed = sorted(chosen, key=lambda tool: (tool.operation, tool.name))
    births = _births(fractal)
    for fault in (*catalogue.faults, *troubles, *fractal.left_out()):
        notify(f"skipped: {fault}", "yellow")
    emit(
        lambda: [
            picked(tool, *ABOUT) | {"origin": _origin(fractal, tool, None), "birth": births.get(tool.path)}
            for tool in listed
        ]
    )
    shown: Columns = {
        "TOOL": lambda tool: f"{tool.name}(what)" if tool.guided else tool.signature,
        "EFFECTS": lambda tool: ",".join(tool.effects) or "none",
        **({"STATUS": "status"} if everything else {}),
        "ORIGIN": lambda tool: _origin(fractal, tool, births.get(tool.path)),
        "DESCRIPTION": lambda tool: elide(tool.description, 60),
    }
    print_table(shown, listed, cut=(0, len(shown) - 1))


def _ask_servers(fractal: Fractal) -> list[str]:
    """Ask MCP servers for tools that are not known yet; returns their errors."""
    troubles: list[str] = []

    async def ask() -> None:
        async with fractal.servers(troubles.append):
            pass

    asyncio.run(ask())
    return troubles


def _births(fractal: Fractal) -> dict[Path, dict[str, Any]]:
    """Who made the tools of the workspace's own system, from its journal."""
    births: dict[Path, dict[str, Any]] = {}
    system = fractal.workspace.root / "system"
    for entry in fractal.workshop.journal.entries():
        if entry.kind in ("admitted", "adopted", "added"):
            birth = picked(entry, "id", "time", "author", "run", "step", "model")
            for change in entry.files:
                if not change.before:
                    births[system / change.path] = birth
    return births


def _origin(fractal: Fractal, tool: Tool, birth: dict[str, Any] | None) -> str:
    """Where a tool comes from: `own` for one that this workspace wrote or changed."""
    own, shipped = fractal.workspace.root / "system", fractal.workspace.shipped
    origin = tool.origin
    if origin == "shipped" and own != shipped and tool.path.is_relative_to(own):
        same = digest_of(shipped / tool.path.relative_to(own)) == digest_of(tool.path)
        origin = "shipped" if same else "own"
    return f"{origin}, {birth['author']}" if birth else origin


def _by_name(catalogue: Catalogue) -> dict[str, Tool]:
    """All tools by name; an active one replaces a draft, quarantined or retired one."""
    return {**catalogue.idle, **catalogue.tools}


@tools.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show the file of a tool or operation."""
    catalogue = opened().catalogue()
    by_name = _by_name(catalogue)
    if name not in by_name:
        broken = [fault for fault in catalogue.faults if name in (fault.path.stem, fault.path.parent.name)]
        raise UsageError(f"skipped: {broken[0]}" if broken else catalogue.unknown(name))
    tool = by_name[name]
    notify(f"{tool.path}" if tool.status == "active" else f"{tool.path} ({tool.status})")
    if tool.origin == "mcp":  # its file describes many tools, and may contain secrets
        print_json(picked(tool, *ABOUT))
        return
    put(tool.path.read_text("utf-8", errors="replace"))


@tools.command("call")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE…]")
@click.option("-y", "--yes", is_flag=True, help="Approve the call in advance, unless it is a serious danger.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@json_option("Print events as JSON lines; the last one has the result.")
def call(name: str, words: tuple[str, ...], yes: bool, quiet: bool) -> int:
    """Call a tool or an operation with these arguments. No model is needed.

    \b
      fractal tools call csv path=sales.csv query="sum amount by region"
      fractal tools call compare '{"a": "old.txt", "b": "new.txt"}'

    A value is JSON where the argument is no text. The call is a run of one step: it needs the same approvals,
    and `fractal show` and `fractal undo` work as for any other run.
    """
    session = Session(quiet=quiet)
    fractal = session.open()
    tool = fractal.catalogue().tools.get(name)
    args = _arguments(words, tool.args if tool else {})
    return session.conclude(session.drive(fractal.call(name, args, yes=yes)))


def _arguments(words: Sequence[str], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in `KEY=VALUE` words and JSON objects. A text stays as it is, all else is JSON."""
    args: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        whole = _json(word) if word.startswith("{") else None
        if isinstance(whole, dict):
            args |= cast(dict[str, Any], whole)
        elif equals and name:
            kind = schemas.get(name, {}).get("type")
            found = value if kind == "string" else _json(value)
            args[name] = value if found is None and value != "null" else found
        else:
            raise click.UsageError(f"{word}: write KEY=VALUE, or one JSON object")
    return args


def _json(text: str) -> Any:
    """The value of a JSON text; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@tools.command("check")
@click.argument("names", nargs=-1)
def check(names: tuple[str, ...]) -> int:
    """Check that every file of the catalogue is well formed and that its program exists."""
    catalogue = opened().catalogue()
    by_name = _by_name(catalogue)
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(catalogue.unknown(unknown[0]))
    chosen = [by_name[name] for name in names or sorted(by_name)]
    for tool in chosen:
        for text in read_skill(tool.path).departures if tool.skill else ():
            notify(f"{tool.path}: {text}", "yellow")
    faults = () if names else (*catalogue.faults, *Reflex(catalogue.folders).faults)
    problems = [str(fault) for fault in faults]
    problems += [f"{tool.path}: {text}" for tool in chosen if (text := _problem(tool))]
    for text in problems:
        print_line(f"✗ {line(text)}", fg="red")
    summary = count(len(problems), "problem") if problems else "no problems"
    print_line(f"{len(chosen)} tools and operations, {summary}")
    return 1 if problems else 0


def _problem(tool: Tool) -> str:
    """What is wrong with a tool whose file is well formed; else ""."""
    if tool.in_process or tool.scheme == "command":
        try:
            _ = tool.function if tool.in_process else command_of(tool)
        except FractalError as error:
            return str(error).removeprefix(f"{tool.path}: ")
    elif tool.guided:
        missing = [each for each in ("UNDERSTAND", "PLAN", "DO", "CHECK") if not tool.section(each)]
        if len(missing) == 4 and not tool.body.strip():
            return "it has neither code nor guidance"
    sample = tool.sample.get("args")
    if sample is not None and (problem := tool.problem(dict(sample))):
        return f"sample: {problem}"
    return ""


@tools.command()
@click.argument("name")
@click.option(
    "--kind", type=KINDS, default="guided", show_default=True, help="Guidance for a loop, or a program."
)
def new(name: str, kind: str) -> None:
    """Create a tool from a template; it is a draft until its sample passes."""
    fractal = opened_to_change()
    installing.new(fractal.workshop.journal, fractal.catalogue(), name, kind)
    put(str(fractal.workspace.root / "system" / "tools" / name / "pattern.md"))
    notify(f"edit it, then: {command('tools', 'test', name)}")


@tools.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing one that differs.")
def add(path: Path, force: bool) -> int:
    """Copy a tool's folder, an operation's file, a skill, or a folder of them into system/.

    A program is used once its own sample passes; if it fails, the tool is quarantined.
    """
    fractal = opened_to_change()
    failed = False
    for package in installing.packages_in(path):
        try:
            entry = installing.add(fractal.workshop.journal, package, force=force)
        except FractalError as error:
            notify(f"✗ {error}", "red")
            failed = True
            continue
        notify(f"{'added' if entry else 'already there:'} {package.unit}")
        if entry and package.tool.scheme == "command":
            tested = asyncio.run(_test(fractal, [_tool(fractal, package.tool.name)]))[0]
            _say(tested)
            if tested.passed is False:
                tool = _tool(fractal, package.tool.name)
                fractal.workshop.records.mark(tool, "quarantined", tested.note, "fractal")
                notify(f"quarantined; fix it, then: {command('tools', 'test', tool.name)}", "yellow")
                failed = True
    return 1 if failed else 0


def _tool(fractal: Fractal, name: str) -> Tool:
    catalogue = fractal.catalogue()
    if tool := _by_name(catalogue).get(name):
        return tool
    raise UsageError(catalogue.unknown(name))


@tools.command()
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Test all tools that have a sample.")
@click.option("-m", "--model", help="The model for samples of guided tools.")
@json_option("Print a list of objects.")
def test(names: tuple[str, ...], everything: bool, model: str | None) -> int:
    """Run the samples of tools; that of a guided tool is a run with the configured model.

    A draft or quarantined tool whose sample passes becomes active.
    """
    if bool(names) == everything:
        raise click.UsageError("name the tools to test, or use --all")
    fractal = opened_to_change(model=model)
    catalogue = fractal.catalogue()
    if everything:
        chosen = [*catalogue.tools.values(), *(t for t in catalogue.idle.values() if t.status != "retired")]
        chosen = sorted((t for t in chosen if t.sample), key=lambda tool: (tool.guided, tool.name))
    else:
        chosen = [_tool(fractal, name) for name in names]
    guided = [tool for tool in chosen if tool.guided and tool.sample]
    if guided and fractal.has_model and not wants_json():
        bounds = fractal.config.bounds()
        usd = "" if bounds.usd is None else f" and {money(bounds.usd)}"
        notify(f"{count(len(guided), 'run')} of at most {bounds.calls} calls{usd} each")
    results = asyncio.run(_test(fractal, chosen, quiet=wants_json()))
    bad = [each for each in results if each.passed is False or (each.passed is None and not everything)]
    emit(results, 1 if bad else 0)
    return 1 if bad else 0


async def _test(fractal: Fractal, tools: list[Tool], *, quiet: bool = False) -> list[Tested]:
    if sys.stdin.isatty() and sys.stderr.isatty() and (items := fractal.to_allow()):
        allow(items)
    fractal.refuse_untrusted()
    workshop, calls = fractal.workshop, caller(memory=memory_runner())
    results: list[Tested] = []
    for tool in tools:
        play = player(fractal) if tool.guided and fractal.has_model else None
        context = workshop.context(tool)
        results.append(await workshop.records.test(tool, workshop.workspace, context, play, calls))
        if not quiet:
            _say(results[-1])
    return results


def _say(tested: Tested) -> None:
    mark, colour = OUTCOMES[tested.passed]
    word = {True: "passed", False: "failed", None: "not tested"}[tested.passed]
    cost = f", {cost_of(tested.spent)}" if tested.spent.get("calls") else ""
    took = f" ({seconds(tested.seconds)}{cost})" if tested.passed is not None else ""
    note = "" if tested.passed else f": {line(tested.note)}"
    print_line(f"{mark} {tested.tool} {word}{took}{note}", fg=colour)
    if tested.folder:
        print_line(f"  see: fractal -C {shlex.quote(tested.folder)} show")


@tools.command()
@click.argument("name")
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    metavar="FOLDER",
    help="Where to write it, such as ~/.claude/skills; the current folder by default.",
)
def export(name: str, to: Path) -> None:
    """Write a tool as an Agent Skill that other agents read: FOLDER/NAME/SKILL.md, with its program.

    Operations are code of Fractal and cannot be exported.
    """
    put(str(export_tool(_tool(opened(), name), to.expanduser())))


@tools.command()
@click.argument("names", nargs=-1, required=True)
def retire(names: tuple[str, ...]) -> None:
    """Retire tools; `fractal system rollback` restores them."""
    fractal = opened_to_change()
    for name in names:
        entry = installing.retire(fractal.workshop.journal, fractal.workshop.records, _tool(fractal, name))
        after = f"; to restore: {command('system', 'rollback', str(entry.id))}" if entry else ""
        notify(f"{name} is retired{after}")
