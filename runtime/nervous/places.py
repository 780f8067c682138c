"""Where a path of a command leads, as danger rules name it; nothing is looked up on the disk but links."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

UNKNOWN = "\ufffc"
"""Stands for what cannot be told before the command runs."""
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
HARMLESS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/fd", "/dev/zero")
HARMLESS += ("/dev/urandom", "/dev/random")
_DEVICE = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|loop|mapper|dm-|md|mem|kmem|port|ram)[\w/.-]*")
_TOP = re.compile(r"/[\w.-]+/?\*?")


@dataclass(frozen=True)
class Places:
    """The folder that commands run in, and which paths are credentials or critical, as patterns."""

    folder: str
    home: str = field(default_factory=lambda: str(Path.home()))
    credentials: Sequence[str] = ()
    critical: Sequence[str] = ()
    startup: Sequence[str] = ()
    protected: Sequence[str] = ()

    def absolute(self, path: str, cwd: str) -> str:
        """The path from the root; UNKNOWN in it stays."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~") and not path.startswith(f"~{UNKNOWN}"):
            path = f"/home/{path[1:]}"
        if not path.startswith(("/", UNKNOWN)):
            if cwd.startswith("~"):
                cwd = self.home + cwd[1:]
            path = f"{cwd}/{path}"
        return posixpath.normpath(path) if not path.startswith(UNKNOWN) else path

    def kinds(self, path: str, cwd: str) -> set[str]:
        """All names under which rules know this path: outside, root, home, whole, device, credential, …"""
        if not path or path.startswith("-"):
            return set()
        full = self.absolute(path, cwd)
        if full.startswith(UNKNOWN):
            return {"unknown"}
        if full in HARMLESS or full.startswith("/dev/fd/"):
            return {"harmless"}
        found = set[str]()
        if _DEVICE.match(full):
            found.add("device")
        if self._matches(full, self.credentials):
            found.add("credential")
        if self._matches(full, self.critical):
            found.add("critical")
        if self._matches(full, self.startup):
            found.add("startup")
        if self._matches(full, self.protected):
            found.add("protected")
        if full == "/proc/sysrq-trigger":
            found.add("sysrq")
        return found | self._where(full)

    def _where(self, full: str) -> set[str]:
        bare = posixpath.normpath(re.sub(r"/(?:\*|\.\*|\{.*\}|\.\[.*|\?\?*)?$", "", full) or "/")
        star = bare != full
        if self.folder == bare or self.folder.startswith(f"{bare.rstrip('/')}/"):
            if self.folder == bare:
                return {"whole"} | ({"star"} if star else set())
            return {"outside", "above", "root" if bare == "/" else "home" if self._homes(bare) else "parent"}
        if full.startswith(f"{self.folder}/"):
            return {"inside"}
        if any(full == each or full.startswith(f"{each}/") for each in SCRATCH):
            return {"scratch"}
        found = {"outside"}
        if self._homes(bare):
            found.add("home")
        if bare == "/" or _TOP.fullmatch(full):
            found.add("root")
        return found

    def _homes(self, bare: str) -> bool:
        home = bare == self.home or bare in ("/root", "/home") or re.fullmatch(r"/(?:home|Users)/[^/]+", bare)
        return bool(home)

    def _matches(self, full: str, patterns: Sequence[str]) -> bool:
        for pattern in patterns:
            wanted = self.home + pattern[1:] if pattern.startswith("~") else pattern
            if wanted.startswith("/"):
                if (
                    full == wanted.rstrip("/")
                    or fnmatch(full, wanted)
                    or full.startswith(wanted.rstrip("*/") + "/")
                ):
                    return True
            elif "/" in wanted:
                if f"/{wanted}/" in f"{full}/":
                    return True
            elif any(fnmatch(part, wanted) for part in full.split("/")):
                return True
        return False


def real(path: Path) -> str:
    """A folder as commands see it."""
    return str(path.resolve())
