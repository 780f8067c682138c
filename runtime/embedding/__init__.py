"""Texts as vectors: nearness of meaning, without a download and, by default, without a big library."""

from __future__ import annotations

from runtime.embedding.choosing import choose
from runtime.embedding.embedder import Array, Embedder, Tokens

__all__ = ["Array", "Embedder", "Tokens", "choose"]
