"""Fixtures of end-to-end tests: the run of processes.py without faults, and its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from processes import script, undisturbed_outcome


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of the run without faults."""
    return undisturbed_outcome(tmp_path_factory.mktemp("undisturbed") / "work")


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The scripted model of the run."""
    return f"scripted:{script(tmp_path / 'model.json')}"
