"""What the tests of all responders share: asks, and a tiny model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernel.asking.responder import Ask
from kernel.document.model import Document, Meta, Note, Section

ANYTHING = {"type": "object"}


def build_ask(
    phase: str = "plan",
    *,
    user: str = "Task: count the lines.",
    system: str = "Reply with one JSON object.",
    loop: str = "system-abc123",
    run: str = "abc123",
    level: str = "system",
    task: str = "count the lines",
    attempt: int = 1,
    step: int = 0,
    turn: int = 0,
    schema: dict[str, Any] = ANYTHING,
    max_tokens: int = 200,
) -> Ask:
    document = Document(Meta(id=loop, run=run, level=level), {1: Section(notes=(Note("task", task),))})
    words = '{"answer": "…"}'
    return Ask(run, loop, attempt, phase, step, turn, system, user, schema, words, max_tokens, document)


@pytest.fixture
def make_ask() -> Callable[..., Ask]:
    return build_ask


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama model of 150 kB with random weights; see scripts/make_tiny_gguf.py."""
    for module, how in (("llama_cpp", "pip install 'fractal-runtime[local]'"), ("gguf", "pip install gguf")):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: {how}")
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    script = Path(__file__).parents[3] / "scripts" / "make_tiny_gguf.py"
    subprocess.run([sys.executable, str(script), str(path)], check=True)
    return path
