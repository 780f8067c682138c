"""A question asked in other ways: by the ladder, or by rules; and what several askings agree on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runtime.memory.semantic.retrieval.language import LONGEST, Language, any_of, stem, words
from runtime.memory.semantic.retrieval.parts import Found, Parts
from runtime.memory.semantic.retrieval.times import SLACK, Span

if TYPE_CHECKING:
    from runtime.memory.dream.stage import Ask
    from runtime.memory.semantic.retrieval.index import Index
    from runtime.memory.semantic.retrieval.scoring import Question

REPHRASINGS = 3
PROMPT = "rephrase"
"""A file of `system/memory/`."""
FEEDBACK_HITS, FEEDBACK_TERMS = 3, 5
"""Of what is found first: how many records lend how many of their words."""
SURE = 0.2
"""The chance from which what is found first lends words."""


def rephrased(
    query: str, ask: Ask | None, language: Language, first: Callable[[], Sequence[Found]]
) -> list[str]:
    """The question and up to three others: those of a model where one replies, else by rules."""
    told = _asked(query, ask) if ask is not None else []
    ways = told or [_keywords(query, language), _statement(query, language), _fed(query, language, first())]
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
    told = re.sub(r"\?\s*$", "", query[:LONGEST].strip())
    asks = any_of([*language.asks_time, *language.question_words])
    told = re.sub(rf"^(?:{asks})\b\s*", "", told, flags=re.IGNORECASE)
    return re.sub(rf"^(?:{any_of(language.auxiliaries)})\b\s*", "", told, flags=re.IGNORECASE)


def _fed(query: str, language: Language, first: Sequence[Found]) -> str:
    """With the words that what is found first has most of, and the question has not."""
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
    """By how many rankings have it, then by its places in them; a record is told with its best score."""
    votes: dict[tuple[str, str], int] = {}
    points: dict[tuple[str, str], int] = {}
    best: dict[tuple[str, str], Found] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking):
            key = (found.kind, found.id)
            votes[key] = votes.get(key, 0) + 1
            points[key] = points.get(key, 0) + len(ranking) - rank
            if key not in best or found.score > best[key].score:
                best[key] = found
    order = sorted(best, key=lambda key: (-votes[key], -points[key], -best[key].score, key))[:limit]
    return [
        replace(best[key], why=f"{votes[key]} of {len(rankings)} ways of asking; {best[key].why}")
        for key in order
    ]


def with_event(index: Index, question: Question, parts: Parts) -> Question:
    """Before or after what is no date: the days around the record that is found for it.

    A memory that leads to observations is none: they may be of several days.
    """
    from runtime.memory.semantic.retrieval.scoring import features

    hit = re.search(
        r"\b(before|after|during|since)\s+(?:the|my|his|her|their|our|that|a|an)\s+(.+?)\W*$",
        question.text,
        re.I,
    )
    if hit is None or question.spans or not parts.time:
        return question
    terms = tuple(index.language.terms(hit[2]))
    if not terms:
        return question
    told = features(
        index, replace(question, terms=terms, spans=(), meant=None), parts.without("form", "when", "names")
    )
    columns = index.columns
    total = sum(told[name] for name in ("word", "word_around") if name in told)
    if isinstance(total, int) or float(total.max(initial=0)) <= 0:
        return question
    row = int((total * (columns.day > 0) * index.apart).argmax())
    day = index.rows[row].day
    if not day or not _all_there(index, row, terms):
        return question
    way = hit[1].casefold()
    span = {
        "before": Span(max(1, day - SLACK), day),
        "after": Span(day, day + SLACK),
        "since": Span(day, max(day, int(columns.day.max()))),
        "during": Span(max(1, day - 7), day + 7),
    }[way]
    return replace(question, spans=(span,))


def _all_there(index: Index, row: int, terms: Sequence[str]) -> bool:
    """Whether a row has every word of an event: else it is about something else."""
    return set(terms) <= set(index.language.terms(index.rows[row].text))
