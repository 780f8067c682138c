"""What a text means, stored beside its record: a vector of the whole, and one of each meaningful word.

A word's state is the mean of its tokens in this context, as int8. A passage belongs to a record by its kind
and id, and is deleted with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from runtime.memory.embed import Embedder
from runtime.memory.facts.retrieval.language import LONGEST, Language
from runtime.memory.store import Record, Shelf, pack

MOST_WORDS = 128
"""Words of a text whose states are stored."""
MOST_CHARS = 2_000
"""Characters of a text that are embedded."""
_WORD = re.compile(r"[^\W_]+")


class Passage(Record):
    """The states of one record's words; `vectors` has the mean of all its tokens."""

    KIND: ClassVar[str] = "passage"

    made_by: str = ""  # the name of the embedder; those of another one are replaced
    digest: str = ""  # of the text
    states: bytes = b""  # int8, a row for each word


@dataclass(frozen=True, eq=False)
class Meaning:
    """A text as an embedder understands it; rows of unit length."""

    whole: Any
    states: Any  # float32 for a question, int8 as stored
    words: tuple[str, ...] = ()


def meaning_of(embedder: Embedder, language: Language, text: str) -> Meaning:
    """The mean of its tokens, and the state of each meaningful word (of any, if none is)."""
    tokens = embedder.embed_tokens(text[:MOST_CHARS])
    whole = tokens.states.mean(axis=0) if len(tokens) else np.zeros(embedder.size, np.float32)
    size = np.linalg.norm(whole)
    whole = (whole / (size or 1)).astype(np.float32)
    found = [(hit.start(), hit.end(), hit[0].casefold()) for hit in _WORD.finditer(text[:MOST_CHARS])]
    telling = [each for each in found if each[2] not in language.dull] or found
    starts = np.array([span[0] for span in tokens.spans], int)
    ends = np.array([span[1] for span in tokens.spans], int)
    rows: list[Any] = []
    words: list[str] = []
    for start, end, word in telling[:MOST_WORDS]:
        among = (starts < end) & (ends > start)
        if among.any():
            rows.append(tokens.states[among].mean(axis=0))
            words.append(word)
    states = np.array(rows, np.float32).reshape(len(rows), embedder.size)
    states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-9)
    return Meaning(whole, states, tuple(words))


def _as_int8(states: Any) -> Any:
    """Rows as int8, each scaled to the full range: a cosine does not depend on the length."""
    most = np.abs(states).max(axis=1, keepdims=True, initial=1e-9)
    return np.round(states / most * 127).astype(np.int8)


def name(kind: str, id: str) -> str:
    """The id of a record's passage."""
    long = f"{kind}:{id}"
    return long if len(long) <= 300 else f"{kind}:{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()}"


def digest_of(text: str) -> str:
    """A hash of the part of a text that is embedded."""
    return hashlib.sha256(text[:LONGEST].encode("utf-8", "replace")).hexdigest()[:16]


def passage_of(
    embedder: Embedder, language: Language, kind: str, id: str, text: str
) -> tuple[Passage, Meaning]:
    """The passage of a record's text, and what it means as it will be read again."""
    meant = meaning_of(embedder, language, text)
    states = _as_int8(meant.states)
    passage = Passage(
        id=name(kind, id),
        made_by=embedder.name,
        digest=digest_of(text),
        vectors={embedder.name: pack(meant.whole)},
        states=states.tobytes(),
    )
    return passage, Meaning(meant.whole, states)


def forget(shelf: Shelf, kind: str, ids: Iterable[str]) -> int:
    """Delete the passages of records that are gone; returns how many."""
    return shelf.delete(Passage, *(name(kind, id) for id in ids))


def opened(passage: Passage, embedder: Embedder, text: str) -> Meaning | None:
    """The content of a passage; None if it is damaged, or made of another text or by another embedder."""
    whole, size = passage.vector(embedder.name), embedder.size
    if passage.made_by != embedder.name or passage.digest != digest_of(text):
        return None
    if whole is None or len(whole) != size or len(passage.states) % size:
        return None
    return Meaning(whole, np.frombuffer(passage.states, np.int8).reshape(-1, size))
