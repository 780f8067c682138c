"""The part of a long text that a question is about."""

from __future__ import annotations

import re

# not `gist.split`, which drops the quotes that close a sentence: what is shown is as it was said
_BETWEEN = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"')\]])\s+|\n")
_WORD = re.compile(r"\w{3,}")


def excerpt(text: str, query: str, chars: int) -> str:
    """One line of at most `chars`: the sentences that share most words with the query, in their order.

    `…` stands where something is left out; a text that is short enough is whole.
    """
    line = " ".join(text.split())
    if len(line) <= chars:
        return line
    wanted = {*_WORD.findall(query.casefold())}
    pieces = [each for piece in _BETWEEN.split(text) if (each := " ".join(piece.split()))]
    shared = [len(wanted & {*_WORD.findall(piece.casefold())}) for piece in pieces]
    best = sorted(range(len(pieces)), key=lambda n: (-shared[n], n))
    chosen: list[int] = []
    for n in best:
        if len(_joined(pieces, sorted([*chosen, n]))) > chars and chosen:
            break
        chosen.append(n)
    told = _joined(pieces, sorted(chosen))
    return told if len(told) <= chars else f"{told[: chars - 1]}…"


def _joined(pieces: list[str], chosen: list[int]) -> str:
    """The chosen pieces, with a sign at each gap."""
    told: list[str] = []
    last = -1
    for n in chosen:
        told += ["…"] if n != last + 1 else []
        told.append(pieces[n])
        last = n
    return " ".join([*told, "…"] if last != len(pieces) - 1 else told)
