"""The folder of the everyday tasks, made once."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

from bench.everyday_files import create
from runtime.reflexes.surroundings import Surroundings


@lru_cache(maxsize=1)
def _place() -> tempfile.TemporaryDirectory[str]:
    place = tempfile.TemporaryDirectory(prefix="everyday-")
    create(Path(place.name))
    return place


@lru_cache(maxsize=1)
def around() -> Surroundings:
    """What the reflexes see of it."""
    return Surroundings(Path(_place().name))
