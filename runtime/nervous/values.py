"""What an action would do, as values; and texts of which a part is not known before it is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import thread_time

ANY = "\ue001"
"""Stands in a text for a part that may be anything: what a variable from outside holds."""
NAME = "\ue002"
"""Stands for a part that is not known, but is no path: a date, a number, a hash."""
INSIDE = "\ue003"
"""Stands for a path somewhere in the folder, such as those that `find .` prints."""
FETCHED = "\ue004"
"""Stands for what comes from another machine; it may be anything."""
UNKNOWN = (ANY, NAME, INSIDE, FETCHED)
TELLS = (("--help",), ("--version",), ("-V",))
"""Words by which a program only tells about itself."""
_PRIVATE = dict.fromkeys(range(57344, 57856), "?")


SECONDS = 2.0
"""Of CPU after which no more is looked at. `Found.left` ends a look long before that; the clock is only a
backstop, since collecting garbage in a large process is charged to whichever thread is running."""


@dataclass(frozen=True)
class Act:
    """One thing that an action would do: a program that is run, a file that is removed, something sent."""

    does: str  # run, read, write, delete, send, connect, code, sql, set, secret, call, hidden, …
    program: str = ""
    words: tuple[str, ...] = ()  # the arguments of what is run
    path: str = ""  # absolute, without `..`
    places: frozenset[str] = frozenset()  # what sort of place the path is
    tags: frozenset[str] = frozenset()
    text: str = ""  # code, SQL, a host, a variable, or why something cannot be told
    shown: str = ""  # how a person is told

    def __str__(self) -> str:
        told = self.shown or " ".join(part for part in (self.does, self.path or self.text) if part)
        return readable(told)


@dataclass(frozen=True)
class Stream:
    """What one program hands to the next: its text where that is known, else what is known about it."""

    text: str | None = None
    tags: frozenset[str] = frozenset()  # download, secret, file, environment
    shape: str = ANY  # of a text that is not known

    @property
    def sorts(self) -> frozenset[str]:
        """The tags without the paths that it was read from."""
        return frozenset(each for each in self.tags if not each.startswith("path:"))

    def joined(self, other: Stream) -> Stream:
        """This and then the other."""
        if self.text == "" and not self.tags:
            return other
        if other.text == "" and not other.tags:
            return self
        text = None if self.text is None or other.text is None else self.text + other.text
        shape = self.shape if self.shape == other.shape else ANY
        return Stream(text, self.tags | other.tags, shape)

    def tagged(self, *tags: str) -> Stream:
        """The same with more known about it."""
        return Stream(self.text, self.tags | frozenset(tags), self.shape)


NOTHING = Stream("")
UNTOLD = Stream()


@dataclass
class Found:
    """The acts found so far, and how much may still be looked at before it is too much to follow."""

    acts: list[Act] = field(default_factory=list)
    left: int = 2_200
    end: float = field(default_factory=lambda: thread_time() + SECONDS)
    _seen: set[Act] = field(default_factory=set)

    def add(self, act: Act) -> None:
        """Keep an act, once."""
        if act not in self._seen:
            self._seen.add(act)
            self.acts.append(act)

    def spend(self, much: int = 1) -> None:
        """Count one more thing looked at, or a larger one; raises `TooMuch`."""
        self.left -= much
        if self.left < 0 or thread_time() > self.end:
            raise TooMuch


class TooMuch(Exception):
    """An action that takes too long to follow."""


def untold(text: str) -> bool:
    """Whether a part of the text is not known."""
    return any(mark in text for mark in UNKNOWN)


def plain(text: str) -> str:
    """The text without characters that have a meaning here."""
    return text if text.isascii() else text.translate(_PRIVATE)


def readable(text: str) -> str:
    """A text for a person, with … for what is not known; at most 160 characters of it."""
    for mark in UNKNOWN:
        text = text.replace(mark, "…")
    text = " ".join(text.translate(_PRIVATE).split())
    return text if len(text) <= 160 else f"{text[:159]}…"
