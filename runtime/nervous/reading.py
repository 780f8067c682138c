"""What is known of a line of shell when it has been read: its calls, its files, and what was found."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Any

from runtime.nervous.decoding import NOTHING, SOMETHING, Flow
from runtime.nervous.places import UNKNOWN

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)

FINDINGS = frozenset(
    [
        "downloaded",
        "hidden",
        "unreadable",
        "remote-shell",
        "fork-bomb",
        "kills-all",
        "secrets-listed",
        "secret-sent",
    ]
)
"""What reading a line can find, beside calls and files."""


@dataclass(frozen=True)
class Call:
    """One program as it will be started: its words, the folder it is in, and what feeds it."""

    words: tuple[str, ...]
    cwd: str
    stdin: Flow = NOTHING

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].rpartition("/")[2]


@dataclass(frozen=True)
class Access:
    """A file that a redirection writes or reads."""

    path: str
    cwd: str
    writes: bool
    text: Flow = SOMETHING


@dataclass
class Reading:
    """All that a line does: calls, redirections, and findings (downloaded, hidden, …)."""

    calls: list[Call] = field(default_factory=list[Call])
    files: list[Access] = field(default_factory=list[Access])
    assigned: list[str] = field(default_factory=list[str])
    addresses: list[str] = field(default_factory=list[str])
    findings: dict[str, str] = field(default_factory=dict[str, str])

    def find(self, kind: str, what: str) -> None:
        """Note a finding once, with the part of the line that shows it."""
        self.findings.setdefault(kind, what.replace(UNKNOWN, "…")[:120])


@dataclass
class Scope:
    """What a shell knows while it reads on."""

    cwd: str
    variables: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, Any] = field(default_factory=dict[str, Any])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    fetched: set[str] = field(default_factory=set[str])
    links: dict[str, str] = field(default_factory=dict[str, str])

    def inner(self) -> Scope:
        """A shell inside this one: what it changes stays inside."""
        return Scope(
            self.cwd, dict(self.variables), self.functions, dict(self.aliases), self.fetched, self.links
        )

    def go(self, folder: str) -> None:
        """Change the folder, as `cd` does."""
        if UNKNOWN in folder or folder == "-":
            self.cwd = UNKNOWN
        elif folder.startswith(("/", "~")):
            self.cwd = folder
        else:
            self.cwd = posixpath.normpath(f"{self.cwd}/{folder}")

    def led(self, word: str) -> str:
        """A path behind a link that this line made, as the place that it leads to."""
        name, slash, rest = word.removeprefix("./").partition("/")
        return f"{self.links[name].rstrip('/')}/{rest}" if slash and name in self.links else word


def assignment(word: str) -> re.Match[str] | None:
    """`NAME=value`, as env and export take it."""
    return _ASSIGNMENT.fullmatch(word)
