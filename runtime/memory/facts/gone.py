"""Which part of a clause it says is no longer so: what stands after `from`, `instead of` or `replaced`, …

The verbs are data of `memory/agreement.md`. A part may hold more words than the old value: whoever reads it
looks for a known value in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from runtime.memory.facts.language import Language

_BE = "(?:is|are|was|were|been|being|be|got|gets|get)"
_STOP = r"(?=$|[,.;]|\s(?:to|onto|with|by|for|in favour|but|and|because|after|as|into|on|in|at)\b)"
_CONTRASTS = (
    r"\bfrom\s+(?P<old>(?:\S+\s+){1,5}?)(?:(?:over|up|down|back|out)\s+)?(?:to|onto|into|in favour of)\b",
    r"\b(?:instead of|in place of|the place of|rather than|in lieu of|as opposed to|other than|formerly"
    r"|away from|out of|out from|off|used to(?: be)?|up from|down from|went from|later than|earlier than)"
    r"\s+(?P<old>(?:(?!to\b)\S+\s*){1,5})",
    r"(?P<old>(?:\S+\s+){1,4})used to\b",
    r"(?P<old>\S+(?:\s+\S+)?)['’]s?\s+(?:place|post|position|role|job|successor|replacement|seat|stead)\b",
    r"\b(?:taken?|takes? over|took|acquired|bought|inherited|exported|removed|withdrew|withdrawn)\b"
    r".*?\bfrom\s+(?P<old>(?:\S+\s*){1,4})",
    r"^(?P<old>.+?)\s+(?:has\s+|have\s+)?(?:handed|passed|gave|given|transferred|ceded|delegated)\b.*\bto\b",
    r"\b(?:said|wrote|noted|told you|put down)\s+(?P<old>.{1,60}?)\s+(?:by mistake|in error|wrongly|but)\b",
    r"\b(?:wrongly|mistakenly|falsely|incorrectly|mis[a-z]{3,})\b.{0,30}?\bas\s+(?P<old>(?:\S+\s*){1,3})",
    r"^(?P<old>.+?)\s+(?:is|was|were)\s+(?:an?\s+|the\s+)?(?:typo|wrong|mistake|error|misprint|incorrect)\b",
    r"\b(?:former|previous|old)\s+(?P<old>\S+)",
)
_FULLY = re.compile(r"\b(?:no longer|any ?more|any longer|enough|won't do)\b")
"""A denial with one of these is of the whole clause."""
_DENIAL = re.compile(r"\b(?:not|no|cannot)\b|n't\b")


def gone(low: str, language: Language) -> Iterator[str]:
    """The parts of a clause, in lower case, that it says are no longer so."""
    for pattern in _patterns(language):
        for hit in pattern.finditer(low):
            yield hit["old"]


def denied(low: str) -> tuple[str, str] | None:
    """What a clause in lower case denies, and what it says `but` is so; None if it denies nothing."""
    denial = _DENIAL.search(low)
    if denial is None:
        return None
    told, _, instead = low[denial.end() :].partition(" but ")
    return (low if _FULLY.search(low) else told), instead


@lru_cache(8)
def _patterns(language: Language) -> tuple[re.Pattern[str], ...]:
    takes = language.pattern("takes the place of", "does away with")
    ends, over = language.pattern("comes to an end"), language.pattern("is over")
    renames = language.pattern("gets another name")
    verbs = (
        rf"\b(?:{takes})\s+(?P<old>.{{1,60}}?){_STOP}",
        rf"^(?P<old>.+?)\s+{_BE}\s+(?:\w+ly\s+|all\s+|been\s+)*(?:{takes}|{over}|{renames})\b",
        rf"^(?P<old>.+?)\s+(?:has|have|had)\s+(?:{over}|{renames})\b",
        rf"^(?P<old>(?:\S+\s+){{1,8}}?)(?:{ends}|{renames})\b",
        rf"\b(?:{renames})\s+(?P<old>.{{1,40}}?)(?:\s+(?:to|into|as|onto|after)\b|$|,)",
    )
    return tuple(map(re.compile, (*_CONTRASTS, *verbs)))
