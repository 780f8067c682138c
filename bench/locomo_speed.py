"""How long a question takes among many turns: the given conversations over and over, as other people's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness import percentiles
from bench.locomo import Conversation
from runtime.memory.embed import Embedder, Tokens
from runtime.memory.facts.records import Observation
from runtime.memory.facts.retrieval import Retrieval
from runtime.memory.store import open_shelf

ASKED = 100


class Timed:
    """An embedder that knows how long it took, by the clock and of the processor."""

    def __init__(self, embedder: Embedder) -> None:
        self.inner, self.name, self.size, self.seconds = embedder, embedder.name, embedder.size, (0.0, 0.0)
        self.embed = embedder.embed

    def embed_tokens(self, text: str) -> Tokens:
        """As the embedder itself."""
        began = _now()
        try:
            return self.inner.embed_tokens(text)
        finally:
            took = _since(began)
            self.seconds = (self.seconds[0] + took[0], self.seconds[1] + took[1])


def speed(
    found: Sequence[Conversation], embedder: Embedder, sizes: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Milliseconds of a question without embedding it, and of the first one after a turn came, by turns."""
    told: dict[str, dict[str, float]] = {}
    for size in sizes:
        shelf = open_shelf("memory", Path())
        shelf.put(*_many(found, size))
        timed = Timed(embedder)
        retrieval = Retrieval(shelf, timed)
        questions = [each.text for one in found for each in one.questions]
        asked = questions[:: max(1, len(questions) // ASKED)]
        retrieval.search(asked[0])
        times = [_milliseconds(retrieval, timed, text) for text in asked]
        shelf.put(Observation(id="one more", text="It came later.", salience=0.5))
        told[str(size)] = {
            **percentiles(clock for clock, _ in times),
            "p50_cpu_ms": percentiles(cpu for _, cpu in times)["p50_ms"],
            "after_a_change_cpu_ms": round(_milliseconds(retrieval, timed, asked[0])[1], 2),
        }
    return told


def _milliseconds(retrieval: Retrieval, timed: Timed, text: str) -> tuple[float, float]:
    """By the clock, and of the processor: they differ where others use it too."""
    embedding, began = timed.seconds, _now()
    retrieval.search(text, 10)
    took = _since(began)
    clock, cpu = (took[at] - (timed.seconds[at] - embedding[at]) for at in (0, 1))
    return 1000 * clock, 1000 * cpu


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    clock, cpu = _now()
    return clock - began[0], cpu - began[1]


def _many(found: Sequence[Conversation], size: int) -> list[Observation]:
    turns: list[Observation] = []
    while len(turns) < size:
        copy = len(turns)
        for one in found:
            turns += [
                each.model_copy(
                    update={"id": f"{copy}/{each.thread}/{each.id}", "thread": f"{copy}/{each.thread}"}
                )
                for each in one.turns
            ]
    return turns[:size]
