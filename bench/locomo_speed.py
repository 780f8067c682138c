"""How long a question takes among many turns: the LoCoMo conversations repeated, as those of other people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import CachedEmbedder, cost, data_file, percentiles
from bench.locomo import DATA, Conversation, read_conversations
from runtime.memory.embed import choose
from runtime.memory.facts.records import Observation
from runtime.memory.facts.retrieval import Retrieval
from runtime.memory.store import open_shelf

ASKED = 100


def measure(path: Path | None, embedder: str, sizes: Sequence[int]) -> dict[str, Any]:
    """By number of turns: milliseconds of a question without embedding it, and after a turn was added."""
    conversations = read_conversations(path or data_file(DATA))
    questions = [question.text for each in conversations for question in each.questions]
    asked = questions[:: max(1, len(questions) // ASKED)]
    figures: dict[str, dict[str, float]] = {}
    for size in sizes:
        shelf = open_shelf("memory", Path())
        shelf.put(*_repeated(conversations, size))
        cached = CachedEmbedder(choose(embedder))
        cached.warm(asked)
        retrieval = Retrieval(shelf, cached)
        retrieval.search(asked[0])
        times = [_milliseconds(retrieval, text) for text in asked]
        shelf.put(Observation(id="one more", text="It came later.", salience=0.5))
        figures[str(size)] = {
            **percentiles(wall for wall, _ in times),
            "p50_cpu_ms": percentiles(cpu for _, cpu in times)["p50_ms"],
            "after_a_change_cpu_ms": round(_milliseconds(retrieval, asked[0])[1], 2),
        }
    return {"turns": figures}


def _milliseconds(retrieval: Retrieval, text: str) -> tuple[float, float]:
    """Wall time and CPU time; they differ when the machine is shared."""
    with cost() as spent:
        retrieval.search(text, 10)
    return 1000 * spent.wall, 1000 * spent.cpu


def _repeated(conversations: Sequence[Conversation], size: int) -> list[Observation]:
    turns: list[Observation] = []
    while len(turns) < size:
        copy = len(turns)
        for conversation in conversations:
            for turn in conversation.turns:
                thread = f"{copy}/{turn.thread}"
                turns.append(turn.model_copy(update={"id": f"{thread}/{turn.id}", "thread": thread}))
    return turns[:size]
