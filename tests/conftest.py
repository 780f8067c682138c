"""Fixtures that any test may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llm_server import LlmServer


@pytest.fixture
def llm_server() -> Iterator[LlmServer]:
    """A model provider on loopback; see tests/llm_server.py."""
    with LlmServer().running() as server:
        yield server
