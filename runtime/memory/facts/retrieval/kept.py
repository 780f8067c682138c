"""An index of many records as a file beside the store, so that a new process need not rebuild it.

It is only a cache: changed records are found by a hash of their bodies. An incomplete file, or one made for
other words or vectors, is ignored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.memory.facts.retrieval.rows import REACH, Columns, Entry, Rows

if TYPE_CHECKING:
    from runtime.memory.embed import Embedder
    from runtime.memory.facts.retrieval.language import Language

FORMAT = 2
LEAST = 5_000
"""Records from which a file is worth it."""
SHARE = 0.02
"""The share of new records from which the file is rewritten."""
_COLUMNS = ("alive", "kind", "length", "day", "thread", "who", "first_person", "asks", "told", "spans")

Postings = Mapping[str, tuple["array[int]", "array[int]"]]


@dataclass(frozen=True, eq=False)
class Kept:
    """The content of the file; `columns` are those of its rows."""

    keys: list[tuple[str, str]]
    mark: Any  # of the store
    marks: array[int]
    signs: Any
    leads: dict[int, str]
    columns: Columns
    terms: Any
    starts: Any
    rows: Any
    counts: Any

    def of(self, term: str) -> tuple[Any, Any]:
        """The rows that have a term, and how often."""
        import numpy as np

        number = np.uint64(digest(term, False))
        at = int(np.searchsorted(self.terms, number))
        if at == len(self.terms) or self.terms[at] != number:
            return self.rows[:0], self.counts[:0]
        part = slice(int(self.starts[at]), int(self.starts[at + 1]))
        return self.rows[part], self.counts[part]


def digest(text: str, signed: bool = True) -> int:
    """A hash that is the same in every process."""
    raw = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little", signed=signed)


def sign(entry: Entry) -> int:
    """A hash of everything that arrays and words depend on."""
    told = (entry.text, entry.who, entry.day, entry.thread, entry.order, sorted(entry.names))
    return digest(repr(told))


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
    import numpy as np

    from runtime.memory.facts.retrieval.vectors import InFile, Vectors
    from runtime.memory.store import arrays

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
        vectors = Vectors(
            InFile(path, head["begin"] + head["arrays"]["vectors"][0], count, size),
            np.zeros((0, size), np.float32),
        )
    threads = zip(arrays.as_texts(told["threads"]), told["thread_numbers"].tolist(), strict=True)
    return Kept(
        keys=keys,
        mark=head["mark"],
        marks=array("q", told["marks"].tobytes()),
        signs=told["signs"],
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
        terms=told["terms"],
        starts=told["starts"],
        rows=told["rows"],
        counts=told["counts"],
    )


def save(
    path: Path, head: Mapping[str, Any], rows: Rows, columns: Columns, postings: Postings, kept: Kept | None
) -> None:
    """Write the index: `kept`, if any, with the rows behind it."""
    import numpy as np

    from runtime.memory.store import arrays

    first = len(kept.keys) if kept else 0
    new = np.array([sign(rows[row]) for row in range(first, len(rows))], np.int64)
    signs = np.concatenate([kept.signs, new]) if kept else new
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
        "signs": signs,
        "lead_rows": np.array(list(rows.leads), np.int64),
        "leads": arrays.texts(list(rows.leads.values())),
        "names": arrays.texts(list(names)),
        "name_numbers": np.array([names[name] for name, _ in named], np.int32),
        "named": np.array([row for _, row in named], np.int32),
        "threads": arrays.texts(list(columns.threads)),
        "thread_numbers": np.array(list(columns.threads.values()), np.int64),
        **{name: getattr(columns, name) for name in (*_COLUMNS, "counted")},
        **{f"near {step}": columns.near[step] for step in _steps()},
        **_merged(postings, kept),
    }
    parts = {name: [value] for name, value in told.items()}
    if vectors is not None:
        parts["vectors"] = _parts(vectors)
    arrays.save(path, head, parts)


def _steps() -> list[int]:
    return [step for step in range(-REACH, REACH + 1) if step]


def _parts(vectors: Any) -> list[Any]:
    from runtime.memory.facts.retrieval.vectors import Vectors

    if isinstance(vectors, Vectors):
        return [vectors.kept.part(0, len(vectors.kept)), vectors.behind]
    return [vectors]


def _merged(postings: Postings, kept: Kept | None) -> dict[str, Any]:
    """The postings by the hash of their term."""
    import numpy as np

    hashes = np.array([digest(term, False) for term in postings], np.uint64)
    sizes = np.array([len(rows) for rows, _ in postings.values()], np.int64)
    terms = [np.repeat(hashes, sizes)]
    rows = [np.frombuffer(each, np.int32) for each, _ in postings.values()]
    counts = [np.frombuffer(each, np.uint16) for _, each in postings.values()]
    if kept is not None:
        terms.insert(0, np.repeat(kept.terms, np.diff(kept.starts)))
        rows.insert(0, kept.rows)
        counts.insert(0, kept.counts)
    every = np.concatenate(terms)
    order = np.argsort(every, kind="stable")
    known, starts = np.unique(every[order], return_index=True)
    return {
        "terms": known,
        "starts": np.append(starts, len(every)).astype(np.int64),
        "rows": np.concatenate([*rows, np.zeros(0, np.int32)])[order],
        "counts": np.concatenate([*counts, np.zeros(0, np.uint16)])[order],
    }
