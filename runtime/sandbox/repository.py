"""A git repository outside of the folder whose files it keeps, with nothing of the user's git in it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from kernel import disk
from runtime.sandbox.checkout import CLOSED, NOTHING_STARTS, pairs
from runtime.sandbox.programs import program, start

_CONFIG = """[core]
repositoryformatversion = 0
fileMode = true
bare = false
autocrlf = false
safecrlf = false
symlinks = true
ignoreCase = false
precomposeUnicode = false
protectNTFS = false
protectHFS = false
fsmonitor = false
hooksPath = /dev/null
attributesFile = /dev/null
excludesFile = /dev/null
compression = 1
[index]
threads = true
version = 4
[gc]
auto = 0
packRefs = false
"""
_ATTRIBUTES = "* -text -crlf -ident -filter !eol !working-tree-encoding\n"
_FILES = {"HEAD": "ref: refs/heads/none\n", "config": _CONFIG, "info/attributes": _ATTRIBUTES}
_INSIDE: Mapping[str, re.Pattern[str]] = {
    "": re.compile(
        r"HEAD|config|info|objects|refs|folder|lock|index(\.lock)?|start|last\.json|list-\w+\.json|\..*\.tmp"
    ),
    "info": re.compile(r"attributes|refs\w*|\..*\.tmp"),
    "refs": re.compile(r"runs"),
    "refs/runs": re.compile(r".*"),
    "objects": re.compile(r".*"),
    "objects/info": re.compile(r"packs\w*|\..*\.tmp"),
    "objects/pack": re.compile(r".*"),
}
"""The names that a repository of ours has, none of a link; what else lies there came from somebody else."""


class Shadow:
    """The repository in `home`, with `folder` as its work tree. Errors of git are `SubprocessError`."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.git = program("git", folder)
        self._known = False  # whether the repository was looked at
        self.held: tuple[int, ...] = ()  # open files, such as a lock, that git's processes hold as well

    def create(self) -> None:
        """Create or repair the repository; its index is rebuilt."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.home.chmod(0o700)
        self._settle()
        (self.home / "folder").write_bytes(os.fsencode(self.folder))
        (self.home / "index").unlink(missing_ok=True)

    def _settle(self) -> None:
        """Write the settings of git, and remove what else it would obey, such as alternates or hooks."""
        self._known = True
        for name, names_of_ours in _INSIDE.items():
            for entry in (self.home / name).iterdir() if (self.home / name).is_dir() else ():
                if names_of_ours.fullmatch(entry.name) and not entry.is_symlink():
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    disk.remove_all(entry)
                else:
                    entry.unlink(missing_ok=True)
        for name in ("objects", "refs/runs", "info"):
            (self.home / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in _FILES.items():
            with suppress(OSError):
                if disk.read(self.home / name, len(text) + 1) == text.encode():
                    continue
            disk.put(self.home / name, text.encode(), fsync=False)

    def suspects(self) -> tuple[list[str], list[str]]:
        """Tracked paths that may have changed, and untracked ones (folders with a slash)."""
        ways = (["diff-files", "--raw", "-z"], ["ls-files", "--others", "--directory", "-z"])
        running = [self.start(*words) for words in ways]
        ended = [process.communicate() for process in running]
        for process, words, (_, errors) in zip(running, ways, ended, strict=True):
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, words, stderr=errors)
        changed, others = (names(out) for out, _ in ended)
        return changed[1::2], others

    def packs(self) -> bool:
        """Whether this git puts files above its threshold into one pack; older ones make a pack for each."""
        version = self.run("version").decode().split(" ")[2].split(".")
        return tuple(int(part) for part in version[:2]) >= (2, 37)

    def start(
        self, *words: str, stdin: int = subprocess.DEVNULL, umask: int = 0o077, index: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start git without the user's settings; `index` is one that it uses in place of its own."""
        if not self._known:
            self._settle()
        folder = self.folder if self.folder.is_dir() else self.home  # it may be gone, or moved
        env = {
            **CLOSED,
            **pairs(NOTHING_STARTS),
            "LC_ALL": "C",
            "GIT_DIR": str(self.home),
            "GIT_COMMON_DIR": str(self.home),
            "GIT_WORK_TREE": str(folder),
            **({"GIT_INDEX_FILE": str(index)} if index else {}),
        }
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for the run alone
        try:
            return start(
                [self.git or "/usr/bin/git", *words],
                folder,
                env,
                stdin=stdin,
                umask=umask,
                pass_fds=self.held,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        paths: Collection[str] | None = None,
        umask: int = 0o077,
        index: Path | None = None,
    ) -> bytes:
        """The output of git; `paths` are its standard input, and it does not run if there are none."""
        if paths is not None and not paths:
            return b""
        stdin = stdin or b"".join(os.fsencode(path) + b"\0" for path in paths or ())
        process = self.start(*words, stdin=subprocess.PIPE, umask=umask, index=index)
        out, errors = process.communicate(stdin)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words, stderr=errors)
        return out

    def store(self, kind: str, raw: bytes) -> str:
        """Store a small object in git's form, without a start of git; returns its id."""
        whole = f"{kind} {len(raw)}\0".encode() + raw
        oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.home / "objects" / oid[:2] / oid[2:]
        if not path.exists():
            disk.put(path, zlib.compress(whole, 1), mode=0o444, fsync=False)
        return oid

    def check_out(self, files: Iterable[tuple[int, str, str]], place: Path) -> None:
        """Write stored files, given as mode, object and path, below the empty folder `place`."""
        kinds = {stat.S_IFLNK: "120000", stat.S_IFREG: "100644"}
        lines = [f"{kinds[stat.S_IFMT(mode)]} {oid}\t{path}\0" for mode, oid, path in files]
        index = place.with_name("index")
        self.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)), index=index)
        self.run("checkout-index", "-a", "-q", f"--prefix={place}/", umask=0o022, index=index)

    def forget(self, runs: Callable[[str], bool]) -> None:
        """Delete snapshots that belong only to runs outside `runs`."""
        for folder in (self.home / "refs" / "runs").glob("*"):
            if not runs(folder.name):
                shutil.rmtree(folder)
        if not any((self.home / "refs" / "runs").glob("*")):
            for entry in self.home.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                elif entry.name != "lock":  # somebody may be waiting for it
                    entry.unlink()
        elif self.git:
            self.run("repack", "-a", "-d", "-q")
            self.run("prune", "--expire=now")

    def sweep(self) -> None:
        """Remove temporary files of a dead process; no other process may be writing."""
        for folder in (self.home, *self.home.glob("objects/*"), *self.home.glob("refs/runs/*")):
            disk.sweep(folder)


def names(raw: bytes) -> list[str]:
    """What git prints with -z, as paths of this system."""
    return [os.fsdecode(part) for part in raw.split(b"\0")[:-1]]
