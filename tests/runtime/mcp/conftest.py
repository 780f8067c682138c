"""A workspace with MCP servers; see mcp_place.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_place import Place
from playing import NO_SANDBOX


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if NO_SANDBOX:
        pytest.skip(f"servers of a folder run in the sandbox: {NO_SANDBOX}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    return Place(folder)
