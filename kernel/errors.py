"""The exceptions. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from traceback import walk_tb
from typing import Any

TOLD_CHARS = 500
"""Maximum characters of the message of a foreign exception."""


class Exit(IntEnum):
    """Exit codes of the command line and of outcomes."""

    ACCEPTED = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    PROVIDER = 4
    LIMIT = 5
    WAITING = 6
    UNANSWERED = 7
    INTERRUPTED = 130


class FractalError(Exception):
    """Base class. Its message is shown to people without a traceback."""

    exit = Exit.FAILED


class UsageError(FractalError):
    """A command or a call is wrong."""

    exit = Exit.USAGE


class ConfigurationError(FractalError):
    """A setting, a credential or an installation is missing or wrong."""

    exit = Exit.CONFIGURATION


class ProviderError(FractalError):
    """A model's provider failed, also after retries. The run can be resumed.

    `usage` is the `Usage` of the failed call, if known.
    """

    exit = Exit.PROVIDER

    def __init__(self, message: str, usage: Any = None) -> None:
        super().__init__(message)
        self.usage = usage


class StorageError(FractalError):
    """A file of a run's state cannot be written. Earlier writes are complete."""

    exit = Exit.CONFIGURATION


class LimitReached(FractalError):
    """A limit of calls, tokens, money or depth is reached. The partial result is kept."""

    exit = Exit.LIMIT


class DocumentError(FractalError):
    """A state document cannot be read; `where` is file and line."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class ForeignEdit(FractalError):
    """Somebody else changed a document during the run. Both versions are kept."""


class RunLocked(FractalError):
    """Another process is working on the run."""


class OperationFailed(FractalError):
    """An operation failed. The message becomes its step's result."""


class ReplyError(FractalError):
    """A reply is invalid. The message is shown to the responder, who tries again."""


class Declined(FractalError):
    """A responder passes, and the next rung of the ladder takes over."""


def explained(error: BaseException) -> str:
    """The message of an exception; that of a foreign one follows the name of its type."""
    if isinstance(error, FractalError):
        return str(error)
    return f"{type(error).__name__}: {error}"[:TOLD_CHARS].rstrip(": ")


def place(error: BaseException) -> str:
    """The innermost file and line of Fractal's code in a traceback; "" if there is none."""
    here = Path(__file__).parent.parent
    found = ""
    for frame, line in walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if here in path.parents and path.relative_to(here).parts[0] in ("kernel", "runtime"):
            found = f"{path.relative_to(here)}:{line}"
    return found


@contextmanager
def raised_as(kind: type[FractalError], where: str = "") -> Generator[None]:
    """Raise unexpected exceptions as `kind`, around code that reads foreign data.

    `FractalError`s pass unchanged. The message begins with `where`.
    """
    try:
        yield
    except FractalError:
        raise
    except Exception as error:
        raise kind(f"{where}: {explained(error)}" if where else explained(error)) from error
