"""What a run came to, and what a list of runs shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel.errors import Exit


@dataclass(frozen=True)
class RunResult:
    """How a run ended, or what it waits for."""

    run: str
    id: str
    status: str
    exit: Exit
    path: Path
    output: str = ""
    reason: str = ""
    question: str = ""
    waiting: str = ""
    spent: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSummary:
    """A line of `fractal ls`."""

    run: str
    id: str
    status: str
    task: str
    created: str
    updated: str
    spent: Mapping[str, Any]
    folder: str
