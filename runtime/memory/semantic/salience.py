"""How much an observation matters, told from its kind and its words; a guess that a person may overrule."""

from __future__ import annotations

import re

BY_KIND = {"fact": 0.8, "identity": 0.8, "failure": 0.7, "reflection": 0.6, "result": 0.5, "note": 0.5}
TURN = 0.3
AT_ONCE = 0.7
"""The salience from which something new becomes a memory without waiting for a dream."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d")


def salience_of(text: str, said: str, names: tuple[str, ...] = ()) -> float:
    """Between 0 and 1: a fact that is told is more than a turn of a conversation."""
    base = BY_KIND.get(said, TURN)
    if len(set(_WORD.findall(text.lower()))) < 4:
        return round(base / 2, 3)
    more = 0.1 * bool(_NUMBER.search(text)) + 0.1 * bool(names) + 0.1 * (len(text) > 120)
    return round(min(1.0, base + more), 3)
