"""The part of a long text that a question is about."""

from __future__ import annotations

import re

# not `gist.split`, which drops the quotes that close a sentence: an excerpt is verbatim
_BETWEEN = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"')\]])\s+|\n")
_WORD = re.compile(r"\w{3,}")


def excerpt(text: str, query: str, chars: int) -> str:
    """One line of at most `chars`: the sentences that share most words with the query, in their order.

    `…` marks omissions; a text that is short enough is returned unchanged.
    """
    line = " ".join(text.split())
    if len(line) <= chars:
        return line
    query_words = {*_WORD.findall(query.casefold())}
    pieces = [each for piece in _BETWEEN.split(text) if (each := " ".join(piece.split()))]
    shared = [len(query_words & {*_WORD.findall(piece.casefold())}) for piece in pieces]
    best = sorted(range(len(pieces)), key=lambda n: (-shared[n], n))
    chosen: list[int] = []
    for n in best:
        if len(_join(pieces, sorted([*chosen, n]))) > chars and chosen:
            break
        chosen.append(n)
    text_part = _join(pieces, sorted(chosen))
    return text_part if len(text_part) <= chars else f"{text_part[: chars - 1]}…"


def _join(pieces: list[str], chosen: list[int]) -> str:
    """The chosen pieces, with a sign at each gap."""
    parts: list[str] = []
    last = -1
    for n in chosen:
        parts += ["…"] if n != last + 1 else []
        parts.append(pieces[n])
        last = n
    return " ".join([*parts, "…"] if last != len(pieces) - 1 else parts)
