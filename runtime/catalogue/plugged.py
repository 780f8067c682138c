"""The operations of plugins: an entry point names the function, and `operations/NAME.md` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from kernel.tools.tool import Tool
from runtime import plugins
from runtime.catalogue.pattern import Fault, load
from runtime.found_files import version


def operations() -> Sequence[Tool | Fault]:
    """The operations of installed packages, and why others are skipped. Their code is not imported."""
    return _operations(plugins.places())


@lru_cache(maxsize=1)
def _operations(path: tuple[str, ...]) -> Sequence[Tool | Fault]:
    """Packages do not change while a process runs, so they are read once."""
    return [_operation(entry) for entry in plugins.installed(plugins.OPERATIONS).values()]


def _operation(entry: EntryPoint) -> Tool | Fault:
    place, stat = _description(entry)
    if stat is None:
        return Fault(place, 1, f"{plugins.named(entry)}: there is no such file; it describes the operation")
    tool = load(place, *stat)
    if isinstance(tool, Fault):
        return replace(tool, message=f"{plugins.named(entry)}: {tool.message}")
    if tool.name != entry.name:
        return Fault(place, 1, f"{plugins.named(entry)}: name: {tool.name!r} differs from the entry point's")
    code = partial(plugins.load, entry)
    return replace(tool, origin="plugin", run=f"plugin: {entry.value}", open=False, code=code)


def _description(entry: EntryPoint) -> tuple[Path, tuple[int, int] | None]:
    """The markdown in the package's folder `operations`, and its time and size (None: no such file)."""
    package = entry.module.partition(".")[0]
    try:
        spec = find_spec(package)  # of a top-level package: nothing is imported
    except (ImportError, ValueError):
        spec = None
    folders = spec.submodule_search_locations if spec else None
    places = [Path(each, "operations", f"{entry.name}.md") for each in folders or [package]]
    return next(((place, stat) for place in places if (stat := version(place))), (places[0], None))
