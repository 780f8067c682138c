"""Arguments for bubblewrap: what a command sees, what it may write, which names are protected.

This module knows nothing of processes, limits or time.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernel.errors import OperationFailed
from runtime import user_files
from runtime.own import own_places
from runtime.sandbox.importable import importable
from runtime.sandbox.placeholders import hideable, occupied, placeholder, watched
from runtime.sandbox.sockets import listed, listened

PROTECTED = (".git", ".fractal", "fractal.yaml", ".mcp.json")
"""Names in the folder (`.git` at any depth) that no operation may write. See docs/security.md."""
HIDDEN = ("/root", "/home", "/run", "/var/run", "/tmp", "/var/tmp")
"""Where people and programs keep their own files: a command sees an empty folder in memory instead."""
HOME_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla"),
    *(".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf"),
    *(".config/gcloud", ".config/gh", ".config/git", ".config/google-chrome", ".config/chromium"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".local/share/keyrings"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history"),
)
PRIVATE = (".env", ".envrc", ".git", ".netrc", ".npmrc", ".pypirc", ".ssh", ".aws")
"""Names in a package outside the folder that a command imports from and does not see."""
SYSTEM_SECRETS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/krb5.keytab"),
    *("/etc/ssh", "/etc/ssl/private", "/var/backups", "/var/lib/cloud", "/var/spool/cron"),
)
NAMED_SECRETS = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    *("SSH_AUTH_SOCK", "NETRC", "DOCKER_CONFIG"),
)
"""Environment variables that say where credentials lie."""
STARTUP = (".profile", ".bashrc", ".bash_profile", ".bash_login", ".zshrc", ".zshenv", ".zprofile")
"""What a person's next shell runs: protected where the folder is the home directory."""
TOOLCHAINS = (".rustup", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/pipx")
"""Where tools on the PATH keep the rest of themselves, beside what the PATH itself names."""
LOOKED_AT = 2_000
"""Folders searched for what a run may not write or reach: a few milliseconds at most."""
SCRATCH = ("/tmp", "/dev/shm", "/var/tmp")
"""Folders in memory that a command may fill, beside an empty home directory."""
KERNELS_OWN = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "mtrr"))
"""Where root, even without any capability, could change the machine: bubblewrap leaves it open to root."""
_NOT_SEARCHED = frozenset({".git", "node_modules", ".venv", "__pycache__"})


@dataclass
class Enclosure:
    """The arguments for one run and, afterwards, what had to be undone in the folder."""

    arguments: list[str] = field(default_factory=list[str])
    undone: list[str] = field(default_factory=list[str])


@contextmanager
def enclosed(
    folder: Path,
    protected: Sequence[Path],
    visible: Sequence[Path] = (),
    *,
    read_only: bool,
    network: bool,
    environ: Mapping[str, str],
    private: Sequence[Path] = (),
    mounts: Mapping[Path, Path] | None = None,
    copy: Path | None = None,
    lent: Sequence[Path] = (),
    scratch_mb: int = 0,
    lasting: bool = False,
    command: str = "",
) -> Generator[Enclosure]:
    """An enclosure around `folder` (resolved); what it needs on disk exists for the duration of the context.

    A protected path that exists is bound read-only. One that does not exist: a hidden name (`.git`) gets an
    empty folder to bind, which is gone afterwards; a visible one (`state`), where `ls | wc -l` would count
    that folder, is watched, and what a command makes there is moved aside when the run is over. `private`
    are folders that it does not see, except what is `visible`. `mounts` are places in `folder` where it
    sees another folder. `copy` is seen in the place of `folder`, and may be changed, except the `lent` paths,
    which are the folder's own. `scratch_mb` bounds each folder in memory (0: bubblewrap cannot, or need not).
    Of an environment that the `command` names, it sees what Python imports.

    While a program that is `lasting` goes on, a person may write the settings that the folder lacks. So these
    are not watched. What stands in them counts once a person has allowed it.
    """
    if folder == Path("/"):
        raise OperationFailed("a command cannot have the whole file system as its folder; choose a folder")
    above = (folder, *folder.parents)
    if not copy and any(path in above for path in (*protected, *own_places(folder))):
        read_only = True
    enclosure = Enclosure()
    with ExitStack() as stack:
        bound: list[Path] = []
        for path in _guarded(folder, protected) if not (read_only or copy) else ():
            if occupied(path) or (hideable(path) and stack.enter_context(placeholder(path))):
                bound.append(path)
            else:
                if not (lasting and path.parent == folder and path.name in PROTECTED):
                    stack.enter_context(watched(path, folder, enclosure.undone))
                bound += [path.resolve()] if folder in path.resolve().parents and path.exists() else []
        sockets = [] if network else listed()
        outside = [path for path in sockets if folder not in path.parents]
        enclosure.arguments += _file_system(
            folder, visible, outside, read_only, network, environ, scratch_mb, copy, command
        )
        for path in lent if copy else ():
            enclosure.arguments += ["--ro-bind", str(path), str(path)]
        for path in _pins(folder, bound):
            enclosure.arguments += ["--bind", str(path), str(path)]
        repositories, met, pipes = ([], [], []) if copy else _met(folder)
        for path in [*bound, *(repositories if not read_only else ())]:
            enclosure.arguments += ["--ro-bind", str(path), str(path)]
        masked = [path for path in (*_secrets(environ), *sockets) if folder in path.parents]  # now uncovered
        if copy:
            masked = [
                each for each in masked if _under(each, lent) or occupied(copy / each.relative_to(folder))
            ]
        masked += [] if network else listened(path for path in met if path not in masked)
        masked += pipes if read_only else ()  # of a read-only folder a pipe can be written
        for path in masked:
            enclosure.arguments += _emptied(path, scratch_mb)
        enclosure.arguments += _withheld(folder, private, visible, scratch_mb)
        for place, source in (mounts or {}).items():
            if folder in place.parents:
                enclosure.arguments += _mounted(place, source, read_only, stack, scratch_mb)
        enclosure.arguments += [
            "--chdir",
            str(folder),
            "--unshare-all",
            *(["--share-net"] if network else []),
        ]
        enclosure.arguments += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        yield enclosure


