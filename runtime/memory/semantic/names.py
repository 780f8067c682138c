"""Names of people and things in a text: capital letters where a sentence does not ask for them."""

from __future__ import annotations

import re
from itertools import groupby

from runtime.memory.procedural.leaves import Token, tokens
from runtime.memory.procedural.words import Words

MOST = 12
"""Names of one text."""
_TIMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july "  # noqa: SIM905
    "august september october november december".split()
)
_NEVER = _TIMES | frozenset(
    "i i'm i'd i'll i've ok okay yes no hey hi hello wow thanks oh mr mrs ms dr the a an".split()  # noqa: SIM905
)
_SPOKEN = re.compile(r"[A-Z][\w.'’-]*")


def names_of(text: str, words: Words | None = None) -> tuple[str, ...]:
    """Names in the order in which they stand, each once; several words in a row are one name."""
    found: list[str] = []
    for named, group in groupby(tokens(text[:20_000]), lambda token: _is_name(token, words)):
        if named:
            found.append(" ".join(_bare(token.text) for token in group))
    return tuple(dict.fromkeys(found))[:MOST]


def _is_name(token: Token, words: Words | None) -> bool:
    if token.kind != "word" or not _SPOKEN.fullmatch(token.text) or token.low in _NEVER:
        return False
    if not token.first:
        return True
    known = words is not None and (token.low in words.fixed or (token.low,) in words.same)
    return words is not None and not known and token.low in words.names


def _bare(text: str) -> str:
    return re.sub(r"['’]s$", "", text)
