"""What a job of this bench is, whether a fix or one that the bench makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SETS = ("tuning", "acceptance", "made")
"""Fixes to develop with, fixes that nobody reads, and the jobs that are no code."""
USUAL = ("tuning", "made")
"""What is measured where nobody names a set."""


@dataclass(frozen=True)
class SweJob:
    """One task in a new folder, and a check that code makes of what was delivered."""

    name: str
    set: str
    task: str
    """The text for the harness; `{site}` stands for the address of the pages."""
    create: Callable[[Path], None]
    check: Callable[[Path, str], bool]
    """Whether the job is done: given the folder afterwards and the answer. An exception counts as no."""
    pages: Mapping[str, str] = field(default_factory=dict[str, str])
    reply: str = ""
    """What the person answers if asked; "" where there is nothing to ask."""
