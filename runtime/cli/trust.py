"""`fractal trust`: look at what a folder's own files ask for, and allow it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from runtime.cli.session import json_option, opened, put, show_items, tell
from runtime.cli.words import safe

if TYPE_CHECKING:
    from runtime.trust import Item


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-y", "--yes", is_flag=True, help="Allow it without asking.")
@click.option("--revoke", is_flag=True, help="Allow nothing of this folder any more.")
@json_option("Print what is not allowed yet as a list of objects.")
def trust(names: tuple[str, ...], yes: bool, revoke: bool, as_json: bool) -> int:
    """Look at what this folder's own files ask for, and allow it: all of it, or what is named.

    Settings that lower security or send data elsewhere, files of its own system/, skills, and MCP servers
    count once you have allowed them, exactly as they are written: a changed one is asked about again.
    """
    from kernel.errors import UsageError
    from runtime import trust as kept
    from runtime.lowering import asks_for
    from runtime.mcp.configured import places
    from runtime.mcp.servers import Servers
    from runtime.mcp.trust import item

    fractal = opened()
    workspace = fractal.workspace
    if revoke:
        folders = [workspace.root, *(path.parent for path in places(workspace.folder, workspace.root))]
        tell(f"{kept.revoke(dict.fromkeys(folders))} things of this folder are not allowed any more")
        return 0
    servers = Servers(workspace)
    waiting = [*fractal.untrusted(), *map(item, servers.untrusted)]
    chosen = [each for each in waiting if each.name in names] if names else waiting
    if unknown := set(names) - {each.name for each in waiting}:
        known = {each.name for each in asks_for(workspace, fractal.config, fractal.sources)} | {
            f"mcp:{name}" for name in servers.names
        }
        if strange := sorted(unknown - known):
            there = ", ".join(sorted({each.name for each in waiting} | known)) or "nothing"
            raise UsageError(f"this folder does not ask for {strange[0]}; it asks for: {there}")
        tell(f"allowed already: {', '.join(sorted(unknown))}")
    if as_json:
        put(json.dumps([asdict(each) for each in chosen], indent=2, ensure_ascii=False))
        return 0
    if not chosen:
        if not names:
            tell("this folder asks for nothing that you have not allowed")
        return 0
    return _accept(chosen, yes or bool(names))


def _accept(items: list[Item], sure: bool) -> int:
    """Show them, ask unless it is sure, keep them."""
    from runtime import trust as kept

    show_items(items)
    if not sure:
        if not sys.stdin.isatty():
            tell("nothing was allowed; to allow all of it: fractal trust --yes")
            return 3
        if not click.confirm("Allow this from now on?", err=True):
            return 3
    kept.accept(items)
    tell(f"allowed: {safe(', '.join(each.name for each in items[:5]))}" + (" …" if len(items) > 5 else ""))
    return 0
