"""A workspace, and a server of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from run_place import TOKEN, settings
from serving import in_thread

from runtime.server.client import Client


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace in which what clients start waits for approval."""
    place = tmp_path / "work"
    place.mkdir()
    settings(place)
    return place


@pytest.fixture
def client(work: Path) -> Iterator[Client]:
    """A client with the token of a server of `work`."""
    with in_thread(work, token=TOKEN) as url, Client(url, name="tests/1.0", token=TOKEN) as runs:
        yield runs
