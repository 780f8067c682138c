"""`fractal tools`: the catalogue as it is read from system/; what changes it is in `testing`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import columns, json_option, opened, put, tell
from runtime.cli.testing import add, new, retire, test
from runtime.cli.words import elide, fitted, line, safe, table

if TYPE_CHECKING:
    from pathlib import Path

    from kernel.catalogue import Catalogue
    from kernel.tools import Tool
    from runtime.fractal import Fractal


@click.group()
def tools() -> None:
    """List, show, check, make, test and retire the tools and operations that plans can use."""


for _command in (new, add, test, retire):
    tools.add_command(_command)


@tools.command("ls")
@click.option("--all", "everything", is_flag=True, help="Also drafts, and what is quarantined or retired.")
@json_option("Print a list of objects.")
def ls(everything: bool, as_json: bool) -> None:
    """List what there is: signature, effects, origin, description."""
    fractal = opened()
    troubles = _ask_servers(fractal)
    catalogue = fractal.catalogue()
    chosen = [*catalogue.tools.values(), *(catalogue.idle.values() if everything else ())]
    found = sorted(chosen, key=lambda tool: (tool.operation, tool.name))
    births = _births(fractal)
    if as_json:
        put(
            json.dumps(
                [
                    _about(tool) | {"origin": _origin(fractal, tool, None), "birth": births.get(tool.path)}
                    for tool in found
                ],
                indent=2,
            )
        )
    else:
        head = ["TOOL", "EFFECTS", *(["STATUS"] if everything else []), "ORIGIN", "DESCRIPTION"]
        rows = [
            [
                safe(f"{tool.name}(what)" if tool.guided else tool.signature),
                ",".join(tool.effects) or "none",
                *([safe(tool.status)] if everything else []),
                safe(_origin(fractal, tool, births.get(tool.path))),
                elide(tool.description, 60),
            ]
            for tool in found
        ]
        lines = table(fitted([head, *rows], columns(), (0, len(head) - 1)))
        click.echo(click.style(lines[0], dim=True))
        for text in lines[1:]:
            click.echo(text)
    for fault in (*catalogue.faults, *troubles):
        tell(f"left out: {fault}", "yellow")


def _ask_servers(fractal: Fractal) -> list[str]:
    """Have MCP servers asked for their tools, where they are not known; what is wrong with any, in words."""
    import asyncio

    from runtime.mcp.servers import Servers

    troubles: list[str] = []

    async def ask() -> None:
        async with Servers(fractal.workspace, troubles.append):
            pass

    asyncio.run(ask())
    return troubles


def _births(fractal: Fractal) -> dict[Path, dict[str, Any]]:
    """By whom the tools of the workspace's own system were made, from its journal."""
    births: dict[Path, dict[str, Any]] = {}
    system = fractal.workspace.root / "system"
    for entry in fractal.workshop.journal.entries():
        if entry.kind in ("admitted", "adopted", "added"):
            told = {name: getattr(entry, name) for name in ("id", "time", "author", "run", "step", "model")}
            for change in entry.files:
                if not change.before:
                    births[system / change.path] = told
    return births


def _origin(fractal: Fractal, tool: Tool, birth: dict[str, Any] | None) -> str:
    """Where a tool comes from: `own` for one that this workspace wrote, or changed after it was shipped."""
    from runtime.trust import digest_of

    own, shipped = fractal.workspace.root / "system", fractal.workspace.shipped
    origin = tool.origin
    if origin == "shipped" and own != shipped and tool.path.is_relative_to(own):
        same = digest_of(shipped / tool.path.relative_to(own)) == digest_of(tool.path)
        origin = "shipped" if same else "own"
    return f"{origin}, {birth['author']}" if birth else origin


def _about(tool: Tool) -> dict[str, Any]:
    names = (
        "name",
        "description",
        "required",
        "returns",
        "run",
        "effects",
        "idempotent",
        "timeout",
        "status",
    )
    about = {name: getattr(tool, name) for name in names}
    return about | {"args": dict(tool.args), "origin": tool.origin, "path": str(tool.path)}


def _known(catalogue: Catalogue) -> dict[str, Tool]:
    """The tools in use, and behind them those that are drafts, quarantined or retired."""
    return {**catalogue.idle, **catalogue.tools}


@tools.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show the file of a tool or operation."""
    from kernel.errors import UsageError

    catalogue = opened().catalogue()
    known = _known(catalogue)
    if name not in known:
        broken = [fault for fault in catalogue.faults if name in (fault.path.stem, fault.path.parent.name)]
        raise UsageError(f"left out: {broken[0]}" if broken else catalogue.unknown(name))
    tool = known[name]
    tell(f"{tool.path}" if tool.status == "active" else f"{tool.path} ({tool.status})")
    if tool.origin == "mcp":  # its file is no tool's alone, and may hold secrets
        put(json.dumps(_about(tool), indent=2, ensure_ascii=False))
        return
    put(tool.path.read_text("utf-8", errors="replace"))


@tools.command("check")
@click.argument("names", nargs=-1)
def check(names: tuple[str, ...]) -> int:
    """Check every file of the catalogue: that it is well formed, and that what it runs is there."""
    from kernel.errors import UsageError

    catalogue = opened().catalogue()
    known = _known(catalogue)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(catalogue.unknown(unknown[0]))
    chosen = [known[name] for name in names or sorted(known)]
    for tool in chosen:
        for text in _departures(tool):
            tell(f"{tool.path}: {text}", "yellow")
    problems = [] if names else [str(fault) for fault in (*catalogue.faults, *_reflex_faults(catalogue))]
    problems += [f"{tool.path}: {text}" for tool in chosen if (text := _problem(tool))]
    for text in problems:
        click.echo(click.style(f"✗ {line(text)}", fg="red"))
    click.echo(
        f"{len(chosen)} tools and operations, {len(problems) or 'no'} problem{'s'[: len(problems) != 1]}"
    )
    return 1 if problems else 0


def _reflex_faults(catalogue: Catalogue) -> list[object]:
    """Reflexes are part of the system too; a malformed one is left out."""
    from runtime.responders.reflex import Reflex

    return list(Reflex(catalogue.folders).faults)


def _departures(tool: Tool) -> tuple[str, ...]:
    """In what a skill departs from the specification; it is in use all the same."""
    from kernel.skills import read_skill

    return read_skill(tool.path).departures if tool.skill else ()


def _problem(tool: Tool) -> str:
    """What is wrong with a tool that is read without fault."""
    from kernel.acting import command_of
    from kernel.errors import FractalError

    if tool.scheme in ("python", "command"):
        try:
            _ = tool.function if tool.scheme == "python" else command_of(tool)
        except FractalError as error:
            return str(error).removeprefix(f"{tool.path}: ")
    elif tool.guided:
        missing = [each for each in ("UNDERSTAND", "PLAN", "DO", "CHECK") if not tool.section(each)]
        if len(missing) == 4 and not tool.body.strip():
            return "it has neither code nor a text that guides its loop"
    sample = tool.sample.get("args")
    if sample is not None and (problem := tool.problem(dict(sample))):
        return f"sample: {problem}"
    return ""
