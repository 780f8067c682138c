"""A workspace with MCP servers; see mcp_place.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_place import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    return Place(folder)
