"""An index of many records as a file beside the store, so that a new process need not rebuild it.

It is only a cache: changed records are found by a hash of their bodies. An incomplete file, or one made for
other words or vectors, is ignored.
"""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from runtime.memory.embed import Embedder
from runtime.memory.facts.retrieval.language import Language
from runtime.memory.facts.retrieval.rows import REACH, Columns, Rows, digest
from runtime.memory.facts.retrieval.vectors import Vectors
from runtime.memory.store import arrays

FORMAT = 3
LEAST = 5_000
"""Records from which a file is worth it."""
SHARE = 0.02
"""The share of new records from which the file is rewritten."""
_COLUMNS = ("alive", "kind", "length", "day", "thread", "who", "first_person", "asks", "told", "spans")

Postings = dict[str, tuple["array[int]", "array[int]"]]
"""By term: the rows that have it, and how often."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The content of the file; `columns` are those of its rows."""

    mark: Any  # of the store
    keys: list[tuple[str, str]]
    marks: array[int]
    signs: array[int]
    leads: dict[int, str]
    columns: Columns
    postings: Postings


def made_for(language: Language, embedder: Embedder | None) -> str:
    """What an index depends on besides the records."""
    lists = dataclasses.asdict(language)
    told = {name: sorted(each) if isinstance(each, frozenset) else each for name, each in lists.items()}
    name = f"{embedder.name} {embedder.size}" if embedder is not None else ""
    return f"{FORMAT} {name} {digest(json.dumps(told))}"


def load(path: Path, made: str) -> Kept | None:
    """The index, if there is one for this."""
    try:
        return _loaded(path, made)
    except (OSError, ValueError, LookupError, TypeError):
        return None  # it is rebuilt


def _loaded(path: Path, made: str) -> Kept | None:
    found = arrays.load(path)
    if found is None or found[0].get("made") != made:
        return None
    head, told = found
    kinds, size = head["kinds"], head["size"]
    ids, names = arrays.as_texts(told["ids"]), list(kinds)
    keys = [(names[kind], id) for kind, id in zip(told["kind"].tolist(), ids, strict=True)]
    columns: dict[str, Any] = {name: np.array(told[name]) for name in _COLUMNS}
    count = len(keys)
    named: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    several = [tuple(name.split(" ")) for name in arrays.as_texts(told["names"])]
    for name, row in zip(told["name_numbers"].tolist(), told["named"].tolist(), strict=True):
        named.setdefault(several[name][0], []).append((several[name], row))
    vectors = None
    if size:
        vectors = Vectors(path, head["begin"] + head["arrays"]["vectors"][0], count, size)
    threads = zip(arrays.as_texts(told["threads"]), told["thread_numbers"].tolist(), strict=True)
    ends = zip(arrays.as_texts(told["terms"]), pairwise(told["starts"].tolist()), strict=True)
    rows, counts = told["rows"], told["counts"]
    return Kept(
        mark=head["mark"],
        keys=keys,
        marks=array("q", told["marks"].tobytes()),
        signs=array("q", told["signs"].tobytes()),
        leads=dict(zip(told["lead_rows"].tolist(), arrays.as_texts(told["leads"]), strict=True)),
        columns=Columns(
            count=count,
            **columns,
            kinds=kinds,
            counted=np.array(told["counted"]),
            near={step: told[f"near {step}"] for step in _steps()},
            speakers=head["speakers"],
            threads=dict(threads),
            named=named,
            vectors=vectors,
        ),
        postings={
            term: (array("i", rows[a:b].tobytes()), array("H", counts[a:b].tobytes()))
            for term, (a, b) in ends
        },
    )


def save(path: Path, head: Mapping[str, Any], rows: Rows, columns: Columns, postings: Postings) -> None:
    """Write the index."""
    named = [(" ".join(name), row) for several in columns.named.values() for name, row in several]
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in named))}
    vectors = columns.vectors
    head = {
        **head,
        "kinds": columns.kinds,
        "speakers": columns.speakers,
        "size": 0 if vectors is None else _parts(vectors)[0].shape[1],
    }
    told: dict[str, Any] = {
        "ids": arrays.texts([id for _, id in rows.keys]),
        "marks": np.array(rows.marks, np.int64),
        "signs": np.array(rows.signs, np.int64),
        "lead_rows": np.array(list(rows.leads), np.int64),
        "leads": arrays.texts(list(rows.leads.values())),
        "names": arrays.texts(list(names)),
        "name_numbers": np.array([names[name] for name, _ in named], np.int32),
        "named": np.array([row for _, row in named], np.int32),
        "threads": arrays.texts(list(columns.threads)),
        "thread_numbers": np.array(list(columns.threads.values()), np.int64),
        **{name: getattr(columns, name) for name in (*_COLUMNS, "counted")},
        **{f"near {step}": columns.near[step] for step in _steps()},
        "terms": arrays.texts(list(postings)),
        "starts": np.cumsum([0, *(len(each) for each, _ in postings.values())], dtype=np.int64),
        "rows": np.concatenate([np.zeros(0, np.int32), *(each for each, _ in postings.values())]),
        "counts": np.concatenate([np.zeros(0, np.uint16), *(each for _, each in postings.values())]),
    }
    parts = {name: [value] for name, value in told.items()}
    if vectors is not None:
        parts["vectors"] = _parts(vectors)
    arrays.save(path, head, parts)


def _steps() -> list[int]:
    return [step for step in range(-REACH, REACH + 1) if step]


def _parts(vectors: Any) -> list[Any]:
    if isinstance(vectors, Vectors):
        return [vectors.part(0, vectors.count), vectors.behind]
    return [vectors]
