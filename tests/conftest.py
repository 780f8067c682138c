"""Fixtures that any test may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile import Hostile
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


@pytest.fixture
def hostile(tmp_path: Path, play: Callable[..., Played]) -> Iterator[Hostile]:
    """A workspace whose tool does its worst; see tests/hostile.py."""
    made = Hostile(tmp_path / "work", play)
    yield made
    made.clear()
