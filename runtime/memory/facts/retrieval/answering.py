"""Answers to a question: what holds at the asked time, the best first, or that nothing is known.

Retrieval finds records that are near. Here they are ranked again by the kind of answer and the time that the
question asks for. What is replaced passes its rank on to the later record, whether memory knows that
(`superseded`) or the later one only speaks of the same. Below a calibrated score nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import nlargest
from math import exp, log
from operator import mul

import numpy as np

from runtime.memory.facts.language import language_of as facts_language
from runtime.memory.facts.records import PERSON, Memory, Observation
from runtime.memory.facts.retrieval.holding import Held, Standing, standings
from runtime.memory.facts.retrieval.identity import answers_literally, is_of_another
from runtime.memory.facts.retrieval.language import shipped
from runtime.memory.facts.retrieval.once import once
from runtime.memory.facts.retrieval.parts import Found, Mode
from runtime.memory.facts.retrieval.passages import meaning_of
from runtime.memory.facts.retrieval.questions import YES_NO, Wanted
from runtime.memory.facts.retrieval.searching import Retrieval, Scope
from runtime.memory.facts.retrieval.times import Span
from runtime.text.inflection import regular_stem as stem

WIDE = 60
"""Records that are ranked again."""
BESIDE = 0.01
"""The least score, relative to the best, of one that only an edge leads to."""
DOUBTFUL = ("may", "wants", "example")
"""Modalities of what is not so."""
RIVAL = 0.5
"""The share from which on a later record may be about the same, so that no line answers alone."""
EVENT = 0.6
"""The share of the words of an event that a record must have to tell its day."""
PAYING = 2.5
"""How much more the kind counts if a question asks who pays: few lines are about money."""
HEIRS = 2
"""Later records that take over the rank of one: most others that are near speak of something else."""
OWN = 0.1
"""How much a later record's own rank counts, beside its nearness, for being one of them."""
FOLLOWED = 2
"""The best records by themselves, of which is sought what was said later with a rare word of theirs."""
FOLLOWERS = 5
"""Records that are looked at for each."""
RARE = 0.6
"""How rare such a word is at least."""
PERHAPS = 2
"""Lines that are shown when nothing is known."""
LIKE = 0.3
"""The least likeness of a line that is shown beside an answer."""


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
    lost: float = 0.05  # the share of its own lower nearness that such a record loses
    recent: float = 2.5  # against old records
    like: float = 0.3  # the least likeness of an answer, of a line that is shown as "perhaps" or to a reader
    sure: tuple[float, float, float] = (9.0, 0.0, 0.0)  # of `_probability`: a bias, and the two measures


BY_EMBEDDER: Mapping[str, Weights] = {
    "minilm": Weights(6.0, 5.0, 0.3, 1.0, like=0.2, sure=(-1.4, 1.0, 3.7)),
    "lexical": Weights(3.8, 0.0, 3.8, 2.5, sure=(-0.7, 0.8, 3.7)),
}


@dataclass(frozen=True)
class Line:
    """A record that answers; `line` is what a person reads."""

    record: Held
    hit: Found
    standing: Standing
    sure: float  # the calibrated probability that it answers the question
    source: str = ""
    likeness: float = 0.0  # to the question: its own, or that of the record whose rank it has
    share: float = 0.0  # of what retrieval found, likewise

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
    near: Sequence[Line] = ()  # also those that are not shown, for one who reads
    certain: bool = False  # the first line can stand alone


