"""What this user allows of a folder: settings that lower security, its own `system/`, its skills and servers.

A folder can come from a stranger. What it asks for counts once a person has looked at it and said yes, as it
is written then. That is kept outside of the folder, in the user's own configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kernel import disk, turns
from kernel.errors import ConfigurationError
from kernel.workspace import Workspace
from runtime.places import user_folder

VARIABLE = "FRACTAL_TRUST"
"""Set to `all`, everything of every folder is allowed: for containers and CI. No file can say so."""
PATIENCE = 10.0
"""Seconds to wait for another process that allows something."""
SHOWN_ITEMS = 12
"""Items that an error message lists."""


@dataclass(frozen=True)
class Item:
    """One thing that a folder asks for: a setting, a file of its `system/`, a skill, an MCP server."""

    folder: str
    name: str
    digest: str
    shown: str

    def __str__(self) -> str:
        return f"{self.name}: {self.shown}"


class Untrusted(ConfigurationError):
    """A folder asks for what this user has not allowed yet."""

    def __init__(self, items: Sequence[Item]) -> None:
        more = len(items) - SHOWN_ITEMS
        lines = [f"- {item}" for item in items[:SHOWN_ITEMS]] + ([f"- and {more} more"] if more > 0 else [])
        super().__init__(
            f"{items[0].folder} asks for what you have not allowed yet:\n"
            + "\n".join(lines)
            + "\nlook at it, then: fractal trust"
        )
        self.items = tuple(items)


def place() -> Path:
    """The file of the user's own that holds what is allowed."""
    return user_folder() / "trusted.json"


def everything() -> bool:
    """Whether the environment allows everything."""
    return os.environ.get(VARIABLE, "").lower() == "all"


def known() -> dict[str, dict[str, str]]:
    """The digests of what is allowed, by folder and name."""
    try:
        data: Any = json.loads(place().read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{place()}: cannot be read: {error}; mend or remove it") from None
    if not isinstance(data, dict) or not all(isinstance(each, dict) for each in cast(Any, data).values()):
        raise ConfigurationError(f"{place()}: a mapping of folders is needed; mend or remove it")
    return cast(dict[str, dict[str, str]], data)


def waiting(items: Iterable[Item]) -> list[Item]:
    """Those that are not allowed as they stand now."""
    if everything() or not (items := list(items)):
        return []
    allowed = known()
    return [item for item in items if allowed.get(item.folder, {}).get(item.name) != item.digest]


def accept(items: Iterable[Item]) -> None:
    """Allow these from now on; where the environment allows everything, nothing is kept."""
    if everything():
        return
    with _alone():
        allowed = known()
        for item in items:
            allowed.setdefault(item.folder, {})[item.name] = item.digest
        _write(allowed)


def revoke(folders: Iterable[Path]) -> int:
    """Allow nothing of these folders any more; returns how many items that were."""
    with _alone():
        allowed = known()
        gone = [allowed.pop(str(folder), {}) for folder in folders]
        _write(allowed)
    return sum(map(len, gone))


@contextmanager
def _alone() -> Generator[None]:
    """Nobody else reads and writes what is allowed meanwhile."""
    lock = place().with_name("trusted.lock")
    try:
        with turns.alone(lock, PATIENCE, lambda: ConfigurationError(f"{lock} is held by another process")):
            yield
    except OSError as error:
        raise ConfigurationError(f"{lock}: cannot be opened: {error.strerror}") from None


def _write(allowed: Mapping[str, Mapping[str, str]]) -> None:
    path = place()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.put(path, (json.dumps(allowed, indent=1) + "\n").encode(), mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None


# ---- what a folder asks for ------------------------------------------------------------------------------


def settings(folder: Path, values: Mapping[str, Any]) -> Iterator[Item]:
    """The settings that lower security or send data elsewhere, as items."""
    for name, value in values.items():
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=list)
        yield Item(str(folder), name, digest(f"{name}\n{text}".encode()), text[:120])


def system(workspace: Workspace) -> Iterator[Item]:
    """The files of the folder's own `system/` that are not those that ship."""
    own = workspace.root / "system"
    if workspace.shipped in workspace.systems[:1]:
        return
    for path in _files(own):
        name = path.relative_to(own)
        mark = digest_of(path)
        if mark and mark != digest_of(workspace.shipped / name):
            yield Item(str(workspace.root), f"system/{name.as_posix()}", mark, "a file of its system")


def skills(folder: Path, named: Iterable[Path]) -> Iterator[Item]:
    """The files of skills that the folder's settings name, wherever they lie."""
    for skill in named:
        for path in _files(skill):
            if mark := digest_of(path):
                yield Item(str(folder), f"skill {path}", mark, "a file of a skill")


def digest_of(path: Path) -> str:
    """The digest of a file's content; "" where there is none to read."""
    try:
        return digest(disk.read(path))
    except OSError:
        return ""


def changed(workspace: Workspace, files: Mapping[str, tuple[str, str]]) -> None:
    """Fractal itself has changed files of `system/`: each path, with the digests before and after.

    What was allowed, or was not there, stays allowed. What nobody had allowed does not become so.
    """
    if everything():
        return
    with _alone():
        folder = str(workspace.root)
        allowed = known()
        mine = allowed.setdefault(folder, {})
        for path, (before, after) in files.items():
            name = f"system/{path}"
            if before not in ("", mine.get(name), digest_of(workspace.shipped / path)):
                continue
            mine.pop(name, None)
            if after:
                mine[name] = after
        _write({name: each for name, each in allowed.items() if each})


def digest(raw: bytes) -> str:
    """The digest of a content."""
    return hashlib.sha256(raw).hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder, through links as the catalogue reads them; each folder once."""
    seen: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(where, name) for name in sorted(names))
