"""The embedder protocol: rows of unit length for texts, and a state for each token of one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float32]]
else:
    Array = Any  # importing numpy takes 0.1 s, and naming an embedder does not need it

SIZE = 384
"""Dimensions of `lexical` and `minilm`."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of a text in order: the span and the state (a row) of each."""

    spans: tuple[tuple[int, int], ...]
    states: Array

    def __len__(self) -> int:
        return len(self.spans)


def readable(text: str) -> str:
    """Without lone surrogates, which tokenizers refuse; spans stay valid."""
    return text.encode("utf-8", "replace").decode("utf-8")


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts. Vectors of embedders with different names are never compared."""

    @property
    def name(self) -> str:
        """Identifies the algorithm and its weights."""
        ...

    @property
    def size(self) -> int:
        """Dimensions of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Array:
        """One row of unit length for each text, float32."""
        ...

    def embed_tokens(self, text: str) -> Tokens:
        """The tokens of a text, each with its span of characters and its state in this context."""
        ...
