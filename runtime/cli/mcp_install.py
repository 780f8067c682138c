"""`fractal mcp install`: registers `fractal mcp` in the configuration of an MCP client."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click

from kernel import disk
from kernel.errors import ConfigurationError
from runtime.cli.output import confirm, notify, put
from runtime.cli.session import folder, require

NAME = "fractal"
"""The name of the entry among the client's servers."""
LARGEST = 20_000_000
"""Bytes of a client's configuration."""


@dataclass(frozen=True)
class Client:
    """Where a client has its servers: the file, the key in it, and what an entry has beside the command."""

    title: str
    file: Callable[[], Path]
    key: str = "mcpServers"
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _vscode() -> Path:
    mac = Path.home() / "Library" / "Application Support"
    return (mac if sys.platform == "darwin" else _config()) / "Code" / "User" / "mcp.json"


CLIENTS: Mapping[str, Client] = {
    "claude": Client("Claude Code", lambda: Path.home() / ".claude.json", more={"type": "stdio"}),
    "cursor": Client("Cursor", lambda: Path.home() / ".cursor" / "mcp.json"),
    "vscode": Client("VS Code", _vscode, "servers", {"type": "stdio"}),
    "zed": Client(
        "Zed", lambda: _config() / "zed" / "settings.json", "context_servers", {"source": "custom"}
    ),
}


@click.command()
@click.option("--client", "name", type=click.Choice(list(CLIENTS)), required=True, help="The client.")
@click.option("--print", "only_show", is_flag=True, help="Only show what would be written.")
@click.option("-y", "--yes", is_flag=True, help="Write it without asking.")
def install(name: str, only_show: bool, yes: bool) -> int:
    """Register this folder's server with a client, in the client's own configuration file.

    Shows the entry and asks first. Everything else in the file stays, and a backup is kept beside it.
    """
    require("mcp", "the MCP SDK")
    client = CLIENTS[name]
    path, entry = client.file(), {**client.more, **_command(Path(folder()).resolve())}
    shown = json.dumps({client.key: {NAME: entry}}, indent=2, ensure_ascii=False)
    notify(f"{path} ({client.title}):")
    put(shown)
    if only_show:
        return 0
    real = Path(os.path.realpath(path))  # the file of a link that a person keeps elsewhere
    before = _read(real)
    after = merged(before, client.key, entry, path)
    if after == before:
        notify("it is registered already")
        return 0
    if _entry(before, client.key):
        notify(f"this replaces the entry {NAME} that is there", "yellow")
    if not (yes or sys.stdin.isatty()):
        notify(f"nothing was written; to write it: fractal mcp install --client {name} --yes")
        return 3
    if not (yes or confirm("Write this?")):
        return 3
    _write(real, before, after)
    notify(f"registered; restart {client.title}, or let it reload its servers")
    return 0


def _command(place: Path) -> dict[str, Any]:
    """The command of the server, by its full path: the `PATH` of a client is often another one."""
    called = sys.argv[0] if Path(sys.argv[0]).name == "fractal" else "fractal"
    program = shutil.which(called)
    words = [str(Path(program).absolute())] if program else [sys.executable, "-P", "-m", "fractal"]
    command, *args = [*words, "-C", str(place), "mcp"]
    return {"command": command, "args": args}


def _read(path: Path) -> bytes:
    try:
        return disk.read(path, LARGEST)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None


def merged(raw: bytes, key: str, entry: Mapping[str, Any], path: Path) -> bytes:
    """The content of the file with the entry in it; the same bytes if it is there already.

    Raises `ConfigurationError` for what cannot be written again without a loss, such as comments.
    """
    data = _data(raw, path)
    servers = data.setdefault(key, {})
    if not isinstance(servers, dict):
        raise _refused(path, f"{key} is not an object")
    if servers.get(NAME) == entry:
        return raw
    servers[NAME] = dict(entry)
    text = raw.decode("utf-8")
    lines = text.removeprefix("\ufeff").splitlines()
    indented = next((line for line in lines[1:] if line[:1].isspace() and line.strip()), "  ")
    indent = indented[: len(indented) - len(indented.lstrip())]
    new = json.dumps(data, indent=indent, ensure_ascii=False) + "\n"
    new = new.replace("\n", "\r\n") if "\r\n" in text else new
    try:
        return (("\ufeff" if text.startswith("\ufeff") else "") + new).encode()
    except UnicodeEncodeError:
        raise _refused(path, "a text in it has half a character") from None


def _data(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig")
        data: Any = json.loads(text, object_pairs_hook=_once, parse_float=_exact) if text.strip() else {}
    except UnicodeDecodeError:
        raise _refused(path, "it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        why = f"line {error.lineno} is not plain JSON (comments and trailing commas are not)"
        raise _refused(path, why) from None
    except (ValueError, RecursionError) as error:
        raise _refused(path, str(error)) from None
    if not isinstance(data, dict):
        raise _refused(path, "it is not an object")
    return cast(dict[str, Any], data)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _exact(text: str) -> float:
    if repr(float(text)) != text:
        raise ValueError(f"the number {text} would be written in another form")
    return float(text)


def _refused(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: {why}; nothing was written, because that would be lost: add the entry above by hand"
    )


def _entry(raw: bytes, key: str) -> bool:
    return bool(raw.strip()) and NAME in json.loads(raw.decode("utf-8-sig")).get(key, {})


def _write(path: Path, before: bytes, after: bytes) -> None:
    """Write the file atomically, after a backup; not if somebody has changed it meanwhile."""

    def unchanged() -> None:
        if _read(path) != before:
            raise ConfigurationError(f"{path}: changed meanwhile; nothing was written, try again")

    try:
        if before:
            backup = path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S}.bak")
            disk.put(backup, before, mode=path.stat().st_mode & 0o777)
            notify(f"backup: {backup}")
        disk.put(path, after, mode=0o600, guard=unchanged)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
