"""The `fractal` command in a folder of its own, and a run there that was written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, write_run

from kernel.document.model import Document


@pytest.fixture
def fractal(tmp_path: Path) -> Command:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("the quick brown fox\njumps\n", "utf-8")
    return Command(folder)


@pytest.fixture
def written(fractal: Command) -> list[Document]:
    return write_run(fractal.folder)