@dataclass
class _Candidate:
    hit: Found
    record: Held
    standing: Standing
    row: int
    base: float  # by itself
    score: float  # with what it inherits
    fits: bool
    cosine: float = 0.0
    said: float = 0.0  # the share of the question's words that it has, or the like
    least: float = 0.0  # how alike the word is that it has least
    named: bool = True  # it has the names that the question has
    another: bool = False  # it has another name, number or identifier in the place of the question's
    origin: str = ""  # the id of the record whose rank it has


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
    wanted = _dated(retrieval, retrieval.questions.read(query, today), query, now)
    found = _with_successors(retrieval, _candidates(retrieval, hits, wanted), wanted)
    weights = weights_of(retrieval.embedder.name if retrieval.embedder is not None else "lexical")
    _rank(retrieval, query, wanted, weights, found, today)
    followers = _followers(retrieval, found, wanted) if wanted.asks else []
    _rank(retrieval, query, wanted, weights, followers, today)
    found += followers
    if not wanted.event:
        at = wanted.last or today
        _pass_on(retrieval, [each for each in found if each.standing.first <= at], wanted, weights)
    if _ROLE.search(query) and not any(_literal(retrieval, query, each, today) for each in found):
        for each in found:
            each.another = False
    everything = {each.hit.id: each for each in found}
    best = max((hit.score for hit in hits), default=0.0)

    def origin(each: _Candidate) -> _Candidate:
        """The record whose rank it has: mostly itself."""
        return everything.get(each.origin, each)

    def near(each: _Candidate, least: float) -> bool:
        return any(_near(some, best, least) for some in (each, origin(each)))

    fitting = [each for each in found if _shown(each, wanted, today) and near(each, weights.like)]
    fitting.sort(key=lambda each: (each.another, -round(each.score, 6), each.hit.id))
    made_of = {each.hit.id: each.record.evidence for each in fitting if isinstance(each.record, Memory)}
    kept = [everything[hit.id] for hit in once([each.hit for each in fitting], made_of)]
    lines = [_line(each, origin(each), weights, wanted, today) for each in kept[:limit]]
    known = bool(lines) and (not wanted.asks or lines[0].sure >= 0.5)
    certain = known and _certain(retrieval, query, kept[0], found, wanted, today)
    beside = [line for each, line in zip(kept[1:], lines[1:], strict=False) if near(each, LIKE)]
    return Answers([*lines[:1], *beside] if known else lines[:PERHAPS], known, wanted, lines, certain)


_ROLE = re.compile(r"\b(?:my|our) [a-z]+['’]s\b")
"""Somebody by what they are to the speaker: another line may have their name instead."""


def _literal(retrieval: Retrieval, query: str, each: _Candidate, today: int) -> bool:
    """Whether a record that holds is literally what is asked."""
    held = not each.standing.over(today)
    questions = retrieval.questions
    return held and answers_literally(query, each.hit.text, questions.empty, questions.language.relations)


def _certain(
    retrieval: Retrieval,
    query: str,
    first: _Candidate,
    found: Sequence[_Candidate],
    wanted: Wanted,
    today: int,
) -> bool:
    """Whether a record answers alone: a person said it, and it is literally what the question asks for now.

    Nothing that was said later may be about the same: what replaces a fact is often told in other words.
    """
    if not (wanted.asks and wanted.about) or wanted.past or wanted.kind == YES_NO:
        return False
    standing, timed = first.standing, wanted.kind == "time"
    doubtful = standing.modality != "is" or standing.temporary
    ahead = any(
        span.first > today for span in retrieval.questions.times.spans(first.hit.text, standing.first)
    )
    if PERSON not in (first.record.source, first.record.who) or (not timed and (doubtful or ahead)):
        return False
    if not first.fits or not _literal(retrieval, query, first, today):
        return False
    return not any(
        each.hit.text != first.hit.text
        and not each.another
        and (
            (each.said > RIVAL and each.standing.said >= standing.said)
            or _literal(retrieval, query, each, today)
        )
        for each in found
    )


_EVENT = re.compile(
    r"\b(?P<way>before|after|until|since) (?P<what>(?:the|my|our|his|her|their|we|i|he|she|they) .+?)[?.!]*$",
    re.IGNORECASE,
)
"""Something that happened, by which a question tells its time."""


def _dated(retrieval: Retrieval, wanted: Wanted, query: str, now: datetime) -> Wanted:
    """With the days that "before the move" means, if memory has the move; else as it was."""
    hit = _EVENT.search(query)
    if hit is None or wanted.spans:
        return wanted
    event = retrieval.questions.read(hit["what"], now.toordinal())
    found = _candidates(retrieval, retrieval.search(hit["what"], PERHAPS, now=now), event)
    _compare_words(retrieval, hit["what"], event, found)
    best = max(found, key=lambda each: each.said, default=None)
    if best is None or best.said < EVENT:
        return wanted
    day = best.standing.first
    spans = retrieval.questions.times.spans(best.hit.text, day)
    day = spans[0].first if spans else day
    span = Span(1, day - 1) if hit["way"].casefold() in ("before", "until") else Span(day, now.toordinal())
    return replace(wanted, spans=(span,), past=span.last < now.toordinal())


