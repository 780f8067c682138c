"""A git repository outside of the folder whose files it keeps, with nothing of the user's git in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

from kernel import disk

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


class Shadow:
    """The repository in `home`, with `folder` as its work tree. Errors of git are `SubprocessError`."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.git = shutil.which("git")
        self.held: tuple[int, ...] = ()  # open files, such as a lock, that git's processes hold as well

    def create(self) -> None:
        """Create or repair the repository; its index is rebuilt."""
        for name in ("objects", "refs/runs", "info"):
            (self.home / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.home.chmod(0o700)
        files = {"HEAD": "ref: refs/heads/none\n", "config": _CONFIG, "info/attributes": _ATTRIBUTES}
        for name, text in files.items():
            (self.home / name).write_text(text, "ascii")
        (self.home / "folder").write_bytes(os.fsencode(self.folder))
        (self.home / "index").unlink(missing_ok=True)

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
        self, *words: str, stdin: int = subprocess.DEVNULL, umask: int = 0o077
    ) -> subprocess.Popen[bytes]:
        """Start git without the user's settings."""
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home),
            "GIT_DIR": str(self.home),
            "GIT_WORK_TREE": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for the run alone
        try:
            return subprocess.Popen(
                [self.git or "git", *words],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder if os.path.isdir(self.folder) else self.home,  # noqa: PTH112 (may be gone)
                env=env,
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
    ) -> bytes:
        """The output of git; `paths` are its standard input, and it does not run if there are none."""
        if paths is not None and not paths:
            return b""
        stdin = stdin or b"".join(os.fsencode(path) + b"\0" for path in paths or ())
        process = self.start(*words, stdin=subprocess.PIPE, umask=umask)
        out, errors = process.communicate(stdin)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words, stderr=errors)
        return out

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
