"""Search: measure every record, weigh, look closer at the best, spread along edges, rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from kernel.errors import UsageError
from runtime.memory.embed import Embedder
from runtime.memory.facts.records import Edge
from runtime.memory.facts.retrieval import anchors, ranking
from runtime.memory.facts.retrieval.anchors import Ask
from runtime.memory.facts.retrieval.index import Index
from runtime.memory.facts.retrieval.language import language_of
from runtime.memory.facts.retrieval.parts import (
    ALL,
    FEATURES,
    MODES,
    Found,
    Mode,
    Parts,
    weights_of,
)
from runtime.memory.facts.retrieval.questions import questions_of
from runtime.memory.facts.retrieval.ranking import Ranked
from runtime.memory.facts.retrieval.rows import KINDS, Columns
from runtime.memory.facts.retrieval.scoring import OWN, RAW, Question, closely, features, question_of
from runtime.memory.facts.retrieval.times import day_of
from runtime.memory.store import Shelf

CANDIDATES = 200
"""Rows of each kind whose words' states are compared."""
LEAST_COSINE = 0.15
"""The least cosine of a record without a word of the question."""
NAMES = 0.6
"""The weight of a known name; the conversations that the others are fitted on have none."""


@dataclass(frozen=True)
class Scope:
    """What may be found."""

    kinds: Collection[str] = tuple(KINDS)
    agent: str = ""  # "" for all
    since: str = ""  # ISO 8601, a date or a time
    until: str = ""
    keep: Callable[[Mapping[str, Any]], bool] | None = None  # by a record's fields


@dataclass
class Retrieval:
    """Retrieval on one shelf; it keeps its index between questions."""

    shelf: Shelf
    embedder: Embedder | None
    systems: tuple[Path, ...] = ()
    parts: Parts = ALL
    weights: Mapping[str, float] | None = None  # None: the shipped ones
    index: Index = field(init=False)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self.index = Index(self.shelf, self.embedder, language_of(self.systems))
        self.questions = questions_of(self.systems)

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        mode: Mode = "standard",
        scope: Scope | None = None,
        who: str = "",
        now: datetime | None = None,
        ask: Ask | None = None,
        parts: Parts | None = None,
    ) -> list[Found]:
        """What answers a question, the best first; `who` asks, at `now` (default: the last observation).

        Raises `UsageError`.
        """
        if limit < 1:
            raise UsageError(f"limit: {limit} is not 1 or more")
        if mode not in MODES:
            raise UsageError(f"mode: {mode!r} is not {', '.join(MODES)}")
        with self._lock:
            self.index.refresh()
            parts, allowed = parts or self.parts, self._allowed(scope or Scope())

            def one(text: str, limit: int, mode: Mode = "standard") -> list[Found]:
                if not self.index.at or not any(sign.isalnum() for sign in text):
                    return []
                question = question_of(self.index, text, parts, now=now.date() if now else None, who=who)
                weights = self._weights(parts)
                ranked = self._ranked(question, parts, weights, allowed)
                if mode == "aggregated":
                    ranked = ranking.aggregated(self.index, question, ranked, weights, 2 * limit)
                return self._found(question, ranked, limit, parts, allowed, now or datetime.now(UTC))

            if mode != "multi-anchor":
                return one(query, limit, mode)
            texts = anchors.rephrased(query, ask, self.index.language, lambda: one(query, 5))
            return anchors.borda([one(text, max(3 * limit, 15)) for text in texts], limit)

    def _ranked(self, question: Question, parts: Parts, weights: Mapping[str, float], allowed: Any) -> Ranked:
        """The candidates, with the logarithm of their odds."""
        columns = self.index.columns
        values = features(self.index, question, parts, allowed)
        total = np.zeros(columns.count, np.float32)
        for name, column in values.items():
            total += np.float32(weights.get(name, 0.0)) * column
        rows = np.flatnonzero(allowed & _related(question, values, columns))
        wide = CANDIDATES * len({*columns["kind"][rows].tolist()})
        if parts.nodes:
            rows = ranking.open_nodes(self.index, rows, total, wide)
        elif len(rows) > wide:
            rows = np.sort(rows[np.argsort(-total[rows], kind="stable")[:wide]])
        here = {name: column[rows] for name, column in values.items()}
        here |= closely(self.index, question, rows, parts)
        nothing = np.zeros(len(rows), np.float32)
        raw = {name: here.pop(name) for name in RAW if name in here}
        by_part: dict[str, Any] = {}
        for name, part in FEATURES.items():
            if name not in here:
                continue
            weight, column = np.float32(weights.get(name, 0.0)), here[name]
            if (own := here.get(OWN + name)) is not None:
                by_part["neighbours"] = by_part.get("neighbours", 0) + weight * (column - own)
                column = own
            by_part[part] = by_part.get(part, 0) + weight * column
        return Ranked(rows, sum(by_part.values(), nothing), by_part, raw)

    def _allowed(self, scope: Scope) -> Any:
        """Whether each row may be found."""
        columns, rows = self.index.columns, self.index.rows
        if unknown := [kind for kind in scope.kinds if kind not in KINDS]:
            raise UsageError(f"kinds: {', '.join(unknown)} cannot be searched; there are {', '.join(KINDS)}")
        kinds = [number for number, kind in enumerate(KINDS) if kind in scope.kinds]
        allowed = columns.alive & np.isin(columns["kind"], kinds)
        day = columns["day"]
        for bound, wanted in (("since", scope.since), ("until", scope.until)):
            limit = day_of(wanted)
            if wanted and not limit:
                raise UsageError(f"{bound}: {wanted!r} is not a date; write it as 2026-05-07")
            if wanted:
                allowed &= (day >= limit) if bound == "since" else (day <= limit) & (day > 0)
        if scope.agent or scope.keep:
            open_rows = np.flatnonzero(allowed).tolist()
            rows.need(open_rows)
            for row in open_rows:
                fields = rows[row].fields
                mine = not scope.agent or fields.get("agent") == scope.agent
                allowed[row] = mine and (scope.keep is None or scope.keep(fields))
        return allowed

    def _weights(self, parts: Parts) -> Mapping[str, float]:
        if self.weights is not None:
            return {"names": NAMES, **self.weights}
        made = self.embedder.name if self.embedder is not None and (parts.meaning or parts.late) else ""
        return {"names": NAMES, **weights_of(made)}

    def _found(
        self, question: Question, ranked: Ranked, limit: int, parts: Parts, allowed: Any, now: datetime
    ) -> list[Found]:
        """The best with their reasons, after spreading and by strength."""
        index, rows = self.index, ranked.rows.tolist()
        shares = dict(zip(rows, ranked.shares().tolist(), strict=True))
        place = {row: at for at, row in enumerate(rows)}
        came: dict[int, tuple[int, float]] = {}
        if parts.spread and self.shelf.count(Edge):
            came = ranking.spread(index, question, shares, allowed)
            shares |= {row: score for row, (_, score) in came.items()}
        best = sorted(shares, key=lambda row: -shares[row])[: max(3 * limit, 15)]
        index.rows.need(best)
        found: list[Found] = []
        for row in best:
            entry, at = index.rows[row], place.get(row)
            added: dict[str, float] = {}
            if at is not None:
                added = {name: float(values[at]) for name, values in ranked.by_part.items()}
            if row in came:
                added["spread"] = shares[row]
            via = index.rows.keys[came[row][0]][1] if row in came else ""
            raw = {name: float(each[at]) for name, each in ranked.raw.items()} if at is not None else {}
            likeness = max(0.0, *raw.values()) if raw else 0.0
            why = _why(added, question, via)
            factors = ranking.strength(entry, now) if parts.strength else {}
            score = shares[row] * prod(factors.values())
            parts_of = {**added, **factors}
            found.append(Found(entry.id, entry.kind, entry.text, score, parts_of, why, likeness, raw))
        found.sort(key=lambda hit: (-round(hit.score, 9), hit.id))
        return found[:limit]


