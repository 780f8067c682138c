"""Fixtures that any test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile import Hostile
from llm_server import LlmServer
from playing import Played, player


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what takes minutes, unless FRACTAL_SOAK=1 asks for it."""
    if item.get_closest_marker("soak") and os.environ.get("FRACTAL_SOAK") != "1":
        pytest.skip("takes minutes; runs with FRACTAL_SOAK=1")


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
os.environ["FRACTAL_TRUST"] = "all"  # what the folders ask for is the tests' own


@pytest.fixture
def llm_server() -> Iterator[LlmServer]:
    """A model provider on loopback; see tests/llm_server.py."""
    with LlmServer().running() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder beside which a test may keep more."""
    inside = tmp_path / "folder"
    inside.mkdir()
    return inside


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
