"""Which servers this user has looked at and allowed: a folder's `.mcp.json` names programs to start.

A folder can come from a stranger, and what its file names would run outside the sandbox. So the first time a
person says yes; it is kept in the user's own configuration, for the entry exactly as it is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import ConfigurationError
from runtime.mcp.configured import Configured, Entry

ALL = "FRACTAL_TRUST_MCP"
"""Set to 1, servers of every file are used: for containers and CI. No file can say so."""


def place(environ: Mapping[str, str] = os.environ) -> Path:
    """The file of the user's own that holds what is trusted."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "fractal" / "trusted-mcp.json"


def trusted(environ: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """The digests of the entries that are trusted, with the names that they had."""
    try:
        data: Any = json.loads(place(environ).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{place(environ)}: cannot be read: {error}; mend or remove it") from None
    return data if isinstance(data, dict) else {}


def divided(found: Configured) -> tuple[Configured, tuple[Entry, ...]]:
    """The servers that may be used, with a word on the others; and those others."""
    if os.environ.get(ALL) == "1" or not found.entries:
        return found, ()
    known = trusted()
    waiting = tuple(
        entry
        for entry in found.entries.values()
        if entry.source.name != "mcp.json" and entry.digest not in known  # the user's own file needs no word
    )
    names = {entry.name for entry in waiting}
    entries = {name: entry for name, entry in found.entries.items() if name not in names}
    return Configured(entries, (*found.troubles, *map(_ask, waiting))), waiting


def _ask(entry: Entry) -> str:
    return (
        f"{entry.source} names the MCP server {entry.name} ({entry.shown}), which you have not allowed yet; "
        f"look at it, then: fractal tools trust {entry.name}"
    )


def trust(entries: Iterable[tuple[str, str]]) -> None:
    """Trust these entries (digest, name) from now on."""
    path = place()
    data = {**trusted(), **dict(entries)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.put(path, (json.dumps(data, indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
