"""A workspace and its runs, without memory by day."""

from __future__ import annotations

from pathlib import Path

import pytest
from lanes import NIGHT
from playing import Play, player


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Plays tasks in the folder `work` with a scripted model; see tests/playing.py."""
    return player(tmp_path / "work", memory=NIGHT)
