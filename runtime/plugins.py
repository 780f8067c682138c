"""Plugins: installed packages add operations, responders and embedders by entry points.

To install a package is the user's own decision; no file of a folder can add a plugin. The metadata of all
packages is read once per process, and a plugin's code is imported when something uses its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernel.errors import ConfigurationError
from runtime.own import imported_from

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OPERATIONS = "fractal.operations"
RESPONDERS = "fractal.responders"
EMBEDDERS = "fractal.embedders"


def installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name; of two with the same name the first one on `sys.path`."""
    return _installed(places())[group]


def places() -> tuple[str, ...]:
    """`sys.path` without the current folder, which `python -m` puts there, and where runs write.

    A folder adds no plugins.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 (this is called often)
    except FileNotFoundError:  # it was removed
        here = ""
    return tuple(each for each in sys.path if each not in ("", here) and imported_from(each))


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Mapping[str, Mapping[str, EntryPoint]]:
    from importlib.metadata import distributions  # takes time, and without a plugin nobody asks

    found: dict[str, dict[str, EntryPoint]] = {OPERATIONS: {}, RESPONDERS: {}, EMBEDDERS: {}}
    for distribution in distributions(path=list(path)):
        with suppress(Exception):  # metadata that cannot be read, of whatever package
            for each in distribution.entry_points:
                if each.group in found:
                    found[each.group].setdefault(each.name, each)
    return found


def load(entry: EntryPoint) -> Callable[..., Any]:
    """The function or class of an entry point, imported now. Raises `ConfigurationError`."""
    try:
        value = entry.load()
    except (Exception, SystemExit) as error:  # whatever its module raises
        raise ConfigurationError(f"{named(entry)}: {type(error).__name__}: {error}") from error
    if not callable(value):
        raise ConfigurationError(f"{named(entry)}: {entry.value} is {type(value).__name__}, not a function")
    return value


def make(entry: EntryPoint, *args: Any, **options: Any) -> Any:
    """What the function of an entry point returns. Raises `ConfigurationError`."""
    function = load(entry)
    try:
        return function(*args, **options)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{named(entry)}: {type(error).__name__}: {error}") from error


def named(entry: EntryPoint) -> str:
    """An entry point and its package in words, for messages."""
    package = f" of the package {entry.dist.name}" if entry.dist else ""
    return f"plugin {entry.name} ({entry.group}){package}"
