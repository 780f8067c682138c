"""An index of many records as a file beside the store, so that a new process need not rebuild it.

It is only a cache: what the store has changed since is taken in. An incomplete file, or one made for other
words or vectors, is ignored.
"""

from __future__ import annotations

import dataclasses
import json
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from runtime.memory.embed import Embedder
from runtime.memory.facts.retrieval.language import Language
from runtime.memory.facts.retrieval.rows import KINDS, ROW, Columns, Rows, digest
from runtime.memory.facts.retrieval.vectors import Vectors
from runtime.memory.store import arrays

FORMAT = 4
LEAST = 5_000
"""Records from which a file is worth it."""
SHARE = 0.02
"""The share of new records from which the file is rewritten."""


def made_for(language: Language, embedder: Embedder | None) -> str:
    """What an index depends on besides the records."""
    lists = dataclasses.asdict(language)
    told = {name: sorted(each) if isinstance(each, frozenset) else each for name, each in lists.items()}
    name = f"{embedder.name} {embedder.size}" if embedder is not None else ""
    return f"{FORMAT} {name} {digest(json.dumps(told))}"


def load(path: Path, made: str, read: Any) -> tuple[Rows, Any, list[int], Any] | None:
    """The rows, their vectors, the living ones and the mark of the store, if there is a file for this."""
    try:
        found = arrays.load(path)
        if found is None or found[0].get("made") != made:
            return None
        head, told = found
        table, counts, size = told["table"].view(ROW), told["counts"], head["size"]
        names = list(KINDS)
        rows = Rows(
            read,
            keys=[(names[kind], id) for kind, id in zip(table["kind"].tolist(), head["ids"], strict=True)],
            signs=array("q", told["signs"].tobytes()),
            leads=dict(head["leads"]),
            speakers=head["speakers"],
            threads=head["threads"],
            named=head["named"],
            postings={
                term: (array("i", told["rows"][a:b].tobytes()), array("H", counts[a:b].tobytes()))
                for term, (a, b) in zip(head["terms"], pairwise(told["starts"].tolist()), strict=True)
            },
            table=np.array(table),
            spans=np.array(told["spans"]),
        )
        begin = head["begin"] + head["arrays"]["vectors"][0]
        vectors = Vectors(path, begin, len(rows), size) if size else None
        return rows, vectors, told["alive"].nonzero()[0].tolist(), head["mark"]
    except (OSError, ValueError, LookupError, TypeError):
        return None  # it is rebuilt


def save(path: Path, made: str, mark: Any, rows: Rows, columns: Columns) -> None:
    """Write the index."""
    vectors = columns.vectors
    if isinstance(vectors, Vectors):
        parts = [vectors.part(0, vectors.count), vectors.behind]
    else:
        parts = [np.zeros((0, 0), np.float32) if vectors is None else vectors]
    head = {
        "made": made,
        "mark": mark,
        "size": parts[0].shape[1],
        "ids": [id for _, id in rows.keys],
        "leads": list(rows.leads.items()),
        "speakers": rows.speakers,
        "threads": rows.threads,
        "named": rows.named,
        "terms": list(rows.postings),
    }
    ends = np.cumsum([0, *(len(each) for each, _ in rows.postings.values())], dtype=np.int64)
    told = {
        "table": [rows.table],
        "alive": [columns.alive],
        "signs": [np.array(rows.signs, np.int64)],
        "spans": [rows.spans],
        "starts": [ends],
        "rows": [np.concatenate([np.zeros(0, np.int32), *(each for each, _ in rows.postings.values())])],
        "counts": [np.concatenate([np.zeros(0, np.uint16), *(each for _, each in rows.postings.values())])],
        "vectors": parts,
    }
    arrays.save(path, head, told)
