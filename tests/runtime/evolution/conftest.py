"""A workspace whose system changes, for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from workshop_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "work"
    (folder / ".fractal" / "state").mkdir(parents=True)
    return Place(folder)
