"""What an action would do, as values, and texts of which a part is known only when it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import thread_time

from runtime.text.lines import flat, shortened

ANY = "\ue001"
"""Marks a part of a text that may be anything, such as the value of a variable from outside."""
NAME = "\ue002"
"""Marks an unknown part that is no path: a date, a number, a hash."""
INSIDE = "\ue003"
"""Marks an unknown path in the folder, such as those that `find .` prints."""
FETCHED = "\ue004"
"""Marks a part that comes from another machine."""
UNKNOWN = (ANY, NAME, INSIDE, FETCHED)
INFORMATION = (("--help",), ("--version",), ("-V",))
"""Words by which a program only prints information about itself."""
SECONDS = 2.0
"""CPU seconds per action. A backstop: `Found.left` usually ends a look long before. The garbage collection of
a large process is charged to whichever thread is running."""
_PRIVATE = dict.fromkeys(range(57344, 57856), "?")


@dataclass(frozen=True)
class Act:
    """One effect of an action: run a program, remove a file, send data."""

    does: str  # run, read, write, delete, send, connect, code, sql, set, secret, call, hidden, …
    program: str = ""
    words: tuple[str, ...] = ()  # the arguments of the program
    path: str = ""  # absolute, without `..`
    places: frozenset[str] = frozenset()  # the sorts of place of the path
    tags: frozenset[str] = frozenset()
    text: str = ""  # code, SQL, a host, a variable, or why something is unknown
    shown: str = ""  # the text for a person

    def __str__(self) -> str:
        return readable(self.shown or " ".join(part for part in (self.does, self.path or self.text) if part))


@dataclass(frozen=True)
class Stream:
    """What one program hands to the next: the text if it is known, and what is known about it."""

    text: str | None = None
    tags: frozenset[str] = frozenset()  # download, secret, file, environment, path:…
    shape: str = ANY  # of an unknown text

    @property
    def sorts(self) -> frozenset[str]:
        """The tags without the paths it was read from."""
        return frozenset(each for each in self.tags if not each.startswith("path:"))

    def joined(self, other: Stream) -> Stream:
        """This stream followed by the other."""
        if self.text == "" and not self.tags:
            return other
        if other.text == "" and not other.tags:
            return self
        text = None if self.text is None or other.text is None else self.text + other.text
        return Stream(text, self.tags | other.tags, self.shape if self.shape == other.shape else ANY)

    def tagged(self, *tags: str) -> Stream:
        """The same stream with more tags."""
        return Stream(self.text, self.tags | frozenset(tags), self.shape)


NOTHING = Stream("")
ANYTHING = Stream()


@dataclass
class Found:
    """The acts found so far, and how much more may be looked at."""

    acts: dict[Act, None] = field(default_factory=dict)
    left: int = 2_200
    end: float = field(default_factory=lambda: thread_time() + SECONDS)

    def spend(self, much: int = 1) -> None:
        """Count what is looked at; raises `TooMuch`."""
        self.left -= much
        if self.left < 0 or thread_time() > self.end:
            raise TooMuch


class TooMuch(Exception):
    """An action that takes too long to follow."""


def has_unknown(text: str) -> bool:
    """Whether a part of the text is unknown."""
    return any(mark in text for mark in UNKNOWN)


def plain(text: str) -> str:
    """The text without characters that serve as marks here."""
    return text if text.isascii() else text.translate(_PRIVATE)


def readable(text: str) -> str:
    """A text for a person, with … for unknown parts, cut to 160 characters."""
    for mark in UNKNOWN:
        text = text.replace(mark, "…")
    return shortened(flat(text.translate(_PRIVATE)), 160)
