"""What is measured of a row for a question: BM25 at two widths, cosines, who, when, and how it is said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from runtime.memory.embed.threads import one_thread
from runtime.memory.facts.retrieval.index import Index
from runtime.memory.facts.retrieval.language import LONGEST, words
from runtime.memory.facts.retrieval.parts import Parts
from runtime.memory.facts.retrieval.passages import Meaning, meaning_of
from runtime.memory.facts.retrieval.rows import REACH, Columns
from runtime.memory.facts.retrieval.times import Span, likely
from runtime.text.inflection import regular_stem as stem

K1, B = 0.9, 0.4
"""Of BM25. A turn is short: its length says little."""
WIDTHS = {"word_before": (-1, 0), "word_around": tuple(range(-REACH, REACH + 1))}
"""The rows, by their distance in turns, over which BM25 counts."""
OWN = "own "
"""What of a wide count the row has by itself."""
SECOND = 0.3
"""The weight of the first of several speakers that are named."""
RAW = ("cosine", "coverage", "alike")
"""How like a row is, whatever other rows are: of its vector, its words, its words' states."""
TELLS_LITTLE = 0.15
"""The weight of a dull word among the states, if a question has no others."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question as every row is asked it."""

    text: str
    terms: tuple[str, ...]
    speakers: Mapping[int, float]  # by their numbers
    spans: tuple[Span, ...]
    wants_time: bool
    meant: Meaning | None


def question_of(index: Index, text: str, parts: Parts, *, now: date | None = None, who: str = "") -> Question:
    """What a question asks for; `who` asks it, and is meant by "I"."""
    speakers, language = index.rows.speakers, index.language
    text = text[:LONGEST]
    named = _named(text, speakers, language.nobody) if parts.speaker else {}
    if parts.speaker and not named and who and language.of_itself(text):
        number = speakers.get(who.strip().casefold())
        named = {number: 1.0} if number else {}
    of_names = {stem(word) for name, number in speakers.items() if number in named for word in words(name)}
    terms = language.question(text)
    telling = [term for term in terms if term not in of_names] or terms
    today = now.toordinal() if now else int(index.columns["day"].max(initial=0))
    wants = index.embedder is not None and (parts.meaning or parts.late)
    return Question(
        text=text,
        terms=tuple(telling),
        speakers=named,
        spans=index.times.spans(text, today) if parts.time else (),
        wants_time=language.wants_time(text),
        meant=meaning_of(index.embedder, language, text) if wants and index.embedder else None,
    )


def _named(text: str, speakers: Mapping[str, int], nobody: frozenset[str]) -> dict[int, float]:
    """Which speakers are named: one alone counts fully, of several the first a little."""
    low = text.casefold()
    asked = set(words(low))
    found: list[tuple[int, int]] = []
    for name, number in speakers.items():
        parts = words(name)
        if not parts or name in nobody or not (parts[0] in asked or name in asked):
            continue
        if hit := re.search(rf"(?<!\w){re.escape(parts[0])}(?!\w)", low):
            found.append((hit.start(), number))
    found.sort()
    if len(found) == 1:
        return {found[0][1]: 1.0}
    return {number: SECOND if at == 0 else 0.0 for at, (_, number) in enumerate(found)}


def features(index: Index, question: Question, parts: Parts, allowed: Any = None) -> dict[str, Any]:
    """By name, a value for each row, as a share of the best `allowed` (or living) row but for `RAW` ones.

    `closely` measures the best of these rows again.
    """
    columns = index.columns
    zero = np.zeros(columns.count, np.float32)
    among = np.flatnonzero(columns.alive if allowed is None else allowed)
    found = _by_words(index, question.terms, parts, among)
    if parts.meaning and question.meant is not None and columns.vectors is not None:
        with one_thread():
            found["cosine"] = columns.vectors @ question.meant.whole
            found["meaning"] = columns.shares(found["cosine"], among)
    if question.speakers:
        share = np.zeros(len(index.rows.speakers), np.float32)
        for number, value in question.speakers.items():
            share[number] = value
        found["speaker"] = share[columns["who"]]
    if question.spans:
        found |= _by_time(columns, question.spans)
    if parts.names:
        asked = set(words(question.text))
        found["names"] = zero.copy()
        for name, rows in index.rows.named.items():
            if asked.issuperset(name.split()):
                found["names"][rows] = 1.0
    if parts.when:
        found["when"] = columns["told"].astype(np.float32) if question.wants_time else zero
    if parts.form:
        found["asks"] = columns["asks"].astype(np.float32)
        found["first_person"] = columns["first_person"].astype(np.float32)
        found["length"] = np.log1p(columns["length"])
    return found


def _by_words(index: Index, terms: Sequence[str], parts: Parts, among: Any) -> dict[str, Any]:
    """BM25 of the row with the one before, with those around; `coverage`: the share of the question."""
    columns = index.columns
    count = columns.count
    widths = {name: steps if parts.neighbours else (0,) for name, steps in WIDTHS.items() if parts.words}
    found = {name: np.zeros(count, np.float32) for name in widths}
    found |= {OWN + name: np.zeros(count, np.float32) for name in widths}
    coverage, most = np.zeros(count, np.float32), 0.0

    def wide(own: Any, steps: Sequence[int]) -> Any:
        """The sum over a row and its neighbours; `own` has a zero behind the last row, for nobody."""
        return sum((own[columns.near[step]] for step in steps if step), own[:-1])

    length = np.append(columns["length"] * columns.alive, np.float32(0))
    norms: dict[str, Any] = {}
    for name, steps in widths.items():
        total = wide(length, steps)
        norms[name] = K1 * (1 - B + B * total / max(float(total[columns.counted].mean()), 1e-6)) + 1e-9
    for term in terms:
        rows, counts = index.counts(term)
        living = columns.alive[rows]
        rows, counts = rows[living], counts[living]
        worth = float(np.log(1 + len(index.at) / (1 + len(rows))))
        most += worth
        if not len(rows):
            continue
        coverage[rows] += worth
        tf = np.zeros(count + 1, np.float32)
        tf[rows] = counts
        for name, steps in widths.items():
            total = wide(tf, steps)
            idf = _idf(total[columns.counted])
            found[name] += idf * total / (total + norms[name])
            found[OWN + name] += idf * tf[:-1] / (tf[:-1] + norms[name])
    for name in widths:
        best = columns.bests(found[name], among)
        for each in (name, OWN + name):
            found[each] /= best
    return {**found, "coverage": coverage / max(most, 1e-6)}


