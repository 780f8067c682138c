"""Texts as vectors, without a download and, by default, without a large library."""

from __future__ import annotations

from runtime.memory.embed.choosing import choose
from runtime.memory.embed.embedder import Array, Embedder, Tokens

__all__ = ["Array", "Embedder", "Tokens", "choose"]
