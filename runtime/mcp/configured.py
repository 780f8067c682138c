"""Which MCP servers there are: `.mcp.json`, read in three places, as Claude Code and others write it.

The folder's file comes first, then the workspace's, then the user's own; of two servers with one name the
nearer one counts. A wrong entry is left out with a word on it, and the others work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kernel.errors import ConfigurationError
from runtime.places import user_folder

LARGEST = 1_000_000
"""Bytes of a file of settings; what is larger is none."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")


@dataclass(frozen=True)
class Entry:
    """One server as it is named in a file, its variables expanded."""

    name: str
    source: Path
    transport: str  # stdio, http, sse
    digest: str  # of the entry as it is written: a list of tools is kept for it
    shown: str  # how it is reached, as it is written: a variable's value may be secret
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Configured:
    """The servers that can be used, by name, and what is wrong with the others, in words."""

    entries: Mapping[str, Entry]
    troubles: tuple[str, ...] = ()


def places(folder: Path, root: Path) -> tuple[Path, ...]:
    """Where `.mcp.json` is looked for, the nearest first."""
    workspace = root.parent if root.name == ".fractal" else root
    found = (folder / ".mcp.json", workspace / ".mcp.json", user_folder() / "mcp.json")
    return tuple(dict.fromkeys(found))


def read(paths: Iterable[Path], folder: Path, environ: Mapping[str, str] = os.environ) -> Configured:
    """Read the files that are there."""
    entries: dict[str, Entry] = {}
    troubles: list[str] = []
    named: set[str] = set()
    for path in paths:
        try:
            servers = _servers(path)
        except ConfigurationError as error:
            troubles.append(str(error))
            continue
        for name, raw in servers.items():
            if name in named:
                continue
            named.add(name)
            try:
                if entry := _entry(name, raw, path, folder, environ):
                    entries[name] = entry
            except ValueError as error:
                troubles.append(f"{path}: mcpServers.{name}{error}")
    return Configured(entries, tuple(troubles))


def _servers(path: Path) -> Mapping[str, Any]:
    try:
        if not path.is_file():
            return {}
        if path.stat().st_size > LARGEST:
            raise ConfigurationError(f"{path}: larger than {LARGEST} bytes; it should only name servers")
        data: Any = json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        raise ConfigurationError(f"{where}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not JSON in UTF-8: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    servers = cast(dict[str, Any], data).get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ConfigurationError(f'{path}: {{"mcpServers": {{NAME: {{"command": …}}}}}} is needed')
    return cast(dict[str, Any], servers)


def _entry(name: str, raw: Any, path: Path, folder: Path, environ: Mapping[str, str]) -> Entry | None:
    """The server, None when it is switched off; raises `ValueError` with the place and what is wrong."""
    if not isinstance(raw, dict):
        raise ValueError(": an object with command or url is needed")
    given = cast(dict[str, Any], raw)
    if given.get("disabled") is True:
        return None
    if not re.search(r"[A-Za-z0-9]", name) or not name.isprintable() or len(name) > 64:
        raise ValueError(": a name has letters or digits, and at most 64 characters")
    if _ourselves(given):
        return None
    reader = _Reader(given, environ)
    written = json.dumps([str(path), given], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    transport = reader.transport()
    if transport == "stdio":
        cwd = reader.text("cwd", "")
        own = path.name == "mcp.json"  # the user's own: it belongs to no folder
        return Entry(
            name,
            path,
            transport,
            digest,
            " ".join([str(given["command"]), *map(str, given.get("args") or [])])[:120],
            command=reader.text("command"),
            args=reader.texts("args"),
            env=reader.pairs("env"),
            cwd=(folder if own else path.parent) / cwd,
        )
    url = reader.text("url")
    if not re.match(r"https?://[^/\s]", url):
        raise ValueError(f".url: {given['url'][:80]!r} is no address that begins with http:// or https://")
    shown = str(given["url"]).partition("?")[0][:120]
    return Entry(name, path, transport, digest, shown, url=url, headers=reader.pairs("headers"))


def _ourselves(given: Mapping[str, Any]) -> bool:
    """Whether the entry is this workspace, as other clients have it registered: it is no tool of its own."""
    args = given.get("args")
    words = [str(each) for each in cast(list[Any], args)] if isinstance(args, list) else []
    elsewhere = {"-C", "--folder"} & set(words) or given.get("cwd")
    return Path(str(given.get("command", ""))).name == "fractal" and "mcp" in words and not elsewhere


class _Reader:
    """The values of one entry, of the right type, with `${VAR}` and `${VAR:-default}` expanded."""

    def __init__(self, given: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.given = given
        self.environ = environ

    def transport(self) -> str:
        """What the entry's type says; where it says nothing, what its keys say."""
        kind = self.given.get("type", "stdio" if "command" in self.given else "http")
        if "command" not in self.given and "url" not in self.given:
            raise ValueError(": neither command nor url is given")
        if kind in _HTTP:
            kind = "http"
        if kind not in ("stdio", "http", "sse"):
            raise ValueError(f".type: {kind!r} is none of stdio, http, streamable-http, sse")
        return str(kind)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that has to be there, unless there is a default."""
        value = self.given.get(key, default)
        if not isinstance(value, str) or (not value.strip() and default is None):
            raise ValueError(f".{key}: a text is needed")
        return self._expanded(f".{key}", value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; numbers are taken for their text."""
        value = self.given.get(key) or []
        if not isinstance(value, list):
            raise ValueError(f".{key}: a list of texts is needed")
        found: list[str] = []
        for number, each in enumerate(cast(list[Any], value)):
            if not isinstance(each, str | int | float) or isinstance(each, bool):
                raise ValueError(f".{key}[{number}]: a text is needed")
            found.append(self._expanded(f".{key}[{number}]", str(each)))
        return tuple(found)

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of texts to texts."""
        value = self.given.get(key) or {}
        if not isinstance(value, dict):
            raise ValueError(f".{key}: an object of texts is needed")
        found: dict[str, str] = {}
        for name, each in cast(dict[str, Any], value).items():
            if not isinstance(each, str | int | float) or isinstance(each, bool):
                raise ValueError(f".{key}.{name}: a text is needed")
            found[name] = self._expanded(f".{key}.{name}", str(each))
        return found

    def _expanded(self, place: str, text: str) -> str:
        def value(hit: re.Match[str]) -> str:
            name, default = hit[1], hit[2]
            found = self.environ.get(name, "")
            if not found and default is None and name not in self.environ:
                mend = f"set it, or write ${{{name}:-default}}"
                raise ValueError(f"{place}: the environment variable {name} is not set; {mend}")
            return found or default or ""

        expanded = _VARIABLE.sub(value, text)
        if "\0" in expanded:
            raise ValueError(f"{place}: a text cannot contain the character NUL")
        return expanded
