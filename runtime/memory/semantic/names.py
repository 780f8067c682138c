"""Names of people and things in a text: capital letters where a sentence does not ask for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from runtime.memory.procedural.leaves import Token, tokens
from runtime.memory.semantic.language import Language

MOST = 12
"""Names of one text."""
LONGEST = 20_000
"""Characters that are looked at."""
_NEVER = frozenset(
    re.findall(
        r"\w+",
        "monday tuesday wednesday thursday friday saturday sunday january february march april may june "
        "july august september october november december mon tue wed thu fri sat sun i ok okay yes no hey hi "
        "hello wow thanks oh mr mrs ms dr the a an",
    )
)
_SPOKEN = re.compile(r"[A-ZÀ-ÖØ-Þ][\w.'’-]*")
_SHORTENED = re.compile(r"['’](?!s$)")
_ENDINGS = ("ing", "ed", "ly", "tion", "ment", "ness", "ful", "ive")


def names_of(text: str, language: Language | None = None) -> tuple[str, ...]:
    """Names in the order in which they stand, each once; several words in a row are one name.

    The first word of a sentence is one only where a language is given that does not know it as a word, and
    what stands behind it goes on as behind a name.
    """
    found = tokens(text[:LONGEST])
    marked = [(token, _is_name(found, at, language)) for at, token in enumerate(found)]
    names: list[str] = []
    for named, group in groupby(marked, lambda each: each[1]):
        if named:
            names.append(" ".join(_bare(token.text) for token, _ in group))
    return tuple(dict.fromkeys(names))[:MOST]


def first_word(low: str, language: Language) -> bool:
    """Whether a word with a capital at the start of a sentence may be a name: it is no word that is known."""
    return not (_SHORTENED.search(low) or low.endswith(_ENDINGS) or language.knows(low.removesuffix("'s")))


def _is_name(found: Sequence[Token], at: int, language: Language | None) -> bool:
    token = found[at]
    if token.kind != "word" or not _SPOKEN.fullmatch(token.text) or token.low in _NEVER:
        return False
    if _SHORTENED.search(token.low):
        return False
    if not token.first:
        return True
    behind = found[at + 1] if at + 1 < len(found) else None
    if behind is not None and _SPOKEN.fullmatch(behind.text) and not behind.first and len(token.text) > 1:
        return behind.low not in _NEVER and (
            language is None or token.low not in language.silent | language.greetings
        )
    if language is None or not first_word(token.low, language):
        return False
    if token.low.endswith("'s") or (behind is not None and behind.text in (",", "and")):
        return True
    return behind is not None and (behind.low in language.bases or behind.low in language.silent)


def _bare(text: str) -> str:
    return re.sub(r"['’]s$", "", text)
