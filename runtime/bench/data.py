"""Where the data sets are that benchmarks read: a folder beside the repository, or `FRACTAL_DATA`."""

from __future__ import annotations

import os
from pathlib import Path

from kernel.errors import UsageError

VARIABLE = "FRACTAL_DATA"


def folder() -> Path:
    """The folder of data sets, whether it is there or not."""
    told = os.environ.get(VARIABLE)
    return Path(told) if told else Path(__file__).resolve().parents[3] / "shared" / "data"


def find(name: str) -> Path:
    """A file of it; raises `UsageError` where there is none."""
    path = folder() / name
    if not path.exists():
        raise UsageError(f"{path} is not there; name the folder of data sets in {VARIABLE}")
    return path
