"""The sorts of place of a path (in the folder, outside, a device, …), globs that match it, and hosts.

Paths are compared as texts. Links are followed only for paths in the folder that are changed.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache
from pathlib import Path

from runtime.safety.acts import ANY, FETCHED, INSIDE, NAME, has_unknown
from runtime.sandbox.bubblewrap import PROTECTED, home

SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
TAME = re.compile(r"/dev/(null|zero|u?random|full|std(in|out|err)|tty|fd/\d+|ptmx)$|/proc/self/fd/[012]$")
"""Devices that are harmless to read and write."""
SYSTEM = (
    *("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/opt", "/var", "/sys", "/proc", "/root"),
    *("/srv", "/run", "/System", "/Library", "/Applications", "/snap", "/nix"),
)
HOMES = ("/home", "/Users", "/root")
SCRIPT = 16_000
"""Bytes of the largest script in the folder that is read before it runs."""
_GLOB = re.compile(r"[*?\[]")
_ALL = re.compile(r"(?:\*+|\.\*|\.\[!?[.^]*\]\*|\.\?\?\*|\[!?\.?\]\*|\*\.\*|[?][*])$")


class Places:
    """Finds the sorts of place of a path, seen from one folder."""

    def __init__(
        self,
        folder: Path,
        protected: Sequence[Path] = (),
        systems: Sequence[Path] = (),
        present: Callable[[str], bool] = os.path.lexists,
    ) -> None:
        self.present = present
        self.folder = str(folder.resolve())
        self.home = str(home())
        self.protected = tuple(str(path) for path in protected)
        self.systems = tuple(str(path) for path in systems)
        self.links: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def fresh(self) -> Places:
        """A copy without the links that one line has made."""
        other = copy(self)
        other.links, other._known = {}, {}
        return other

    def absolute(self, path: str, cwd: str) -> str:
        """The absolute path without `.` and `..`; unknown parts stay as marks."""
        path = path.replace(FETCHED, ANY)
        if path.startswith("file://"):
            path = path.removeprefix("file://").removeprefix("localhost")
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~") and re.match(r"~[a-z_][\w-]*(/|$)", path):
            user, _, rest = path[1:].partition("/")
            path = f"/root/{rest}" if user == "root" else f"/home/{user}/{rest}"
        if path.startswith(ANY):
            return _clean(path)
        if path.startswith(INSIDE):
            path = f"{self.folder}/{path}"
        whole = path if path.startswith("/") else f"{cwd}/{path}"
        clean = _clean(whole)
        for link, target in self.links.items():
            if within(clean, link):
                clean = _clean(target + clean[len(link) :])
        return clean

    def real(self, path: str) -> str:
        """The path with links followed, if it is in the folder."""
        if not self.inside(path) or has_unknown(path) or "\0" in path:
            return path
        head, _, name = path.rpartition("/")
        glob = _GLOB.search(head)
        if glob:
            head, name = head[: head.rfind("/", 0, glob.start())], path
        try:
            found = self._known.get(head) or os.path.realpath(head)
        except (OSError, ValueError):
            return path
        self._known[head] = found
        return path if found == head else f"{found}/{name}"

    def inside(self, path: str) -> bool:
        """Whether an absolute path is the folder or in it."""
        return within(path, self.folder)

    def sort(self, path: str) -> frozenset[str]:
        """Every sort of place of an absolute path."""
        if path.startswith(ANY) or not path:
            return frozenset({"unknown"})
        if TAME.match(path):
            return frozenset({"tame"})
        found: set[str] = set()
        whole, everything = path, False
        name = path.rpartition("/")[2]
        while _ALL.match(whole.rpartition("/")[2]):
            whole, everything = whole.rpartition("/")[0] or "/", True
        if everything:
            found.add("all")
        if _GLOB.search(name):
            found.add("glob")
        if whole == "/" or re.fullmatch(r"/[*?\[\]]+", whole):
            found |= {"root", "outside"}
        if self.folder.startswith(f"{whole}/") and whole != "/":
            found |= {"above", "outside"}
        if whole == self.folder:
            found.add("folder")
        elif self.inside(whole):
            found |= self._inner(whole)
        elif self.scratch(whole):
            found.add("scratch")
        elif path != self.folder:
            found |= self._outer(whole)
        return frozenset(found)

    def scratch(self, path: str) -> bool:
        """Whether a path is in a temporary folder; a home directory there does not count."""
        if within(path, self.home) or within(self.home, path):
            return path in SCRATCH
        return within(path, *SCRATCH)

    def _inner(self, path: str) -> set[str]:
        names = path[len(self.folder) + 1 :].split("/")
        named = ".git" in names or any(_names_match(names[0], each, True) for each in PROTECTED)
        if named or any(within(path, each) or within(each, path) for each in self.protected):
            return {"inside", "protected"}
        return {"inside"}

    def _outer(self, path: str) -> set[str]:
        found = {"outside"}
        if path.startswith("/dev/"):
            found.add("device")
        own = path.startswith(f"{self.home}/")
        if not own and within(path, *SYSTEM):
            found.add("system")
        if within(self.home, path) or path in HOMES or re.fullmatch(r"/(home|Users)/[^/]+", path):
            found.add("home")
        if within(path, *self.protected):
            found.add("protected")
        return found

    def new(self, path: str) -> bool:
        """Whether nothing exists there yet."""
        try:
            return not (_GLOB.search(path) or has_unknown(path)) and not self.present(path)
        except (OSError, ValueError):
            return False

    def there(self, path: str) -> bool:
        """Whether a path is a file of the folder, and not of a virtual environment's packages."""
        if not self.inside(path) or "\0" in path or re.search(r"/\.?venv/", path):
            return False
        with suppress(OSError, ValueError):
            return Path(path).is_file()
        return False

    def script(self, path: str) -> str | None:
        """The text of a short script in the folder; None for anything else."""
        if not self.inside(path) or "\0" in path:
            return None
        try:
            file = Path(path)
            if not file.is_file() or file.stat().st_size > SCRIPT:
                return None
            return file.read_text("utf-8")
        except (OSError, ValueError):
            return None

    def drafted(self, path: str) -> bool:
        """Whether a path is in a system folder, whose changes the kernel keeps as drafts."""
        bases = (*self.systems[:1], f"{self.folder}/.fractal/system", f"{self.folder}/system")
        return any(path.startswith(f"{base}/") for base in bases)


