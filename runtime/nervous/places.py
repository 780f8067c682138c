"""Where a path of a command leads, as danger rules name it; nothing is looked up on the disk but links."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from pathlib import Path
from typing import TypeVar

UNKNOWN = "\ufffc"
"""Stands for what cannot be told before the command runs."""
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
HARMLESS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/fd", "/dev/zero")
HARMLESS += ("/dev/urandom", "/dev/random")
_DEVICE = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|loop|mapper|dm-|md|mem|kmem|port|ram)[\w/.-]*")
KINDS = frozenset(
    [
        "inside",
        "outside",
        "above",
        "parent",
        "root",
        "home",
        "whole",
        "star",
        "scratch",
        "device",
        "credential",
        "critical",
        "startup",
        "protected",
        "sysrq",
        "unknown",
        "harmless",
    ]
)
"""All names that rules may use for where a path leads."""
_REMEMBERED = 4096
_Key = TypeVar("_Key")
_TOP = re.compile(r"/[\w.-]+/?\*?")


class Places:
    """The folder that commands run in, and which paths are credentials or critical, as patterns."""

    def __init__(
        self,
        folder: str,
        *,
        home: str = "",
        credentials: Sequence[str] = (),
        critical: Sequence[str] = (),
        startup: Sequence[str] = (),
        protected: Sequence[str] = (),
    ) -> None:
        self.folder, self.home = folder, home or str(Path.home())
        self._patterns = {
            "credential": self._pattern(credentials),
            "critical": self._pattern(critical),
            "startup": self._pattern(startup),
            "protected": self._pattern(protected),
        }
        self._known: dict[tuple[str, str], frozenset[str]] = {}
        self._together: dict[tuple[tuple[str, ...], str], frozenset[str]] = {}

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

    def kinds(self, path: str, cwd: str) -> frozenset[str]:
        """All names under which rules know this path: outside, root, home, whole, device, credential, …"""
        return _remembered(self._known, (path, cwd), lambda: frozenset(self._kinds(path, cwd)))

    def among(self, words: tuple[str, ...], cwd: str) -> frozenset[str]:
        """The kinds of all paths among a call's words."""

        def found() -> frozenset[str]:
            paths = {bare(word) for word in words if not word.startswith("-")}
            paths |= {word.partition("=")[2] for word in words if word.startswith("--") and "=" in word}
            return frozenset[str]().union(*(self.kinds(bare(path), cwd) for path in paths))

        return _remembered(self._together, (words, cwd), found)

    def _kinds(self, path: str, cwd: str) -> set[str]:
        if not path or path.startswith("-"):
            return set()
        full = self.absolute(path, cwd)
        if full.startswith(UNKNOWN):
            return {"unknown"}
        if full in HARMLESS or full.startswith("/dev/fd/"):
            return {"harmless"}
        found = {name for name, pattern in self._patterns.items() if pattern.match(full)}
        if _DEVICE.match(full):
            found.add("device")
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
        homes = self._homes(bare)
        if not homes and not _below(full, self.home) and any(_below(full, each) for each in SCRATCH):
            return {"scratch"}
        found = {"outside", "home"} if homes else {"outside"}
        if bare == "/" or _TOP.fullmatch(full):
            found.add("root")
        return found

    def _homes(self, bare: str) -> bool:
        """Whether a path is somebody's home, or has this one's in it."""
        if bare in ("/root", "/home", "/Users") or f"{self.home}/".startswith(f"{bare.rstrip('/')}/"):
            return True
        return re.fullmatch(r"/(?:home|Users)/[^/]+", bare) is not None

    def _pattern(self, patterns: Sequence[str]) -> re.Pattern[str]:
        """One expression for all: a path from the root or the home, one that ends a path, or a name in it."""
        forms: list[str] = []
        for pattern in patterns:
            wanted = self.home + pattern[1:] if pattern.startswith("~") else pattern
            if wanted.startswith("/"):
                forms.append(_segment(wanted.rstrip("/")))
            elif "/" in wanted:
                forms.append(f"(?s:.*/{re.escape(wanted)}(?:/|\\Z))")
            else:
                forms.append(f"(?s:(?:.*/)?){_segment(wanted)}")
        return re.compile("|".join(forms) or r"(?!)")


def _below(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _segment(pattern: str) -> str:
    """A pattern for one name within a path."""
    return translate(pattern).removesuffix(r"\Z").replace(".*", "[^/]*") + r"(?:/|\Z)"


def _remembered(
    known: dict[_Key, frozenset[str]], key: _Key, make: Callable[[], frozenset[str]]
) -> frozenset[str]:
    """A value made once; what was made is forgotten when it grows too much."""
    if key not in known:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = make()
    return known[key]


def bare(word: str) -> str:
    """The path in a word such as `@file` or `of=file`."""
    return re.sub(r"^(?:@|\w+=@?|file://)", "", word)


def real(path: Path) -> str:
    """A folder as commands see it."""
    return str(path.resolve())
