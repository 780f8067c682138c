"""Memory's store, its embedders and its search, for programs of your own."""

from runtime.memory.embed import Embedder, Tokens, choose
from runtime.memory.facts.records import Observation
from runtime.memory.facts.retrieval import Retrieval
from runtime.memory.store import Between, Record, open_shelf, pack

__all__ = [
    "Between",
    "Embedder",
    "Observation",
    "Record",
    "Retrieval",
    "Tokens",
    "choose",
    "open_shelf",
    "pack",
]
