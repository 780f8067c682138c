"""Forms of English words: stems, plurals, and the forms of verbs."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

Phrase = tuple[str, ...]

_PLURALS: dict[str, str] = dict(
    re.findall(
        r"(\w+) (\w+)",
        "man men, woman women, child children, person people, mouse mice, goose geese, foot feet, tooth "
        "teeth, leaf leaves, loaf loaves, shelf shelves, knife knives, wife wives, half halves, wolf "
        "wolves, calf calves, potato potatoes, tomato tomatoes, hero heroes, bus buses, sheep sheep, deer "
        "deer, fish fish, aircraft aircraft",
    )
)
_SINGULARS = {plural: singular for singular, plural in _PLURALS.items()}
_DOUBLING = frozenset({"begin", "prefer", "refer", "permit", "admit", "forget", "commit", "submit", "regret"})
_VERB = re.compile(r"([a-z']+)(?: \(([a-z']+)(?: ([a-z']+))?\))?((?: [a-z']+)*)")


@cache
def _stemmer() -> Any:
    from Stemmer import Stemmer

    return Stemmer("english")


def stem(word: str) -> str:
    """What the forms of a word have in common: `boxes`, `box` and `box's`."""
    word = word.removesuffix("'s").removesuffix("'")
    return regular_stem(_SINGULARS.get(word, word))


@lru_cache(maxsize=100_000)
def regular_stem(word: str) -> str:
    """The same for regular forms alone, as an index needs it."""
    return _stemmer().stemWord(word) if word.isascii() and len(word) < 40 else word


def singular(word: str) -> str:
    """One form for a noun, its plural and its possessive; not always a word: `cooky` for `cookies`."""
    word = word.removesuffix("'s").removesuffix("'")
    word = _SINGULARS.get(word, word)
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    word = word.removesuffix("e")
    if word.endswith("i"):
        return f"{word[:-1]}y"
    return f"{word[:-1]}f" if word.endswith("v") else word


def plural(word: str) -> str:
    """The plural of a noun."""
    return _PLURALS.get(word) or _with_s(word)


def verb_forms(text: str) -> list[Phrase]:
    """Base, third person, past, participle and -ing of `throw (threw thrown) away`; [] for anything else."""
    hit = _VERB.fullmatch(text)
    if hit is None:
        return []
    base = hit[1]
    third = {"have": "has", "go": "goes", "do": "does", "be": "is"}.get(base) or _with_s(base)
    past = hit[2] or {"be": "was"}.get(base) or _past(base)
    participle = hit[3] or {"be": "been"}.get(base, past)
    return [(form, *hit[4].split()) for form in (base, third, past, participle, _ing(base))]


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return f"{base}d"
    if base.endswith("y") and base[-2:-1] not in "aeiou":
        return f"{base[:-1]}ied"
    return f"{_doubled(base)}ed"


def _ing(base: str) -> str:
    if base.endswith("ie"):
        return f"{base[:-2]}ying"
    return f"{base[:-1] if base.endswith('e') and not base.endswith(('ee', 'be')) else _doubled(base)}ing"


def _doubled(base: str) -> str:
    """`plan` becomes `plann`: a short verb doubles its last consonant after one vowel."""
    short = len(base) <= 4 and re.fullmatch(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]", base)
    return base + base[-1] if short or base in _DOUBLING else base