def _candidates(retrieval: Retrieval, hits: Sequence[Found], wanted: Wanted) -> list[_Candidate]:
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
            retrieval.questions.answers(wanted, hit.text, records[hit.id].names),
        )
        for hit in hits
        if hit.id in records
    ]


def _with_successors(retrieval: Retrieval, found: list[_Candidate], wanted: Wanted) -> list[_Candidate]:
    """Also what replaced them, which may be worded in another way."""
    known = {each.hit.id for each in found}
    while missing := {each.standing.successor for each in found} - known - {""}:
        known |= missing
        hits = [
            Found(each.id, Memory.KIND, each.text, 0.0, {}, "replaces what has the same words")
            for each in retrieval.shelf.pick(Memory, missing)
        ]
        found = [*found, *_candidates(retrieval, hits, wanted)]
    return found


def _followers(retrieval: Retrieval, found: Sequence[_Candidate], wanted: Wanted) -> list[_Candidate]:
    """What was said later than the best records with a rare word of theirs, and none of the question's.

    "We have left Hetzner" replaces "the servers are at Hetzner", and does not speak of servers.
    """
    known, terms = {each.hit.id for each in found}, retrieval.index.language.terms
    hits: dict[str, Found] = {}
    later: dict[str, str] = {}
    for best in sorted(found, key=lambda each: -each.base)[:FOLLOWED]:
        rare = {term for term in terms(best.hit.text) if _rare(retrieval, term) >= RARE}
        for hit in retrieval.search(best.hit.text, FOLLOWERS):
            if hit.id not in known and not rare.isdisjoint(terms(hit.text)):
                hits[hit.id], later[hit.id] = hit, best.standing.said
    return [
        each
        for each in _candidates(retrieval, list(hits.values()), wanted)
        if each.standing.said > later[each.hit.id]
    ]


def _rank(
    retrieval: Retrieval,
    query: str,
    wanted: Wanted,
    weights: Weights,
    found: Sequence[_Candidate],
    today: int,
) -> None:
    """Measure records by themselves."""
    _compare_words(retrieval, query, wanted, found)
    for each in found:
        each.base = each.score = _base(each, wanted, weights, today)


def _base(each: _Candidate, wanted: Wanted, weights: Weights, today: int) -> float:
    """The rank of a record by itself."""
    raw, standing = each.hit.raw, each.standing
    score = weights.cosine * each.cosine + weights.alike * raw.get("alike", each.said)
    score += weights.word * raw.get("coverage", 0.0)
    if wanted.kind not in ("", YES_NO) and each.fits:
        score += weights.fits * (PAYING if wanted.pays else 1.0)
    if wanted.event and wanted.spans:
        return score + weights.before * wanted.covers(standing.first, standing.first)
    if wanted.spans:
        score += weights.before * (standing.first <= wanted.last)
    elif standing.first > today and wanted.kind != "time":
        score -= weights.doubtful  # it does not hold yet
    if wanted.past:
        return score
    if standing.modality in DOUBTFUL or standing.temporary:
        score -= weights.doubtful
    return score - weights.recent * (1 - exp(-max(0, today - standing.first) / 120))


def _pass_on(retrieval: Retrieval, found: Sequence[_Candidate], wanted: Wanted, weights: Weights) -> None:
    """The later records that are nearest to an earlier one are at least as good.

    Where the past is asked for without a time ("originally"), it is the other way round.
    """
    vectors, by_id = retrieval.index.columns.vectors, {each.hit.id: each for each in found}
    back = wanted.past and not wanted.spans
    fitting = [each for each in found if each.fits] or found
    ordered = sorted(fitting, key=lambda each: (each.standing.said, each.hit.id), reverse=back)
    terms = [set(retrieval.index.language.terms(each.hit.text)) for each in ordered]
    places = [each.row for each in ordered]
    rarity = {term: _rare(retrieval, term) for term in set[str]().union(*terms)}
    near = None
    if vectors is not None and ordered:
        rows = np.stack([vectors[place] for place in places])
        near = rows @ rows.T
    for before, earlier in enumerate(ordered):
        heirs: list[tuple[float, int]] = []
        for at in range(before + 1, len(ordered)):
            later = ordered[at]
            same = earlier.standing.said == later.standing.said or earlier.hit.text == later.hit.text
            if same or later.standing.modality in DOUBTFUL or later.standing.temporary:
                continue
            alike = float(near[at, before]) if near is not None else 0.0
            alike += weights.shared * max((rarity[term] for term in terms[at] & terms[before]), default=0.0)
            if alike >= weights.same:
                heirs.append((alike + OWN * later.base, at))
        for _, at in nlargest(HEIRS, heirs):
            later = ordered[at]
            passed = earlier.score + weights.later - weights.lost * max(0.0, earlier.base - later.base)
            if passed > later.score:
                later.score, later.origin = passed, earlier.origin or earlier.hit.id
    for each in [] if wanted.past else found:
        successor = by_id.get(each.standing.successor)
        if successor is not None and successor.score < each.score + weights.later:
            successor.score, successor.origin = each.score + weights.later, each.origin or each.hit.id