def _mounted(
    place: Path, source: Path, read_only: bool, stack: ExitStack, scratch_mb: int
) -> tuple[str, ...]:
    """Mount another folder at `place`; a missing parent folder is created in memory."""
    above = place.parent
    bind = ("--ro-bind" if read_only else "--bind", str(source), str(place))
    if above.resolve() == above and above.is_dir() and occupied(above):
        return bind if occupied(place) or stack.enter_context(placeholder(place)) else ()
    if hideable(above) and stack.enter_context(placeholder(above)):
        return (*_in_memory(above, min(scratch_mb, 1)), *bind, "--remount-ro", str(above))
    return ()


def _guarded(folder: Path, protected: Sequence[Path]) -> list[Path]:
    """The paths in and below `folder` that a command may not write, whether they exist or not."""
    guarded = [folder / name for name in PROTECTED]
    guarded += [path for path in (*protected, *own_places(folder)) if folder in path.parents]
    if _under(home(), [folder]):
        guarded += [home() / name for name in STARTUP]
    return list(dict.fromkeys(guarded))


def refused(folder: Path, output: str) -> list[str]:
    """Why a command could not write where Fractal runs from, if its output says that it tried."""
    if not any(said in output for said in (os.strerror(errno.EROFS), "Errno 30", "EROFS")):
        return []
    places = own_places(folder).items()
    return [why for place, why in places if place == folder or str(place.relative_to(folder)) in output]


def clear(folder: Path, protected: Sequence[Path]) -> None:
    """Remove the empty folders that a command whose supervisor died has left in `folder` (resolved)."""
    for path in _guarded(folder, protected):
        if path.is_dir() and not path.is_symlink() and not occupied(path):
            with placeholder(path):
                pass  # the last one to leave removes it


def _file_system(
    folder: Path,
    visible: Sequence[Path],
    masked: Sequence[Path],
    read_only: bool,
    network: bool,
    environ: Mapping[str, str],
    scratch_mb: int,
    copy: Path | None,
    command: str,
) -> Iterator[str]:
    """The file system except the protected paths, in the order in which bubblewrap lays it out."""
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    yield from _machine(scratch_mb)
    hidden = _hidden()
    tools = _toolchains(hidden, environ)
    for path in hidden:
        filled = str(path) in SCRATCH or path == home()
        yield from _in_memory(path, scratch_mb if filled else min(scratch_mb, 1))
    names = Path("/etc/resolv.conf").resolve()
    if network and _under(names, hidden) and names.is_file():
        tools.append(names)
    tools += [path for path in visible if _under(path, hidden) and not _under(path, [folder, *tools])]
    withheld = _secrets(environ)
    for path in importable(folder, environ, home(), command):
        both = (path, path.resolve())  # a link must not lead to what is private
        widens = any(each in hidden or each in one.parents for each in both for one in (*hidden, *withheld))
        private = widens or any(_under(each, withheld) for each in both)
        if _under(path, hidden) and not (private or _under(path, [folder, *tools])):
            tools.append(path)
            withheld += [path / name for name in PRIVATE if (path / name).exists()]
    for path in tools:
        yield from ("--ro-bind", str(path), str(path))
    yield from ("--ro-bind" if read_only else "--bind", str(copy or folder), str(folder))
    shown = [folder, *tools]
    for path in (*withheld, *masked):
        if _under(path, shown) or not _under(path, hidden):
            yield from _emptied(path, scratch_mb)


