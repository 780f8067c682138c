"""Reads lists of words from markdown files of the system folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path


def sections(systems: Sequence[Path], name: str) -> Iterator[tuple[str, str]]:
    """The sections (heading in lower case, body) of `memory/NAME` in each folder that has it."""
    for folder in systems:
        with suppress(OSError, UnicodeDecodeError):
            text = (folder / "memory" / name).read_text("utf-8")
            for section in re.split(r"(?m)^## +", text)[1:]:
                heading, _, body = section.partition("\n")
                yield heading.strip().lower(), body
