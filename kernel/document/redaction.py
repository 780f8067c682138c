"""The seam of secrets: all that is stored, shown or sent goes through `redact`. The kernel knows no secret.

`use` says once for the process what secrets are, as its environment is one, too. `import runtime` says it.
Until then nothing that may hold a secret is stored, shown or sent: `secrets` raises `ConfigurationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from kernel.errors import ConfigurationError

Change = Callable[[str], str]


class Verbatim(str):
    """A text that a person approves: what looks like a secret stays, because it could be what runs.

    Where others may read it, only the values that this process knows to be secrets are hidden.
    """

    __slots__ = ()


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class OfRun:
    """The secrets of one run: what hides them in its files, what brings them back, and what learns them."""

    concealer: Callable[[], Change] = lambda: _as_it_is  # for many texts: the values are kept first
    reveal: Change = _as_it_is
    learn: Callable[[], None] = lambda: None  # from now on this process shows none of them

    def conceal(self, text: str) -> str:
        """The text with each secret replaced; it is on disk before this returns."""
        return self.concealer()(text)


@dataclass(frozen=True)
class Secrets:
    """What a process knows of secrets. The defaults know none: nothing is hidden."""

    redactor: Callable[[], Change] = lambda: _as_it_is  # for many texts
    values: Change = _as_it_is  # hides only the values that the process was given
    named: Callable[[str, str, Change], str] = lambda name, value, change: change(value)
    """The value of a member, read together with its name: `{"password": "…"}`."""
    across: Callable[[str, int], tuple[int, int]] = lambda text, at: (0, 0)
    """How many characters before and after a place in a text belong to a secret that goes across it."""
    divides: Callable[[str, str], bool] = lambda first, rest: True
    """Whether no secret can go on from the first part of a text into the rest, or into what follows."""
    of_run: Callable[[Path], OfRun] = lambda folder: OfRun()


def _unknown() -> Secrets:
    way = "import fractal or runtime, or call kernel.document.redaction.use(Secrets) to hide nothing"
    raise ConfigurationError(f"what secrets are is not known: {way}")


_given: list[Callable[[], Secrets]] = [_unknown]


def use(load: Callable[[], Secrets]) -> None:
    """From now on these are the secrets of the process; they are loaded when they are first needed."""
    _given[:] = [load]
    secrets.cache_clear()


@cache
def secrets() -> Secrets:
    """What this process knows of secrets."""
    return _given[0]()


def redact(text: str) -> str:
    """The text with each secret replaced by `[redacted NAME]`."""
    return secrets().redactor()(text)


def redacted(value: Any, change: Change) -> Any:
    """A JSON value with each text in it changed; a text under a name is read together with it."""
    if isinstance(value, Verbatim):
        return secrets().values(value)
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, Any], value).items()
        return {redacted(name, change): _member(name, each, change) for name, each in pairs}
    if isinstance(value, list | tuple):
        return [redacted(each, change) for each in cast(list[Any], value)]
    return value


def _member(name: str, value: Any, change: Change) -> Any:
    if not isinstance(value, str) or isinstance(value, Verbatim) or "\n" in value:
        return redacted(value, change)
    return secrets().named(name, value, change)