def _machine(scratch_mb: int) -> Iterator[str]:
    """What is the machine's own stays as it is: settings of the kernel, and the memory that /dev lies in."""
    for name in KERNELS_OWN:
        if Path(name).exists():
            yield from ("--ro-bind", name, name)
    perms = ("--perms", "1777") if scratch_mb else ()  # as old as --size, nearly
    yield from (*perms, *_in_memory(Path("/dev/shm"), scratch_mb), "--remount-ro", "/dev")


def _emptied(path: Path, scratch_mb: int) -> tuple[str, ...]:
    return _in_memory(path, min(scratch_mb, 1)) if path.is_dir() else ("--ro-bind", "/dev/null", str(path))


def _in_memory(path: Path, megabytes: int) -> tuple[str, ...]:
    size = ("--size", str(megabytes * 1_000_000)) if megabytes else ()
    return (*size, "--tmpfs", str(path))


def _withheld(
    folder: Path, private: Sequence[Path], visible: Sequence[Path], scratch_mb: int
) -> Iterator[str]:
    """Folders that look empty except for what may be seen in them; a command inside one sees its own part."""
    for path in _beside(folder, private):
        if path.is_dir() and not path.is_symlink():
            yield from _in_memory(path, min(scratch_mb, 1))
            for place in visible:
                if _under(place, [path]):
                    yield from ("--ro-bind", str(place), str(place))
            yield from ("--remount-ro", str(path))


def _beside(folder: Path, private: Sequence[Path]) -> Iterator[Path]:
    """The private folders; of one that `folder` lies in, all that lies beside the way to it."""
    for path in private:
        if not _under(folder, [path]):
            yield path
        elif folder != path:
            way = path / folder.relative_to(path).parts[0]
            yield from _beside(folder, [each for each in path.iterdir() if each != way])
            yield from _beside(folder, [way])


def home() -> Path:
    """The home directory, or a path that does not exist where the user has none."""
    try:
        return Path.home().resolve()
    except RuntimeError:
        return Path("/nonexistent")


def _hidden() -> list[Path]:
    places = {Path(name).resolve() for name in HIDDEN} | {home()}
    system = Path("/usr")
    usable = [each for each in places if each.is_dir() and each != system and each not in system.parents]
    return sorted(usable, key=lambda path: len(path.parts))


def _toolchains(hidden: Sequence[Path], environ: Mapping[str, str]) -> list[Path]:
    """The interpreter and what the PATH names, where that is hidden; parents before children."""
    own = home()
    candidates = [Path(sys.prefix), Path(sys.base_prefix), *(own / name for name in TOOLCHAINS)]
    for name in environ.get("PATH", "").split(os.pathsep):
        path = Path(name)
        candidates.append(path)
        if path.name in ("bin", "sbin", "shims") and path.parent not in (own, own / ".local"):
            candidates.append(path.parent)
    toolchains: list[Path] = []
    for path in sorted({path for path in candidates if path.is_absolute()}, key=lambda path: len(path.parts)):
        widens = path in hidden or any(path in each.parents for each in hidden)
        if _under(path, hidden) and not widens and path.is_dir() and not _under(path, toolchains):
            toolchains.append(path)
    return toolchains


def _secrets(environ: Mapping[str, str]) -> list[Path]:
    named = [part for name in NAMED_SECRETS for part in environ.get(name, "").split(os.pathsep) if part]
    places = [*(home() / name for name in HOME_SECRETS), *map(Path, SYSTEM_SECRETS), *map(Path, named)]
    with suppress(RuntimeError):  # a user without a home
        places.append(user_files.user_folder())
    found: list[Path] = []
    for path in places:
        with suppress(OSError):
            if path.is_absolute() and path.exists():
                found.append(path.resolve())
    return list(dict.fromkeys(found))


def _under(path: Path, places: Sequence[Path]) -> bool:
    return any(path == place or place in path.parents for place in places)


def _pins(folder: Path, bound: Sequence[Path]) -> list[Path]:
    """The folders between `folder` and what is bound: as mounts they cannot be renamed away with it."""
    between = {parent for path in bound for parent in path.parents if folder in parent.parents}
    return sorted(between, key=lambda path: len(path.parts))


def _met(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """The `.git` of nested repositories in the folder, its sockets, and its pipes."""
    repositories: list[Path] = []
    special: dict[int, list[Path]] = {stat.S_IFSOCK: [], stat.S_IFIFO: []}
    queue = deque([folder])
    for _ in range(LOOKED_AT):
        if not queue:
            break
        with suppress(OSError), os.scandir(queue.popleft()) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and entry.name != ".git":
                    continue
                if entry.name == ".git" and Path(entry.path).parent != folder and not entry.is_symlink():
                    repositories.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in _NOT_SEARCHED:
                        queue.append(Path(entry.path))
                else:
                    with suppress(FileNotFoundError):
                        kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
                        special.get(kind, []).append(Path(entry.path))
    return repositories, special[stat.S_IFSOCK], special[stat.S_IFIFO]
