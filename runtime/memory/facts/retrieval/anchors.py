"""Multi-anchor: a question in several wordings, by a model or by rules, and what their results agree on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from runtime.memory.facts.retrieval.language import LONGEST, Language, words
from runtime.memory.facts.retrieval.parts import Found
from runtime.text.inflection import regular_stem as stem
from runtime.text.patterns import any_of

Ask = Callable[[str, Mapping[str, str]], str]
"""Ask a model: a prompt of `system/memory/` and the values of its slots → the reply."""
REPHRASINGS = 3
PROMPT = "rephrase"
"""A file of `system/memory/`."""
FEEDBACK_HITS, FEEDBACK_TERMS = 3, 5
"""The first results that lend words, and how many words."""
SURE = 0.2
"""The score from which a result lends words."""


def rephrased(
    query: str, ask: Ask | None, language: Language, first: Callable[[], Sequence[Found]]
) -> list[str]:
    """The question and up to three other wordings: of a model if one replies, else by rules."""
    asked = _asked(query, ask) if ask is not None else []
    ways = asked or [_keywords(query, language), _statement(query, language), _fed(query, language, first())]
    return list(dict.fromkeys([query, *(way for way in ways if way.strip())]))[: REPHRASINGS + 1]


def _asked(query: str, ask: Ask) -> list[str]:
    reply: Any = None
    with suppress(ValueError, RecursionError):
        reply = json.loads(ask(PROMPT, {"question": query[:LONGEST]}))
    questions = reply.get("questions") if isinstance(reply, Mapping) else None
    if not isinstance(questions, list):
        return []
    return [" ".join(each.split()) for each in questions if isinstance(each, str)][:REPHRASINGS]


def _keywords(query: str, language: Language) -> str:
    return " ".join(word for word in query[:LONGEST].split() if set(words(word)) - language.dull)


def _statement(query: str, language: Language) -> str:
    """The question without the words that make it one: "When did she leave?" is "she leave"."""
    statement = re.sub(r"\?\s*$", "", query[:LONGEST].strip())
    asks = any_of([*language.asks_time, *language.question_words])
    statement = re.sub(rf"^(?:{asks})\b\s*", "", statement, flags=re.IGNORECASE)
    return re.sub(rf"^(?:{any_of(language.auxiliaries)})\b\s*", "", statement, flags=re.IGNORECASE)


def _fed(query: str, language: Language, first: Sequence[Found]) -> str:
    """With words of the first results that the question does not have."""
    known = set(language.terms(query))
    counts: dict[str, float] = {}
    for found in first[:FEEDBACK_HITS]:
        if found.score < SURE:
            continue
        for word in dict.fromkeys(words(found.text)):
            if word not in language.dull and stem(word) not in known and len(word) > 2:
                counts[word] = counts.get(word, 0.0) + found.score
    best = sorted(counts, key=lambda word: (-counts[word], word))[:FEEDBACK_TERMS]
    return f"{query[:LONGEST]} {' '.join(best)}" if best else ""


def borda(rankings: Sequence[Sequence[Found]], limit: int) -> list[Found]:
    """By how many rankings have it, then by its places in them (Borda count); with its best score."""
    hits: dict[tuple[str, str], list[tuple[Found, int]]] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking):
            hits.setdefault((found.kind, found.id), []).append((found, len(ranking) - rank))
    ranked: list[tuple[int, int, float, tuple[str, str], Found]] = []
    for key, votes in hits.items():
        best = max((found for found, _ in votes), key=lambda found: found.score)
        best = replace(best, why=f"{len(votes)} of {len(rankings)} ways of asking; {best.why}")
        ranked.append((-len(votes), -sum(points for _, points in votes), -best.score, key, best))
    return [best for *_, best in sorted(ranked, key=lambda each: each[:4])[:limit]]
