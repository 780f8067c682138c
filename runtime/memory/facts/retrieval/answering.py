"""Answers to a question: what holds at the asked time, the best first, or that nothing is known.

Retrieval finds records that are near. Here they are ranked again by the kind of answer and the time that the
question asks for. What a later record replaces passes its rank on to it, whether memory knows that (`superseded`) or
the later one only speaks of the same. Below a calibrated score the answer is that nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import exp, log
from typing import Any

import numpy as np

from runtime.memory.facts.language import language_of as facts_language
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.facts.retrieval.holding import Held, Standing, standings
from runtime.memory.facts.retrieval.language import shipped
from runtime.memory.facts.retrieval.once import once
from runtime.memory.facts.retrieval.parts import Found, Mode
from runtime.memory.facts.retrieval.questions import YES_NO, Wanted
from runtime.memory.facts.retrieval.searching import Retrieval, Scope

NOTHING = "I know nothing about that"
WIDE = 60
"""Records that are ranked again."""
LIKE = 0.3
"""The least likeness of a line that is shown as an answer or as "perhaps"."""
BESIDE = 0.01
"""The least score, relative to the best, of one that only an edge leads to."""
PERHAPS = 2
"""Lines that are shown when nothing is known."""


@dataclass(frozen=True)
class Weights:
    """What counts how much for an embedder; fitted on diaries (`python -m bench diary`)."""

    cosine: float
    alike: float
    word: float
    fits: float
    before: float = 3.0  # for a past time: it was said by then
    doubtful: float = 1.0  # against wishes, rumours and exceptions
    later: float = 0.3  # what a later record that speaks of the same has over an earlier one
    same: float = 0.7  # from which nearness on two records speak of the same
    shared: float = 0.4  # what a rare word in common adds to it
    recent: float = 1.0
    sure: tuple[float, float] = (0.0, 1.0)


BY_EMBEDDER: Mapping[str, Weights] = {
    "minilm": Weights(cosine=6.0, alike=5.0, word=0.3, fits=1.0),
    "lexical": Weights(cosine=3.8, alike=0.0, word=3.8, fits=1.9),
}


@dataclass(frozen=True)
class Line:
    """A record that answers; `line` is what a person reads."""

    record: Held
    hit: Found
    standing: Standing
    sure: float  # the calibrated probability that it answers the question
    source: str = ""

    @property
    def text(self) -> str:
        """What was said."""
        return self.record.text


@dataclass(frozen=True)
class Answers:
    """The lines that answer a question, the best first; if it is not `known`, the nearest."""

    lines: Sequence[Line]
    known: bool
    wanted: Wanted


@dataclass
class _Candidate:
    hit: Found
    record: Held
    standing: Standing
    row: int
    base: float  # by itself
    score: float  # with what it inherits
    fits: bool


def weights_of(embedder: str) -> Weights:
    """The weights for an embedder of this name; those of minilm if it is unknown."""
    return BY_EMBEDDER.get(embedder.partition("-")[0], BY_EMBEDDER["minilm"])


def answers_of(
    retrieval: Retrieval,
    query: str,
    limit: int,
    *,
    mode: Mode = "standard",
    scope: Scope | None = None,
    who: str = "",
    now: datetime | None = None,
) -> Answers:
    """What answers a question that `who` asks at `now`. Raises `UsageError`."""
    now = now or datetime.now(UTC)
    hits = retrieval.search(query, max(WIDE, limit), mode=mode, scope=scope, who=who, now=now)
    today = now.toordinal()
    wanted = retrieval.questions.read(query, today)
    found = _candidates(retrieval, hits, wanted, today)
    weights = weights_of(retrieval.embedder.name if retrieval.embedder is not None else "lexical")
    for each in found:
        each.base = each.score = _base(each, wanted, weights, today)
    if not wanted.past:
        _pass_on(retrieval, found, weights, today)
    shown = [each for each in found if _shown(each, wanted, today)]
    shown.sort(key=lambda each: (-round(each.score, 6), each.hit.id))
    best = max((hit.score for hit in hits), default=0.0)
    fitting = [each for each in shown if _near(each, best)]
    made_of = {each.hit.id: each.record.evidence for each in fitting if isinstance(each.record, Memory)}
    by_id = {each.hit.id: each for each in fitting}
    kept = [by_id[hit.id] for hit in once([each.hit for each in fitting], made_of)]
    lines = [
        Line(each.record, each.hit, each.standing, _sure(each, weights), each.standing.shown(today))
        for each in kept[:limit]
    ]
    known = bool(lines) and lines[0].sure >= 0.5
    return Answers(lines if known else lines[:PERHAPS], known, wanted)


def _candidates(retrieval: Retrieval, hits: Sequence[Found], wanted: Wanted, today: int) -> list[_Candidate]:
    shelf, ids = retrieval.shelf, [hit.id for hit in hits]
    records: dict[str, Held] = {each.id: each for each in shelf.pick(Observation, ids)}
    records |= {each.id: each for each in shelf.pick(Memory, ids)}
    known = standings(shelf, records.values(), facts_language(retrieval.systems or shipped()))
    return [
        _Candidate(
            hit,
            records[hit.id],
            known[hit.id],
            retrieval.index.at.get((hit.kind, hit.id), -1),
            0.0,
            0.0,
            retrieval.questions.shows(wanted.kind, hit.text),
        )
        for hit in hits
        if hit.id in records
    ]


def _base(each: _Candidate, wanted: Wanted, weights: Weights, today: int) -> float:
    """The rank of a record by itself."""
    raw, standing = each.hit.raw, each.standing
    score = weights.cosine * raw.get("cosine", 0.0) + weights.alike * raw.get("alike", 0.0)
    score += weights.word * each.hit.likeness if not raw else weights.word * raw.get("coverage", 0.0)
    if wanted.kind not in ("", YES_NO) and each.fits:
        score += weights.fits
    if wanted.past:
        last = max((span.last for span in wanted.spans), default=today)
        return score + weights.before * (standing.first <= last)
    if standing.modality in ("may", "wants", "example") or standing.temporary:
        score -= weights.doubtful
    return score - weights.recent * (1 - exp(-max(0, today - standing.first) / 120))


def _pass_on(retrieval: Retrieval, found: Sequence[_Candidate], weights: Weights, today: int) -> None:
    """A later record that speaks of the same is at least as good as the earlier one."""
    vectors, by_id = retrieval.index.columns.vectors, {each.hit.id: each for each in found}
    ordered = sorted(found, key=lambda each: (each.standing.said, each.hit.id))
    terms = [set(retrieval.index.language.terms(each.hit.text)) for each in ordered]
    places = [each.row for each in ordered]
    near = None
    if vectors is not None and ordered:
        rows = np.stack([vectors[place] for place in places])
        near = rows @ rows.T
    any_fits = any(each.fits for each in ordered)
    for at, later in enumerate(ordered):
        if later.standing.modality in ("may", "wants", "example") or later.standing.temporary:
            continue
        if any_fits and not later.fits:
            continue
        for before in range(at):
            earlier = ordered[before]
            if earlier.standing.said == later.standing.said or earlier.hit.text == later.hit.text:
                continue
            alike = float(near[at, before]) if near is not None else 0.0
            common = terms[at] & terms[before]
            alike += weights.shared * max((_rare(retrieval, term) for term in common), default=0.0)
            if alike >= weights.same and earlier.score + weights.later > later.score:
                later.score = earlier.score + weights.later
    for each in found:
        successor = by_id.get(each.standing.successor)
        if successor is not None and successor.score < each.score + weights.later:
            successor.score = each.score + weights.later


def _rare(retrieval: Retrieval, term: str) -> float:
    """How rare a word is, 0 to 1."""
    counted = retrieval.index.columns.counted
    rows, _ = retrieval.index.counts(term)
    count, having = int(counted.sum()), int(counted[rows].sum())
    return log(1 + (count - having + 0.5) / (having + 0.5)) / log(1 + count) if count > 1 else 0.0


def _shown(each: _Candidate, wanted: Wanted, today: int) -> bool:
    """Whether a record may be shown: what is over only if the past is asked for."""
    return wanted.past or not each.standing.over(today)


def _near(each: _Candidate, best: float) -> bool:
    return each.hit.likeness >= LIKE or each.score > each.base or ("spread" in each.hit.parts and each.hit.score >= BESIDE * best)


def _sure(each: _Candidate, weights: Weights) -> float:
    return 1.0