def within(path: str, *places: str) -> bool:
    """Whether a path is one of these places or below it."""
    return any(path == each or path.startswith(f"{each}/") for each in places)


def _clean(path: str) -> str:
    """The path without `.`, `..` and empty parts."""
    parts: list[str] = []
    rooted = path.startswith("/")
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and not parts[-1].startswith(ANY):
            parts.pop()
        elif part != ".." or not rooted:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts)


def matches(path: str, patterns: tuple[str, ...], folder: str, own: str, *, surely: bool = False) -> bool:
    """Whether a path, which may have globs and unknown parts, can match globs of a rule.

    With `surely` everything that it can mean must match. `**/` at the beginning is any depth, `/**` at the
    end everything below, `~` any home; a glob without a leading slash is relative to the folder.
    """
    inside = path.startswith(f"{folder}/")
    local = path[len(folder) + 1 :] if inside else path
    if surely or (not _GLOB.search(path) and not has_unknown(path)):
        form = _combined(patterns, own)
        return bool(form.fullmatch(path) or (inside and form.fullmatch(local)))
    rules = [rule for pattern in patterns for rule in _rules(pattern, own)]
    return any(_rule_matches(path if rule.startswith("/") else local, rule, inside) for rule in rules)


@lru_cache(maxsize=2048)
def _combined(patterns: tuple[str, ...], own: str = "") -> re.Pattern[str]:
    """One regular expression for all globs."""
    return re.compile("|".join(_regex_of(rule) for each in patterns for rule in _rules(each, own)), re.DOTALL)