def _idf(counts: Any) -> float:
    having = int((counts > 0).sum())
    return float(np.log(1 + (len(counts) - having + 0.5) / (having + 0.5)))


def _by_time(columns: Columns, spans: Sequence[Span]) -> dict[str, Any]:
    """Whether a row was said in these days or soon after, and whether it mentions them."""
    days, which = np.unique(columns["day"], return_inverse=True)
    of_day = [max(likely(span, day) for span in spans) for day in days.tolist()]
    spoken = np.zeros(columns.count, np.float32)
    first, last, rows = columns.spans.T
    for span in spans:
        both = np.minimum(last, span.last) - np.maximum(first, span.first) + 1
        np.maximum.at(spoken, rows, np.maximum(both / (last - first + 1), 0).astype(np.float32))
    return {"time": np.array(of_day, np.float32)[which], "spoken": spoken}


def closely(index: Index, question: Question, rows: Any, parts: Parts) -> dict[str, Any]:
    """For each of these rows what only its vectors tell, together with its neighbours in the same thread."""
    found: dict[str, Any] = {}
    if question.meant is None or not len(rows):
        return found
    if parts.meaning and parts.neighbours and index.columns.vectors is not None:
        found["meaning"] = _meaning(index, question.meant, rows)
    if parts.late:
        found |= _late(index, question, rows, parts)
    return found


def _meaning(index: Index, meant: Meaning, rows: Any) -> Any:
    """The cosine of the question and the sum of a row and of those before and after it."""
    columns = index.columns
    beside = np.stack([rows, *(columns.near[step][rows] for step in (-1, 1))])
    known = np.flatnonzero(np.bincount(beside[beside < columns.count]))  # np.unique imports numpy.ma
    vectors = np.concatenate([columns.vectors[known], np.zeros((1, len(meant.whole)), np.float32)])
    around = vectors[np.where(beside < columns.count, np.searchsorted(known, beside), len(known))].sum(axis=0)
    cosines = np.einsum("ij,j->i", around, meant.whole)  # equal rows get equal values, other than by @
    return _shares(columns, rows, cosines / np.maximum(np.linalg.norm(around, axis=1), 1e-9))


def _late(index: Index, question: Question, rows: Any, parts: Parts) -> dict[str, Any]:
    """How much a row, or it and the one before it, has words like those of the question, by their states."""
    columns, meant = index.columns, question.meant
    nothing = np.zeros(len(rows), np.float32)
    found = {"late": nothing, "late_before": nothing, "alike": nothing}
    if meant is None or not len(meant.states):
        return found
    before = columns.near[-1][rows] if parts.neighbours else np.full(len(rows), columns.count)
    known = np.flatnonzero(np.bincount(np.append(rows, before[before < columns.count])))
    means = index.meanings(known.tolist())
    there = [at for at, row in enumerate(known.tolist()) if row in means and len(means[row].states)]
    weights = np.array([_weight(index, question, word) for word in meant.words], np.float32)
    if not there or not weights.sum():
        return found
    states = [means[int(known[at])].states for at in there]
    starts = np.cumsum([0, *(len(each) for each in states[:-1])])
    table = np.concatenate(states).astype(np.float32)
    table /= np.maximum(np.sqrt(np.einsum("ij,ij->i", table, table))[:, None], 1e-9)
    best = np.zeros((len(known) + 1, len(weights)), np.float32)  # the last one for nobody
    with one_thread():
        best[there] = np.maximum.reduceat(table @ meant.states.T, starts, axis=0)
    own = best[np.searchsorted(known, rows)]
    both = np.maximum(own, best[np.where(before < columns.count, np.searchsorted(known, before), len(known))])
    alike, with_before = ((values * weights).sum(axis=1) / weights.sum() for values in (own, both))
    return {
        "late": _shares(columns, rows, alike),
        "late_before": _shares(columns, rows, with_before),
        "alike": alike,
    }


def _shares(columns: Columns, rows: Any, values: Any) -> Any:
    """The values of some rows as shares of the best of their kind."""
    every = np.zeros(columns.count, np.float32)
    every[rows] = values
    return columns.shares(every, rows)[rows]


def _weight(index: Index, question: Question, word: str) -> float:
    """How much a word tells: by how few rows have it; the name of who speaks tells half."""
    if word in index.language.dull:
        return TELLS_LITTLE
    term = stem(word)
    if question.speakers and term not in question.terms:
        return 0.5
    rows, _ = index.counts(term)
    counted = index.columns.counted
    count, having = int(counted.sum()), int(counted[rows].sum())
    idf = np.log(1 + (count - having + 0.5) / (having + 0.5))
    return float(2 * idf / np.log(1 + count)) if count else 0.0
