"""BM25 for every row at four widths: the row, with the one before, with those around, its thread."""

from __future__ import annotations

from typing import Any

from runtime.memory.semantic.retrieval.index import Index
from runtime.memory.semantic.retrieval.parts import Parts
from runtime.memory.semantic.retrieval.rows import REACH, Columns

K1, B = 0.9, 0.4
K1_THREAD, B_THREAD = 1.2, 0.5
"""Of BM25. A turn is short: how long it is tells little."""
WIDE = ("word_before", "word_around")
"""Of a row and its neighbours; how much of it the row has by itself is told beside it."""
OWN = "own "


def by_words(
    index: Index, columns: Columns, terms: tuple[str, ...], parts: Parts, among: Any
) -> dict[str, Any]:
    """By name, as shares of the best among some rows; `coverage`: how much of what is asked a row says."""
    import numpy as np

    count = columns.count
    wanted = ["word", *WIDE] if parts.words else []
    wanted += ["word_thread"] if parts.thread else []
    widths = {name: name if parts.neighbours or name not in WIDE else "word" for name in wanted}
    found = {name: np.zeros(count, np.float32) for name in wanted}
    found |= {OWN + name: np.zeros(count, np.float32) for name in WIDE if name in wanted}
    coverage, most = np.zeros(count, np.float32), 0.0
    length = np.append(columns.length * columns.alive, np.float32(0))
    norms = {name: _norm(_widened(widths[name], length, columns), columns, name) for name in wanted}
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
        for name in wanted:
            wide = _widened(widths[name], tf, columns)
            idf = _idf(wide, columns, name)
            found[name] += idf * wide / (wide + norms[name])
            if name in WIDE:
                found[OWN + name] += idf * tf[:-1] / (tf[:-1] + norms[name])
    for name in wanted:
        best = columns.bests(found[name], among)
        for each in {name, OWN + name} & found.keys():
            found[each] /= best
    return {**found, "coverage": coverage / max(most, 1e-6)}


def _widened(name: str, own: Any, columns: Columns) -> Any:
    """The sum over a row and its neighbours, or over its thread."""
    import numpy as np

    if name == "word":
        return own[:-1]
    if name == "word_before":
        return own[:-1] + own[columns.near[-1]]
    if name == "word_around":
        total = own[:-1].copy()
        for step in range(1, REACH + 1):
            total += own[columns.near[-step]] + own[columns.near[step]]
        return total
    return np.bincount(columns.thread, own[:-1]).astype(np.float32)[columns.thread]


def _norm(length: Any, columns: Columns, name: str) -> Any:
    k1, b = (K1_THREAD, B_THREAD) if name == "word_thread" else (K1, B)
    mean = float(length[_counted(columns, name)].mean())
    return k1 * (1 - b + b * length / max(mean, 1e-6)) + 1e-9


def _idf(tf: Any, columns: Columns, name: str) -> float:
    import numpy as np

    those = tf[_counted(columns, name)]
    having = int((those > 0).sum())
    return float(np.log(1 + (len(those) - having + 0.5) / (having + 0.5)))


def _counted(columns: Columns, name: str) -> Any:
    """Each thread once, or each row; what a dream makes of rows does not count them twice."""
    return columns.heads if name == "word_thread" else columns.counted
