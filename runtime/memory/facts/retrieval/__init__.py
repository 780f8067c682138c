"""Retrieval of observations and memories: `Retrieval`, with the reasons for each score."""

from runtime.memory.facts.retrieval.answering import Answers, Line, answers_of
from runtime.memory.facts.retrieval.once import observed, once
from runtime.memory.facts.retrieval.parts import ALL, MODES, Found, Mode, Parts
from runtime.memory.facts.retrieval.passages import Passage, forget
from runtime.memory.facts.retrieval.searching import Retrieval, Scope, retrieval_of

__all__ = [
    "ALL",
    "MODES",
    "Answers",
    "Found",
    "Line",
    "Mode",
    "Parts",
    "Passage",
    "Retrieval",
    "Scope",
    "answers_of",
    "forget",
    "observed",
    "once",
    "retrieval_of",
]
