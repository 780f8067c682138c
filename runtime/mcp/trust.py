"""Which servers of a folder's `.mcp.json` this user has allowed: the file names programs to start."""

from __future__ import annotations

from runtime import trust
from runtime.mcp.configured import Configured, Entry


def item(entry: Entry) -> trust.Item:
    """A server as something that a folder asks for."""
    return trust.Item(str(entry.source.parent), f"mcp:{entry.name}", entry.digest, entry.shown)


def divided(found: Configured) -> tuple[Configured, tuple[Entry, ...]]:
    """The servers that may be used, with a word on the others; and those others."""
    foreign = [entry for entry in found.entries.values() if entry.source.name != "mcp.json"]  # not the user's
    names = {each.name for each in trust.waiting(map(item, foreign))}
    waiting = tuple(entry for entry in foreign if f"mcp:{entry.name}" in names)
    entries = {name: entry for name, entry in found.entries.items() if f"mcp:{name}" not in names}
    return Configured(entries, (*found.troubles, *map(_ask, waiting))), waiting


def _ask(entry: Entry) -> str:
    return (
        f"{entry.source} names the MCP server {entry.name} ({entry.shown}), which you have not allowed yet; "
        f"look at it, then: fractal trust mcp:{entry.name}"
    )
