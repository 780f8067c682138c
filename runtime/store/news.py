"""What was put and deleted through one shelf, so that an index beside it looks only at that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST = 20_000
"""Changes that are remembered; who asks for older ones has to look at everything."""


@dataclass(frozen=True)
class Since:
    """A place in the order of changes."""

    strange: int  # how often the store was found changed by others
    number: int


@dataclass
class News:
    """The changes of one shelf in their order; those of a transaction count when it ends well."""

    _mark: object = None
    _strange: int = 0
    _first: int = 0
    _done: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _open: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def note(self, what: Iterable[tuple[str, str]]) -> None:
        """Put or deleted in the open transaction."""
        self._open += what

    def begin(self, mark: object) -> None:
        """A transaction begins, and finds the store so."""
        self._open.clear()
        self._meet(mark)

    def end(self, mark: object) -> None:
        """It ended well, and leaves the store so."""
        self._mark = mark
        self._done += self._open
        self._open.clear()
        if len(self._done) > MOST:
            over = len(self._done) - MOST // 2
            self._first += over
            del self._done[:over]

    def drop(self) -> None:
        """Nothing of it is kept."""
        self._open.clear()

    def _meet(self, mark: object) -> None:
        if mark != self._mark:
            self._mark = mark
            self._strange += 1

    def told(self, mark: object, since: Since | None) -> tuple[Since, list[tuple[str, str]] | None]:
        """Where it has come to, and what changed since; None where that is not known."""
        if not self._open:
            self._meet(mark)
        now = Since(self._strange, self._first + len(self._done))
        if since is None or since.strange != now.strange or since.number < self._first:
            return now, None
        return now, list(dict.fromkeys(self._done[since.number - self._first :]))
