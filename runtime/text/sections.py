"""Reads lists of words from markdown files of the system folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.pinned import text_of


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
