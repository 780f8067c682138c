"""Fixtures that any test may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from llm_server import LlmServer
from playing import Played, player


@pytest.fixture
def llm_server() -> Iterator[LlmServer]:
    """A model provider on loopback; see tests/llm_server.py."""
    with LlmServer().running() as server:
        yield server


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Played]:
    """Plays tasks in a folder of its own with a scripted model; see tests/playing.py."""
    return player(tmp_path / "work")
