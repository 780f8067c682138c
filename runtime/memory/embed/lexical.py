"""Vectors of the words and letters of a text: no weights, no download, the same on every machine.

Each word, its pieces of three to five letters, and each pair of neighbours is hashed to a few dimensions,
with a sign. Texts that share words, or similarly spelled words, are near each other; synonyms are not.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any
from unicodedata import normalize

import numpy as np

from runtime.memory.embed.embedder import SIZE, Array, Tokens

TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|\w+(?:['’]\w+)*|[^\w\s]")
"""A number, a word, or a sign."""
PLACES = 8
"""Dimensions of one feature: with several, two features rarely collide in all of them."""
PIECES = 0.9
"""Weight of all pieces of a word together; the word itself weighs 1."""
PAIRS = 0.3
"""Weight of two neighbours as one feature."""
COMMON = 0.6
"""Weight of a stop word."""
SIGNS = 0.3
"""Weight of a sign, such as a comma."""
NEIGHBOURS = 0.25
"""Weight of the tokens before and after in a token's state."""
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can could do for from had has have he her his i in is it its me my of on "
        "or our she so that the their them there these they this to was we were will with would you your",
    )
)


class Lexical:
    """Hashed words and letters. The number in the name increases whenever vectors change."""

    name = "lexical-1"
    size = SIZE

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text."""
        rows = np.zeros((len(texts), SIZE), np.float64)
        for row, text in zip(rows, texts, strict=True):
            words = [_plain(hit[0]) for hit in TOKEN.finditer(text)] or [""]
            for word, count in Counter(words).items():
                _add(row, _word(word), math.sqrt(count))
            for pair, count in Counter(pairwise(words)).items():
                _add(row, _feature(f"{pair[0]} {pair[1]}", "pair"), PAIRS * math.sqrt(count))
        return _unit(rows)

    def embed_tokens(self, text: str) -> Tokens:
        """Words, numbers and signs; a state is the word with a little of its neighbours."""
        hits = list(TOKEN.finditer(text))
        own = np.zeros((len(hits), SIZE), np.float64)
        for row, hit in zip(own, hits, strict=True):
            _add(row, _word(_plain(hit[0])), 1.0)
        mixed = own.copy()
        mixed[1:] += NEIGHBOURS * own[:-1]
        mixed[:-1] += NEIGHBOURS * own[1:]
        return Tokens(tuple(hit.span() for hit in hits), _unit(mixed))


def _plain(word: str) -> str:
    return normalize("NFKC", word).casefold()


Feature = tuple[Any, Any]
"""Dimensions, each once, and the value added to each."""


def _add(row: Any, feature: Feature, weight: float) -> None:
    row[feature[0]] += weight * feature[1]


@lru_cache(20_000)
def _word(word: str) -> Feature:
    """The word and its pieces as one feature."""
    row = np.zeros(SIZE, np.float64)
    common = COMMON if word in _COMMON else 1.0 if word[:1].isalnum() else SIGNS
    _add(row, _feature(word, "word"), common)
    pieces = Counter(_pieces(word))
    for piece, count in pieces.items():
        _add(row, _feature(piece, "piece"), PIECES * common * math.sqrt(count / pieces.total()))
    (touched,) = np.nonzero(row)
    return touched, row[touched]


def _pieces(word: str) -> Iterator[str]:
    if len(word) > 2 and not word[0].isdigit():
        whole = f"<{word[:64]}>"
        for length in (3, 4, 5):
            for start in range(len(whole) - length + 1):
                yield whole[start : start + length]


@lru_cache(100_000)
def _feature(text: str, kind: str) -> Feature:
    """The dimensions of a feature, by blake2: the same on every machine."""
    raw = blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=3 * PLACES, person=kind.encode()
    ).digest()
    step = 1 / math.sqrt(PLACES)
    row: dict[int, float] = {}
    for place in range(0, len(raw), 3):
        at = int.from_bytes(raw[place : place + 2], "big") % SIZE
        row[at] = row.get(at, 0.0) + (step if raw[place + 2] & 1 else -step)
    return np.array(list(row), np.intp), np.array(list(row.values()), np.float64)


def _unit(rows: Any) -> Array:
    """Rows of unit length. `fsum` is exact, so the order of additions does not matter."""
    for row in rows:
        length = math.sqrt(math.fsum(row * row))
        if length:
            row /= length
        else:  # all features cancel out, which is very rare
            row[0] = 1.0
    return rows.astype(np.float32)