def _regex_of(rule: str) -> str:
    deep, below = rule.startswith("**/"), rule.endswith("/**")
    middle = rule[3 if deep else 0 : -3 if below else None]
    parts = "".join({"*": "[^/]*", "?": "[^/]"}.get(each, re.escape(each)) for each in middle)
    return f"{'(?:.*/)?' if deep else ''}{parts}{'(?:/.*)?' if below else ''}"


@lru_cache(maxsize=1024)
def _rules(pattern: str, own: str) -> tuple[str, ...]:
    if pattern.startswith("~/"):
        rest = pattern[2:]
        return tuple(f"{each}/{rest}" for each in (own, "/root", "/home/*", "/Users/*"))
    return (pattern,)


def _rule_matches(path: str, rule: str, inside: bool) -> bool:
    names, rule_names = path.strip("/").split("/"), rule.strip("/").split("/")
    deep, below = rule_names[0] == "**", rule_names[-1] == "**"
    rule_names = rule_names[deep : len(rule_names) - below]
    for start in range(len(names) if deep else 1):
        rest = names[start:]
        fits = len(rest) >= len(rule_names) if below else len(rest) == len(rule_names)
        if fits and all(_names_match(*pair, inside or deep) for pair in zip(rest, rule_names, strict=False)):
            return True
    return False


def _names_match(name: str, want: str, inside: bool) -> bool:
    if name == want:
        return True
    if not _GLOB.search(name) and not has_unknown(name):
        return bool(_combined((want,)).fullmatch(name))
    literal = re.sub(rf"\[[^\]]*\]|[*?{ANY}{NAME}{INSIDE}]", "", name)
    if inside and len(literal) < 2 and not literal.startswith("."):
        return False  # `*` in the folder means its ordinary files
    if has_unknown(name) and len(literal) < 4:
        return False
    return could_match(name, want)


def could_match(glob: str, want: str) -> bool:
    """Whether a glob of the command and one of a rule can match the same name."""
    pattern = re.sub(f"[{ANY}{NAME}{INSIDE}]", "*", glob)
    if want.startswith(".") and pattern[:1] in ("*", "?", "["):
        return False  # a leading dot is matched by a dot only
    return fnmatch.fnmatchcase(want, pattern) or bool(_combined((want,)).fullmatch(pattern))


_PARTS = re.compile(r"(?:0[xX][0-9a-fA-F]+|\d+)(?:\.(?:0[xX][0-9a-fA-F]+|\d+)){0,3}\.?")
_AUTHORITY = re.compile(r"^(?:[A-Za-z][\w+.-]*:)?//(?:[^/@?#\\]*@)?(\[[^\]]*\]|[^:/?#\\]*)")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^/]+)")


def host_of(address: str) -> str:
    """The host of a URL, a `user@host:path`, a `host:port` or `/dev/tcp/…`; numbers as a plain IP address."""
    address = address.strip()
    if hit := _SOCKET.match(address) or _AUTHORITY.match(address):
        host = hit[1]
    else:
        host = address.partition("/")[0].rpartition("@")[2]
        host = host if host.count(":") > 1 else host.partition(":")[0]
    return canonical(host.strip("[]").lower().rstrip("."))


def loopback(address: str) -> bool:
    """Whether an address is this machine."""
    host = host_of(address)
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.") or host.endswith(".localhost")


def canonical(host: str) -> str:
    """An IP address in its usual form: 0xa9fea9fe and 2852039166 are 169.254.169.254."""
    try:
        if _PARTS.fullmatch(host):
            return str(ipaddress.IPv4Address(socket.inet_aton(host.strip("."))))
        found = ipaddress.ip_address(host.partition("%")[0])
    except (OSError, ValueError):
        return host
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(inner or found)
