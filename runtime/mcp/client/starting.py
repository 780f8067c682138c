"""How the program of a server is started, and what a person allows with it.

A server of the folder runs in the sandbox, on the folder, like a command. One that has the network, or has to
run outside, could do there what a run wrote for it. So it sees no more of the folder than a copy of what its
entry names, as it was when a person allowed it. A server of the user's own file runs outside, and nothing of
the folder is looked up for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kernel.errors import ConfigurationError
from runtime.mcp.client.configured import Configured, Entry, inside, mentioned, spellings
from runtime.sandbox.programs import program
from runtime.sandbox.sandbox import Lasting, Sandbox
from runtime.workspace import trust
from runtime.workspace.workspace import Workspace

MOST_FILES = 2_000
MOST_BYTES = 50_000_000
"""What is copied of the folder for a server at each start."""
NOT_COPIED = frozenset({".git", ".fractal", "__pycache__"})
_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")


@dataclass(frozen=True)
class _Part:
    """A file of the folder, or a link out of it."""

    place: Path  # relative to the folder
    content: bytes
    mode: int = 0o600
    link: bool = False


def is_pinned(entry: Entry, sandbox: Sandbox) -> bool:
    """Whether it sees only what was allowed of the folder."""
    return entry.of_folder and (entry.network or sandbox.mode == "off")


def where(entry: Entry, sandbox: Sandbox) -> str:
    """Where it runs, for people."""
    if entry.transport != "stdio":
        return ""
    if not entry.of_folder or sandbox.mode == "off":
        return "outside the sandbox"
    return f"in the sandbox, {'with' if entry.network else 'without'} network"


def item(entry: Entry, sandbox: Sandbox) -> trust.Item:
    """A server as an item that the user can trust. Raises `ConfigurationError` if it names too much."""
    mark, shown = entry.digest, [entry.written]
    if entry.transport == "stdio":
        shown.append(f"[{where(entry, sandbox)}]")
        shown += [f"[reads {path}]" for path in _readable(entry)]
    if is_pinned(entry, sandbox):
        mark = _mark(entry, sandbox, _parts(entry))
        named = ", ".join(map(str, _named(entry))) or "nothing"
        shown.append(f"[sees of the folder only {named}, as it is now]")
    return _item(entry, mark, " ".join(shown))


def _item(entry: Entry, mark: str, shown: str) -> trust.Item:
    folder = entry.project if entry.own else entry.source.parent
    return trust.Item(str(folder), f"mcp:{entry.name}", mark, shown)


def allowed(config: Configured, sandbox: Sandbox) -> Configured:
    """The same, with the servers that the user has not allowed yet moved from `entries` to `waiting`."""
    entries, troubles, waiting = dict(config.entries), list(config.troubles), list[Entry]()
    for name, entry in config.entries.items():
        if entry.own and not entry.of_folder:
            continue
        try:
            asked = item(entry, sandbox)
        except ConfigurationError as error:
            troubles.append(str(error))
            del entries[name]
            continue
        if trust.waiting([asked]):
            waiting.append(entries.pop(name))
            why = ""
            if entry.own:
                why = f", and it names what lies in {entry.project}, where runs write"
            troubles.append(
                f"{entry.source} names the MCP server {name} ({entry.shown}), which you have not allowed yet"
                f"{why}; review it, then run: {_to_allow(entry, sandbox)}"
            )
    return Configured(entries, tuple(troubles), tuple(waiting))


def _to_allow(entry: Entry, sandbox: Sandbox) -> str:
    """The command that allows a server for where it runs now, also where only a flag of a run says that."""
    off = "FRACTAL_SANDBOX=off " if sandbox.mode == "off" else ""
    return f"{off}fractal trust mcp:{entry.name}"


@contextmanager
def starting(entry: Entry, sandbox: Sandbox, workspace: Workspace) -> Generator[tuple[Lasting, Path]]:
    """What starts the program of a server, and in which folder; what it needs on disk is there meanwhile.

    Raises `ConfigurationError` for one that cannot be started, or has changed since it was allowed.
    """
    with ExitStack() as stack:
        pinned = is_pinned(entry, sandbox)
        readable, folder, private = _readable(entry), workspace.folder, workspace.private
        if pinned:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fractal-server-"))).resolve()
            entry = _copied(entry, place, sandbox)
            folder, private = place, (entry.project,)
        if not entry.cwd.is_dir():
            raise ConfigurationError(f"its folder {entry.cwd} does not exist; fix cwd in {entry.source}")
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        path = entry.path_elsewhere
        if entry.of_folder and not pinned:
            path = os.pathsep.join(str(entry.cwd / each) for each in entry.path.split(os.pathsep))
        env = {**inherited, "TERM": "dumb", **entry.env, "PATH": path}
        words = [_program(entry, path), *entry.args]
        if not entry.of_folder or sandbox.mode == "off":
            if setpriv := program("setpriv", entry.project):  # ends it even if this process is killed
                words = [setpriv, "--pdeathsig", "KILL", "--", *words]
            yield Lasting(words, env, (), lambda: None), entry.cwd
            return
        if why := sandbox.available(workspace.folder):
            raise ConfigurationError(why)
        lasting = sandbox.lasting(
            words,
            folder=folder,
            start_in=entry.cwd,
            env={**env, "TMPDIR": entry.env.get("TMPDIR", "/tmp")},
            protected=() if pinned else workspace.protected,
            visible=readable,
            private=private,
            read_only=pinned,
            network=entry.network,
        )
        yield stack.enter_context(lasting), entry.cwd


def _program(entry: Entry, path: str) -> str:
    found = shutil.which(entry.command, path=path)
    if "/" in entry.command:
        found = str(entry.cwd / Path(entry.command).expanduser())
    if found is None or not os.access(found, os.X_OK) or Path(found).is_dir():
        fix = f"install it, or fix command in {entry.source}"
        raise ConfigurationError(f"there is no program {entry.command}; {fix}")
    return found


def _readable(entry: Entry) -> list[Path]:
    """What an entry names outside of the folder, each file with the folder that it lies in."""
    if not entry.of_folder:
        return []
    named = [path for path in mentioned(entry) if not inside(path, entry.project)]
    return list(dict.fromkeys(path if path.is_dir() else path.parent for path in named))


def _named(entry: Entry) -> list[Path]:
    """What an entry names in the folder, relative to it; not the folder itself."""
    found: dict[Path, None] = {}
    for path in mentioned(entry):
        for each in (path, path.resolve()):
            if entry.project in each.parents:
                found[each.relative_to(entry.project)] = None
                break
    return list(found)


def _parts(entry: Entry) -> Iterator[_Part]:
    """The files that an entry names in the folder, and those in the folders that it names."""
    files, size = 0, 0
    seen: set[Path] = set()
    for named in _named(entry):
        for place in _below(entry.project, named):
            if place in seen:
                continue
            seen.add(place)
            part = _part(entry.project, place)
            files, size = files + 1, size + (len(part.content) if part else 0)
            if files > MOST_FILES or size > MOST_BYTES:
                raise ConfigurationError(
                    f"MCP server {entry.name}: {named} has more than {MOST_FILES:,} files or "
                    f"{MOST_BYTES // 1_000_000} MB, too much to be allowed file by file; install the server "
                    f"outside of this folder, or take `network` out of its entry in {entry.source}"
                )
            if part:
                yield part


def _below(project: Path, named: Path) -> Iterator[Path]:
    if not (project / named).is_dir():
        yield named
        return
    for at, folders, files in os.walk(project / named):
        links = [name for name in folders if Path(at, name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in NOT_COPIED and name not in links)
        for name in sorted([*files, *links]):
            yield Path(at, name).relative_to(project)


def _part(project: Path, place: Path) -> _Part | None:
    """A file as it is now; None for what is neither a file nor leads out of the folder."""
    path = project / place
    try:
        target = path.resolve(strict=True)
        if path.is_symlink() and not inside(target, project):
            return _Part(place, os.fsencode(target), link=True)
        facts = target.stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        if facts.st_size > MOST_BYTES:
            return _Part(place, bytes(MOST_BYTES + 1))
        return _Part(place, target.read_bytes(), 0o700 if facts.st_mode & 0o100 else 0o600)
    except (OSError, RuntimeError):
        return None


def _mark(entry: Entry, sandbox: Sandbox, parts: Iterator[_Part], place: Path | None = None) -> str:
    """The digest of an entry with the files that it names, which are copied to `place`, if there is one."""
    digest = hashlib.sha256(f"{entry.digest}\n{where(entry, sandbox)}\n".encode())
    for part in parts:
        content = hashlib.sha256(part.content).hexdigest()
        digest.update(
            f"{part.place!s}\0{part.mode}\0{part.link}\0{content}\n".encode("utf-8", "surrogateescape")
        )
        if place:
            copy = place / part.place
            copy.parent.mkdir(parents=True, exist_ok=True)
            if part.link:
                copy.symlink_to(os.fsdecode(part.content))
            else:
                copy.write_bytes(part.content)
                copy.chmod(part.mode)
    return digest.hexdigest()


def _copied(entry: Entry, place: Path, sandbox: Sandbox) -> Entry:
    """The entry on a copy of what it names. Raises `ConfigurationError` if that is not what was allowed."""
    copied = _mark(entry, sandbox, _parts(entry), place)
    if trust.waiting([_item(entry, copied, entry.shown)]):
        raise ConfigurationError(
            "what it runs in this folder has changed since you allowed it; "
            f"review it, then run: {_to_allow(entry, sandbox)}"
        )
    finds = spellings(entry.project)

    def moved(text: str) -> str:
        path = Path(text)
        if path.is_absolute() and inside(path, entry.project):  # also by a link from elsewhere
            with_links = Path(os.path.normpath(path))
            real = with_links if entry.project in with_links.parents else path.resolve()
            return str(place / real.relative_to(entry.project))
        return finds.sub(lambda _: str(place), text)

    cwd = Path(moved(str(entry.cwd)))
    if inside(cwd, place):
        cwd.mkdir(parents=True, exist_ok=True)
    env = {name: moved(text) for name, text in entry.env.items()}
    return replace(entry, command=moved(entry.command), args=tuple(map(moved, entry.args)), env=env, cwd=cwd)
