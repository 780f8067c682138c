"""What can go wrong, as one family of exceptions; each message says what is wrong, where, and what to do."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel.responder import Usage


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
