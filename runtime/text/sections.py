"""Reads lists of words from markdown files of the system folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from runtime.pinned import text_of


@lru_cache(maxsize=1024)
def having(systems: tuple[Path, ...], *names: str, room: str = "memory") -> tuple[Path, ...]:
    """The folders that have one of these files, looked up once per process.

    What is made of the files is kept by these folders: workspaces without files of their own share it.
    """
    return tuple(each for each in systems if any((each / room / name).is_file() for name in names))


def sections(systems: Sequence[Path], name: str, room: str = "memory") -> Iterator[tuple[str, str]]:
    """The sections (heading in lower case, body) of `ROOM/NAME` in each folder that has it.

    Raises `ConfigurationError` for a file that is not text.
    """
    for folder in systems:
        path = folder / room / name
        text = text_of(path) if path.is_file() else ""
        for section in re.split(r"(?m)^## +", text)[1:]:
            heading, _, body = section.partition("\n")
            yield heading.strip().lower(), body
