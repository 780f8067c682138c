"""The forms of English verbs and nouns, as far as words that mean the same have to agree in them."""

from __future__ import annotations

import re
from functools import cache

_IRREGULAR = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "person": "people",
    "mouse": "mice",
    "goose": "geese",
    "foot": "feet",
    "tooth": "teeth",
    "leaf": "leaves",
    "loaf": "loaves",
    "shelf": "shelves",
    "knife": "knives",
    "wife": "wives",
    "half": "halves",
    "wolf": "wolves",
    "calf": "calves",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "hero": "heroes",
    "sheep": "sheep",
    "deer": "deer",
    "fish": "fish",
    "aircraft": "aircraft",
}
_SINGULAR = {plural: singular for singular, plural in _IRREGULAR.items()}
_VERB = re.compile(r"([a-z']+)(?: \(([a-z']+)(?: ([a-z']+))?\))?((?: [a-z']+)*)")

Phrase = tuple[str, ...]


def plural(word: str) -> str:
    """The plural of a noun."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    return _with_s(word)


@cache
def stem(word: str) -> str:
    """What the forms of a noun have in common: `boxes`, `box` and `box's`; `cookies` and `cookie`."""
    word = word.removesuffix("'s").removesuffix("'")
    word = _SINGULAR.get(word, word)
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    word = word.removesuffix("e")
    if word.endswith("i"):
        return f"{word[:-1]}y"
    return f"{word[:-1]}f" if word.endswith("v") else word


def verb_forms(text: str) -> list[Phrase]:
    """Base, third person, past, participle and -ing of `throw (threw thrown) away`."""
    hit = _VERB.fullmatch(text)
    if hit is None:
        return []
    base = hit[1]
    past = hit[2] or {"be": "was"}.get(base) or _past(base)
    participle = hit[3] or {"be": "been"}.get(base, past)
    first = (base, _third(base), past, participle, _ing(base))
    return [(form, *hit[4].split()) for form in first]


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _third(base: str) -> str:
    return {"have": "has", "go": "goes", "do": "does", "be": "is"}.get(base) or _with_s(base)


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
    """`plan` becomes `plann-`: a short verb with one vowel before its one last consonant."""
    short = len(base) <= 4 and re.fullmatch(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]", base)
    ends = base in ("begin", "prefer", "refer", "permit", "admit", "forget", "commit", "submit", "regret")
    return base + base[-1] if short or ends else base
