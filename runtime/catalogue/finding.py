"""Discovers the files of tools and operations. Paths are strings here, as in `runtime.skill_files`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.skill_files import entries_of, skill_in

TOOLS = ("tools", "tools/specialists")
"""The folders whose folders are tools."""


def system_files(folders: Sequence[Path]) -> Iterator[str]:
    """The files of system folders; of two with the same path in them the first one's."""
    seen: set[str] = set()
    for folder in map(str, folders):
        for kind in ("kernel", "operations"):
            for name in entries_of(f"{folder}/{kind}"):
                if name.endswith(".md") and f"{kind}/{name}" not in seen:
                    seen.add(f"{kind}/{name}")
                    yield f"{folder}/{kind}/{name}"
        for place in TOOLS:
            for name in entries_of(f"{folder}/{place}"):
                if name[0] == "." or f"{place}/{name}" in seen:
                    continue
                if file := _pattern(f"{folder}/{place}/{name}"):
                    seen.add(f"{place}/{name}")
                    yield file


def _pattern(folder: str) -> str:
    names = entries_of(folder)
    if "pattern.md" in names:
        return f"{folder}/pattern.md"
    name = skill_in(names)
    return f"{folder}/{name}" if name else ""