def _rare(retrieval: Retrieval, term: str) -> float:
    """How rare a word is, 0 to 1."""
    counted = retrieval.index.columns.counted
    rows, _ = retrieval.index.counts(term)
    count, having = int(counted.sum()), int(counted[rows].sum())
    return log(1 + (count - having + 0.5) / (having + 0.5)) / log(1 + count) if count > 1 else 0.0


def _shown(each: _Candidate, wanted: Wanted, today: int) -> bool:
    """Whether a record may be shown: what is over only if the past is asked for, and held then."""
    if not each.standing.over(today):
        return True
    first = min((span.first for span in wanted.spans), default=0)
    return wanted.past and not each.standing.over(first)


def _near(each: _Candidate, best: float, least: float) -> bool:
    joined = "spread" in each.hit.parts and each.hit.score >= BESIDE * best
    return joined or each.hit.likeness >= least


def _compare_words(retrieval: Retrieval, query: str, wanted: Wanted, found: Sequence[_Candidate]) -> None:
    """How much of what the question is about each record has, word by word."""
    index, embedder = retrieval.index, retrieval.embedder
    meant = meaning_of(embedder, index.language, query) if embedder is not None else None
    means = index.meanings([each.row for each in found if each.row >= 0]) if meant is not None else {}
    light = index.language.light
    about = [word for word in wanted.about if word not in light] or list(wanted.about)
    places = {word: at for at, word in enumerate(meant.words)} if meant is not None else {}
    rare = {word: 0.2 + _rare(retrieval, stem(word)) for word in about}
    vectors = index.columns.vectors
    for each in found:
        if meant is not None and vectors is not None and each.row >= 0:
            each.cosine = float(vectors[each.row] @ meant.whole)
        terms = set(index.language.terms(each.hit.text))
        states = means[each.row].states.astype(np.float32) if each.row in means else None
        if states is not None and len(states):
            states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-9)
        have: dict[str, float] = {}
        for word in about:
            near = 0.0
            if states is not None and len(states) and meant is not None and word in places:
                near = float((states @ meant.states[places[word]]).max())
            have[word] = 1.0 if stem(word) in terms else 0.0 if word in wanted.names else max(0.0, near)
        total = sum(rare.values())
        each.said = sum(rare[word] * value for word, value in have.items()) / total if total else 0.0
        each.least = min(have.values(), default=0.0)
        each.another = not wanted.spans and is_of_another(
            query, each.hit.text, retrieval.questions.empty, retrieval.questions.language.relations
        )
        each.named = all(have[word] == 1.0 for word in wanted.names if word in have)


def _line(each: _Candidate, origin: _Candidate, weights: Weights, wanted: Wanted, today: int) -> Line:
    """The line of a record; `origin` is the one whose rank it has."""
    fits = 0.5 if wanted.kind in ("", YES_NO) else float(each.fits)
    measures = max(each.least, origin.least), fits * max(each.said, origin.said)
    about_it = not each.another and (each.named or origin.named)  # else it is about something else
    return Line(
        each.record,
        each.hit,
        each.standing,
        _probability(measures, weights) if about_it else 0.0,
        each.standing.shown(today),
        max(each.hit.likeness, origin.hit.likeness),
        max(each.hit.score, origin.hit.score),
    )


def _probability(measures: tuple[float, float], weights: Weights) -> float:
    """The calibrated probability that a record with these measures answers."""
    bias, *factors = weights.sure
    return 1 / (1 + exp(-bias - sum(map(mul, factors, measures))))
