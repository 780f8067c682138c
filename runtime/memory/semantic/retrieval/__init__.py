"""Finding what was observed and what is remembered: `search`, and how each result came to its score."""

from runtime.memory.semantic.retrieval.once import observed, once
from runtime.memory.semantic.retrieval.parts import ALL, MODES, Found, Mode, Parts
from runtime.memory.semantic.retrieval.passages import Passage, forget
from runtime.memory.semantic.retrieval.searching import Retrieval, Scope, retrieval_of, search

__all__ = [
    "ALL",
    "MODES",
    "Found",
    "Mode",
    "Parts",
    "Passage",
    "Retrieval",
    "Scope",
    "forget",
    "observed",
    "once",
    "retrieval_of",
    "search",
]
