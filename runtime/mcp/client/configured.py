"""Reads the MCP servers from `.mcp.json`, in the format of Claude Code and other clients.

The folder's file comes first, then the workspace's, then the user's own. Of two servers with the same name
the nearer one counts. An invalid entry is skipped with a message.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kernel.errors import ConfigurationError
from runtime import user_files
from runtime.secrets.known import learn_secrets
from runtime.variables import expanded

LARGEST = 1_000_000
"""Bytes of a settings file; a larger file is an error."""
LONGEST = 4_096
"""Characters of a text that may be a path."""
OWN = "mcp.json"
"""The name of the user's own file."""
FOLDER = "FRACTAL_FOLDER"
"""The variable that stands for the folder that runs work in."""
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_KINDS: Mapping[str, tuple[type, str]] = {
    "command": (str, "a string"),
    "args": (list, "a list of strings"),
    "env": (dict, "an object of strings"),
    "cwd": (str, "a string"),
    "network": (bool, "true or false"),
    "outside": (bool, "true or false"),
    "url": (str, "a string"),
    "headers": (dict, "an object of strings"),
    "oauth": (dict, "an object of strings"),
}
_KEYS = {
    "stdio": ("command", "args", "env", "cwd", "network", "outside"),
    "http": ("url", "headers", "oauth"),
    "sse": ("url", "headers", "oauth"),
}
"""The keys of an entry that each transport uses; the first is required."""


@dataclass(frozen=True)
class Entry:
    """One server of a file, with its variables expanded."""

    name: str
    source: Path
    transport: str  # stdio, http or sse
    digest: str  # of the entry as written; the cached list of tools belongs to it
    shown: str  # command or address as written: the value of a variable may be secret
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path = Path()
    network: bool = False
    outside: bool = False  # in the user's own file: it may run outside the sandbox, whatever it names
    project: Path = Path()  # where runs write
    written: str = ""  # all of it as written, for the question whether it is allowed
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    oauth: Mapping[str, str] = field(default_factory=dict[str, str])
    """`clientId`, `clientSecret`, `scope` and `callbackPort` of a login, where the server wants them."""

    @property
    def own(self) -> bool:
        """Whether the user's own file names it."""
        return self.source.name == OWN

    @property
    def words(self) -> tuple[str, ...]:
        """All texts that may name a file."""
        return (self.command, *self.args, *self.env.values())

    @property
    def of_folder(self) -> bool:
        """Whether it comes with the folder, or names something in it: a run may have written what it runs."""
        if self.transport != "stdio" or (self.own and self.outside):
            return False
        return not self.own or _names_project(self)

    @property
    def path(self) -> str:
        """The PATH of its program."""
        return self.env.get("PATH", os.environ.get("PATH", os.defpath))

    @property
    def path_elsewhere(self) -> str:
        """The same without what lies in the folder, or is relative."""
        places = self.path.split(os.pathsep)
        return os.pathsep.join(each for each in places if not inside(Path(each), self.project))


@dataclass(frozen=True)
class Configured:
    """The usable servers by name, and messages about the others."""

    entries: Mapping[str, Entry]
    troubles: tuple[str, ...] = ()
    waiting: tuple[Entry, ...] = ()  # for the user's permission


_PLAIN = re.compile(r"[\w@%+=:,./~$?&{}-]+")
"""What is one argument, or an address, without quotes."""


def inside(path: Path, project: Path) -> bool:
    """Whether a path is the folder or in it, as written or behind links; a relative one is, for safety."""
    if not path.is_absolute():
        return True
    with suppress(OSError, ValueError, RuntimeError):
        spelled = (Path(os.path.normpath(path)), path.resolve())
        return any(each == project or project in each.parents for each in spelled)
    return False


def spellings(project: Path) -> re.Pattern[str]:
    """Finds the folder in a text, also as a shell would write it."""
    texts = [str(project)]
    with suppress(RuntimeError, ValueError):
        below = project.relative_to(Path.home().resolve()).as_posix()
        texts += [f"{home}/{below}" for home in ("~", "$HOME", "${HOME}")]
    return re.compile(rf"(?:{'|'.join(map(re.escape, texts))})(?![\w.-])")


def mentioned(entry: Entry) -> Iterator[Path]:
    """The existing files and folders that the texts of an entry name, and the folder that it starts in."""
    yield entry.cwd
    for word in entry.words:
        for text in dict.fromkeys((word, word.partition("=")[2], *word.split(os.pathsep))):
            with suppress(OSError, ValueError, RuntimeError):
                path = entry.cwd / Path(text).expanduser()
                if text and len(text) < LONGEST and path.exists():
                    yield Path(os.path.normpath(path))


def _names_project(entry: Entry) -> bool:
    """Whether something in the folder may be what a server of the user's own file runs."""
    finds, ours = spellings(entry.project), user_files.user_folder().resolve()
    if any(finds.search(word) for word in entry.words):
        return True
    paths = (path for path in mentioned(entry) if not inside(path, ours))  # no run writes there
    if any(inside(path, entry.project) for path in paths):
        return True
    return not shutil.which(entry.command, path=entry.path_elsewhere) and bool(
        shutil.which(entry.command, path=entry.path)
    )


def places(folder: Path, root: Path) -> tuple[Path, ...]:
    """The files that may name servers, the nearest first."""
    workspace = root.parent if root.name == ".fractal" else root
    candidates = (folder / ".mcp.json", workspace / ".mcp.json", user_files.user_folder() / "mcp.json")
    return tuple(dict.fromkeys(candidates))


