"""What can go wrong, as one family of exceptions; each message says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel.responder import Usage


TOLD_CHARS = 500
"""Of what an exception says, what is told."""


class Exit(IntEnum):
    """The exit codes of the command line, and of every outcome."""

    ACCEPTED = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    PROVIDER = 4
    LIMIT = 5
    WAITING = 6
    INTERRUPTED = 130


class FractalError(Exception):
    """Anything that Fractal itself reports; a person sees its message and never a traceback."""

    exit = Exit.FAILED


class UsageError(FractalError):
    """The command or the call was wrong."""

    exit = Exit.USAGE


class ConfigurationError(FractalError):
    """A setting, a credential or an installation is missing or wrong."""

    exit = Exit.CONFIGURATION


class ProviderError(FractalError):
    """A model's provider failed and retrying did not help; the run can be resumed.

    `usage` is what it cost all the same, as far as that is known.
    """

    exit = Exit.PROVIDER

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage


class StorageError(FractalError):
    """A file of a run's state cannot be written; what was written before it is whole."""

    exit = Exit.CONFIGURATION


class LimitReached(FractalError):
    """A budget, a deadline or a depth is used up; the partial result is kept."""

    exit = Exit.LIMIT


class DocumentError(FractalError):
    """A state document could not be read; `where` is file and line."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class ForeignEdit(FractalError):
    """Somebody else changed a document while the run held it; both versions were kept."""


class RunLocked(FractalError):
    """Another process is working on the run."""


class OperationFailed(FractalError):
    """An operation could not do what it was asked; the message becomes its step's result."""


class ReplyError(FractalError):
    """A reply does not have the form that was asked for; the message is shown to whoever must mend it."""


class Declined(FractalError):
    """A responder passes: the next rung of the ladder takes over."""


def explained(error: BaseException) -> str:
    """What an exception says: one of ours in its own words, any other after the name of its type."""
    if isinstance(error, FractalError):
        return str(error)
    return f"{type(error).__name__}: {error}"[:TOLD_CHARS].rstrip(": ")


def place(error: BaseException) -> str:
    """The file and line of our code that an exception was raised in, or below; "" where none is ours."""
    here = Path(__file__).parent.parent
    found = ""
    for frame, line in walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if here in path.parents and path.relative_to(here).parts[0] in ("kernel", "runtime"):
            found = f"{path.relative_to(here)}:{line}"
    return found


@contextmanager
def raised_as(kind: type[FractalError], where: str = "") -> Generator[None]:
    """The boundary around what reads foreign data: an exception that nobody foresaw is raised as `kind`.

    Errors of ours pass as they are. `where` is the place that the message begins with.
    """
    try:
        yield
    except FractalError:
        raise
    except Exception as error:
        raise kind(f"{where}: {explained(error)}" if where else explained(error)) from error
