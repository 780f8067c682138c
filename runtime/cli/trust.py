"""`fractal tools trust`: allow the MCP servers that a folder's `.mcp.json` names."""

from __future__ import annotations

import click

from runtime.cli.session import opened, tell
from runtime.cli.words import safe


@click.command("trust")
@click.argument("names", nargs=-1, metavar="[SERVER]...")
def trust(names: tuple[str, ...]) -> int:
    """Allow MCP servers of .mcp.json to be started; without SERVER, list those that are not allowed yet.

    What is allowed is the entry exactly as it is written: a changed one is asked about again.
    """
    from kernel.errors import UsageError
    from runtime.mcp import trust as kept
    from runtime.mcp.servers import Servers

    servers = Servers(opened().workspace)
    waiting = {entry.name: entry for entry in servers.untrusted}
    if unknown := [name for name in names if name not in waiting and name not in servers.names]:
        told = ", ".join(sorted({*waiting, *servers.names})) or "none"
        raise UsageError(f"no .mcp.json names the server {unknown[0]}; there are: {told}")
    for name in names:
        if name not in waiting:
            tell(f"{name} is allowed already")
            continue
        kept.trust([(waiting[name].digest, name)])
        tell(f"{name} is allowed ({waiting[name].shown})")
    if not names:
        for name, entry in sorted(waiting.items()):
            click.echo(f"{safe(name)}  {safe(entry.shown)}  {entry.source}")
    return 0