def _related(question: Question, values: Mapping[str, Any], columns: Columns) -> Any:
    """Rows with a word of the question in or around them, near to it, or of its days."""
    related = np.zeros(columns.count, bool)
    for name in ("word_around", "names"):
        if name in values:
            related |= values[name] > 0
    if "time" in values:
        related |= (values["time"] > 0.5) | (values["spoken"] > 0.5)
    if question.meant is not None and columns.vectors is not None:
        cosines = values["cosine"] if "cosine" in values else columns.vectors @ question.meant.whole
        related |= cosines >= LEAST_COSINE
    return related


_SAYS = {
    "words": "has the same words",
    "neighbours": "is next to the same words",
    "meaning": "has a similar meaning",
    "late": "has similar words",
    "speaker": "was said by the person named",
    "names": "mentions the name",
    "time": "is from that time",
    "when": "mentions a time",
}


def _why(parts: Mapping[str, float], question: Question, via: str) -> str:
    """The strongest reasons in words."""
    if via:
        return f"is connected with {via}"
    best = sorted((name for name in _SAYS if parts.get(name, 0) > 0), key=lambda name: -parts[name])
    said = [_SAYS[name] for name in best[:3]]
    days = "; ".join(str(span) for span in question.spans) if "time" in best[:3] else ""
    return "; ".join(said) + (f" ({days})" if days else "")


def retrieval_of(shelf: Shelf, embedder: Embedder | None, systems: Sequence[Path] = ()) -> Retrieval:
    """The retrieval of a shelf, shared for the same embedder and instructions."""
    key = (Retrieval, embedder.name if embedder is not None else "", tuple(systems))
    if key not in shelf.beside:
        shelf.beside.setdefault(key, Retrieval(shelf, embedder, tuple(systems)))
    return shelf.beside[key]
