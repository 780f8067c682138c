"""What the tests of all responders share: asks, and a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernel.document import Document, Meta, Note, Section
from kernel.responder import Ask

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