def read(paths: Iterable[Path], folder: Path, environ: Mapping[str, str] = os.environ) -> Configured:
    """Read the files that exist."""
    entries: dict[str, Entry] = {}
    troubles: list[str] = []
    names: set[str] = set()
    paths = list(paths)
    own = [folder, *(path.parent for path in paths if path.name != OWN)]
    project = min(own, key=lambda path: len(path.parts)).resolve()
    environ = {**environ, FOLDER: str(folder)}
    for path in paths:
        try:
            servers = _servers(path)
        except ConfigurationError as error:
            troubles.append(str(error))
            continue
        for name, raw in servers.items():
            if name in names:
                continue
            names.add(name)
            try:
                if entry := _entry(name, raw, path, project, environ):
                    entries[name] = entry
            except ValueError as error:
                troubles.append(f"{path}: mcpServers.{name}{error}")
    return Configured(entries, tuple(troubles))


def _servers(path: Path) -> Mapping[str, Any]:
    try:
        if not path.is_file():
            return {}
        if path.stat().st_size > LARGEST:
            raise ConfigurationError(f"{path}: larger than {LARGEST} bytes")
        data: Any = json.loads(path.read_text("utf-8-sig"))
        learn_secrets(data, ours=path.name == OWN)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        raise ConfigurationError(f"{where}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not JSON in UTF-8: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    servers = cast(dict[str, Any], data).get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ConfigurationError(f'{path}: {{"mcpServers": {{NAME: {{"command": …}}}}}} is required')
    return cast(dict[str, Any], servers)


def _entry(name: str, raw: Any, path: Path, project: Path, environ: Mapping[str, str]) -> Entry | None:
    """The server, or None if it is disabled or Fractal itself; `ValueError` names the place and the error."""
    if not isinstance(raw, dict):
        raise ValueError(": must be an object with command or url")
    fields = cast(dict[str, Any], raw)
    if fields.get("disabled") is True:
        return None
    if not re.search(r"[A-Za-z0-9]", name) or not name.isprintable() or len(name) > 64:
        raise ValueError(": a name needs a letter or digit, and at most 64 characters")
    if "command" not in fields and "url" not in fields:
        raise ValueError(": command or url is required")
    transport = fields.get("type", "stdio" if "command" in fields else "http")
    transport = "http" if transport in _HTTP else transport
    if transport not in ("stdio", "http", "sse"):
        raise ValueError(f".type: {transport!r} is not one of stdio, http, streamable-http, sse")
    if _is_fractal(fields):
        return None
    required, *_ = keys = _KEYS[transport]
    if not str(fields.get(required) or "").strip():
        raise ValueError(f".{required}: must be a string that is not empty")
    values = {key: _value(key, fields[key], environ) for key in keys if fields.get(key) is not None}
    if transport == "stdio":
        if values.get("outside") and path.name != OWN:
            raise ValueError(f".outside: only your own {user_files.user_folder() / OWN} may say so")
        values["cwd"] = path.parent / Path(values.get("cwd", "")).expanduser()
        words = [str(each) for each in (fields["command"], *(fields.get("args") or []))]
        label = exact = " ".join(each if _PLAIN.fullmatch(each) else _json(each) for each in words)
    else:
        label = fields["url"].partition("?")[0]
        exact = fields["url"] if _PLAIN.fullmatch(fields["url"]) else _json(fields["url"])
        if not re.match(r"https?://[^/\s]", values["url"]):
            raise ValueError(f".url: {fields['url'][:80]!r} does not begin with http:// or https://")
    serialized = json.dumps([str(path), fields], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(serialized.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    rest = {key: fields[key] for key in ("env", "cwd", "headers", "oauth") if fields.get(key)}
    written = " ".join([exact, *(f"{key} {_json(text)}" for key, text in rest.items())])
    return Entry(name, path, transport, digest, label[:120], project=project, written=written, **values)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _value(key: str, value: Any, environ: Mapping[str, str]) -> Any:
    kind, expected = _KINDS[key]
    if not isinstance(value, kind):
        raise ValueError(f".{key}: must be {expected}")
    if kind is list:
        items = enumerate(cast(list[Any], value))
        return tuple(_expanded(f".{key}[{at}]", each, environ) for at, each in items)
    if kind is dict:
        pairs = cast(dict[str, Any], value).items()
        if wrong := next((each for each, _ in pairs if "\0" in each or "=" in each), ""):
            raise ValueError(f".{key}: {wrong!r} is no name: it has = or the character NUL")
        return {name: _expanded(f".{key}.{name}", each, environ) for name, each in pairs}
    return value if kind is bool else _expanded(f".{key}", value, environ)


def _expanded(place: str, value: Any, environ: Mapping[str, str]) -> str:
    """A string with `${VAR}` and `${VAR:-default}` expanded; a number is converted."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError(f"{place}: must be a string")

    try:
        text = expanded(str(value), environ)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    if "\0" in text:
        raise ValueError(f"{place}: must not contain the character NUL")
    return text


def _is_fractal(fields: Mapping[str, Any]) -> bool:
    """Whether the entry is Fractal itself, registered for other clients."""
    args = fields.get("args")
    words = [str(each) for each in cast(list[Any], args)] if isinstance(args, list) else []
    elsewhere = {"-C", "--folder"} & set(words) or fields.get("cwd")
    return Path(str(fields.get("command", ""))).name == "fractal" and "mcp" in words and not elsewhere
