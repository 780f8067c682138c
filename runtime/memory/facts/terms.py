"""A statement as the terms that carry its meaning: words in base form, numbers, dates, names, denials."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Literal, NamedTuple

from runtime.memory.facts import dates
from runtime.memory.facts.language import Language
from runtime.text.tokens import Token, tokens

Kind = Literal["word", "name", "number", "date", "time", "leaf"]
STATEMENT = 14
"""Terms of a plain statement."""
MOST_TERMS, MOST_CHARS = 240, 4_000
"""Of a statement; longer ones are not compared."""
MOST_NAMES, NAMES_CHARS = 12, 20_000
"""Names of one text, and the characters that are searched for them."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_DATES = re.compile(
    rf"\b(?:{dates.NAMED}|(?P<year>(?<=in\s)(?:19|20)\d\d|(?<=since\s)(?:19|20)\d\d|(?<=of\s)(?:19|20)\d\d)\b)",
    re.VERBOSE | re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?:(?P<h>\d{1,2})(?::(?P<m>\d\d))?\s*(?P<half>[ap])\.?m\b\.?|(?P<h24>[01]?\d|2[0-3]):(?P<m24>\d\d)\b)",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_NOT = re.compile(r"\b(ca|wo|sha|\w+)n['’]t\b", re.IGNORECASE)
_IRREGULAR_NOT = {"ca": "can", "wo": "will", "sha": "shall"}
_HALVES = (
    (re.compile(r"\b(?:an?|one)\s+(\w+)\s+and\s+a\s+half\b", re.IGNORECASE), r"1.5 \1s"),
    (re.compile(r"\bhalf\s+(?:of\b|the\b)", re.IGNORECASE), "50% "),
    (re.compile(r"\bhalf\s+an?\s+(?=\w)", re.IGNORECASE), "0.5 "),
)
_TITLE = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs)\.")
_EQUATED = re.compile(r"\b(?:is|are|was|were)\s+(?:the|my|our|his|her|their)\b", re.IGNORECASE)
_SEVERAL = re.compile(r"[.!?…][\"')\]]*\s+\S|\?|\n\s*\S")
_CLITIC = re.compile(r"'(?:s|m|ve|re|d|ll)$")
_PRONOUNS = {
    **dict.fromkeys(("i", "me", "my", "mine", "myself"), "i"),
    **dict.fromkeys(("we", "us", "our", "ours", "ourselves"), "we"),
    **dict.fromkeys(("he", "him", "himself"), "he"),
    **dict.fromkeys(("she", "herself"), "she"),
}
_LEADS = frozenset("the a an my your his her its our their this that these those".split())  # noqa: SIM905
_BE = frozenset("is are was were be 's".split())  # noqa: SIM905
_NO_NAMES = {*dates.WEEKDAYS, *map(str.lower, calendar.month_name[1:])}.union(
    re.findall(r"\w+", "mon tue wed thu fri sat sun i ok okay yes no hey hi hello wow thanks oh"),
    ("mr", "mrs", "ms", "dr", "the", "a", "an"),
)
_CAPITALISED = re.compile(r"[A-ZÀ-ÖØ-Þ][\w.'’-]*")
_CONTRACTED = re.compile(r"['’](?!s$)")
_ENDINGS = ("ing", "ed", "ly", "tion", "ment", "ness", "ful", "ive")


class Term(NamedTuple):
    """A piece of meaning: `key` is what it is compared by."""

    kind: Kind
    key: str
    text: str
    low: str
    at: int = 0  # its place among the terms
    value: Fraction | None = None
    unit: str = ""  # of a number: its dimension
    amount: Fraction | None = None  # of a number: without its unit
    parts: tuple[int, int, int] = (0, 0, 0)  # year, month, day of a date; 0 where it is not given
    led: bool = False  # follows an article or possessive
    base: str = ""  # of a word or a name


@dataclass(frozen=True)
class Terms:
    """A statement taken apart."""

    terms: tuple[Term, ...]
    denials: int
    lows: frozenset[str]  # all of its words, as written
    copula: bool  # its verb is a form of `be`
    passive: bool
    equated: bool  # it says who or what is the one: Kim is the lead
    past: bool  # its verb is in the past tense
    plain: bool  # one statement, short enough to compare
    long: bool  # too long to compare


def terms_of(text: str, language: Language, who: str = "") -> Terms:
    """The terms of what somebody said; `I` and `we` are that person if one is given."""
    found = list(pieces(text[:MOST_CHARS], language, who))
    terms: list[Term] = []
    denials = at = 0
    while at < len(found):
        piece = found[at]
        phrase, count = _phrase(found, at, language)
        if phrase:
            terms.append(Term("word", phrase, phrase, phrase, len(terms), base=phrase))
        elif piece.key == "not":
            denials += 1
        elif piece.key:
            base = language.base(piece.key) if piece.kind in ("word", "name") else ""
            terms.append(piece._replace(at=len(terms), base=base))
        at += count
    lows = [piece.low for piece in found if piece.kind in ("word", "name")]
    copula = not _BE.isdisjoint(lows)
    several = _SEVERAL.search(_TITLE.sub("", text.strip()))
    return Terms(
        terms=tuple(terms),
        denials=denials,
        lows=frozenset(lows),
        copula=copula,
        passive="by" in lows and copula,
        equated=bool(_EQUATED.search(text)),
        past=any(low in ("was", "were", "had", "did") or language.past(low) for low in lows),
        plain=len(terms) <= STATEMENT and not several and bool(lows) and lows[0] not in language.greetings,
        long=len(text) > MOST_CHARS or len(terms) > MOST_TERMS,
    )


def _phrase(found: list[Term], at: int, language: Language) -> tuple[str, int]:
    """The one word that replaces the phrase here, and how many words it takes; "" and 1 for none."""
    if found[at].kind == "word" and language.begins_phrase(found[at].low):
        for length in (4, 3, 2):
            words = [word.low for word in found[at : at + length] if word.kind == "word"]
            if len(words) == length:
                for form in (tuple(words), tuple(map(language.base, words))):
                    if form in language.phrases:
                        return language.phrases[form], length
    return "", 1


def pieces(text: str, language: Language, who: str = "") -> Iterator[Term]:
    """Every token as a term; words without meaning have an empty key."""
    text = _NOT.sub(lambda hit: f"{_IRREGULAR_NOT.get(hit[1].lower(), hit[1])} not", text)
    for pattern, instead in _HALVES:
        text = pattern.sub(instead, text)
    found: list[tuple[int, Term]] = []
    for pattern, read in ((_DATES, _date), (_CLOCK, _clock), (_ORDINAL, _ordinal)):
        for hit in pattern.finditer(text):
            found.append((hit.start(), read(hit)))
            text = text[: hit.start()] + " " * len(hit[0]) + text[hit.end() :]
    found += _plain(text, language, who)
    yield from (term for _, term in sorted(found, key=lambda each: each[0]))


def _date(hit: re.Match[str]) -> Term:
    low = hit[0].lower()
    if hit["weekday"]:
        return Term("date", f"day {dates.WEEKDAYS[hit['weekday'].lower()]}", hit[0], low)
    year, month, day = (int(hit["year"]), 0, 0) if hit["year"] else dates.numbers(hit)
    return Term("date", f"{year}-{month}-{day}", hit[0], low, parts=(year, month, day))


def _clock(hit: re.Match[str]) -> Term:
    if hit["h24"]:
        hour, minute = int(hit["h24"]), int(hit["m24"])
    else:
        hour, minute = int(hit["h"]) % 12 + 12 * (hit["half"].lower() == "p"), int(hit["m"] or 0)
    return Term("time", f"{hour}:{minute:02}", hit[0], hit[0], value=Fraction(hour * 60 + minute))


def _ordinal(hit: re.Match[str]) -> Term:
    return _numbered(int(hit[1]), hit[0], hit[0].lower())


def _numbered(number: int, text: str, low: str) -> Term:
    return Term("number", f"#{number}", text, low, value=Fraction(number), unit="#")


def _plain(text: str, language: Language, who: str) -> Iterator[tuple[int, Term]]:
    found = tokens(text)
    unit_at = -1
    for n, token in enumerate(found):
        if n == unit_at or token.kind == "mark":
            continue
        before = found[n - 1] if n else None
        behind = found[n + 1] if n + 1 < len(found) else None
        if token.kind == "number":
            unit = language.units.get(behind.low) if behind and behind.kind == "word" else None
            if unit and not token.unit:
                unit_at = n + 1
            term = _number(token, unit)
        elif token.kind == "word":
            term = _word(token, before, language, who)
            if not term.key and (behind is None or behind.kind == "mark") and language.polar(token.low):
                term = term._replace(key=token.low)  # the light is on
            term = term._replace(led=before is not None and before.low in _LEADS)
        else:
            term = Term("leaf", str(token.value), token.text, token.low)
        yield token.start, term


def version(token: Token) -> bool:
    """Whether a number may be a version, where 3.10 is not 3.1."""
    return "." in token.text and token.text.endswith("0") and not token.unit


def _number(token: Token, measured: tuple[str, Fraction] | None) -> Term:
    amount = Fraction(token.value)
    unit, value = token.unit, amount
    if measured and not unit:
        unit, value = measured[0], amount * measured[1]
    key = token.text if version(token) and not unit else f"{value} {unit}".strip()
    return Term("number", key, token.text, token.low, value=value, unit=unit, amount=amount)


def _word(token: Token, before: Token | None, language: Language, who: str) -> Term:
    low = _CLITIC.sub("", token.low)
    pronoun = _PRONOUNS.get(low)
    if who and pronoun in ("i", "we"):
        return Term("name", who.casefold(), who, low)
    if pronoun:
        return Term("name", pronoun, token.text, low)
    if low in language.negators:
        return Term("word", "not", token.text, low)
    if low in language.silent or len(low) == 1:
        return Term("word", "", token.text, low)
    if low in _ORDINALS and not (before is not None and before.kind == "number"):
        return _numbered(_ORDINALS.index(low) + 1, token.text, low)
    if token.text[:1].isupper() and (not token.first or _may_be_name(low, language)):
        return Term("name", low, token.text, low)
    return Term("word", language.base(low), token.text, low)


def names_of(text: str, language: Language | None = None) -> tuple[str, ...]:
    """Names of people and things in a text, each once, in their order; several words in a row are one name.

    Capital letters mark a name where the sentence does not ask for them. The first word of a sentence is one
    only if `language` is given and does not know the word.
    """
    found = tokens(text[:NAMES_CHARS])
    marked = [(token, _is_name(found, at, language)) for at, token in enumerate(found)]
    names = (
        " ".join(re.sub(r"['’]s$", "", token.text) for token, _ in group)
        for named, group in groupby(marked, lambda each: each[1])
        if named
    )
    return tuple(dict.fromkeys(names))[:MOST_NAMES]


def _may_be_name(low: str, language: Language) -> bool:
    """Whether the capitalised first word of a sentence may be a name: it is no known word."""
    return not (_CONTRACTED.search(low) or low.endswith(_ENDINGS) or language.knows(low.removesuffix("'s")))


def _is_name(found: Sequence[Token], at: int, language: Language | None) -> bool:
    token = found[at]
    if token.kind != "word" or not _CAPITALISED.fullmatch(token.text):
        return False
    if token.low in _NO_NAMES or _CONTRACTED.search(token.low):
        return False
    if not token.first:
        return True
    behind = found[at + 1] if at + 1 < len(found) else None
    if behind and _CAPITALISED.fullmatch(behind.text) and not behind.first and len(token.text) > 1:
        hollow = language is not None and token.low in language.silent | language.greetings
        return behind.low not in _NO_NAMES and not hollow
    if language is None or not _may_be_name(token.low, language):
        return False
    if token.low.endswith("'s") or (behind and behind.text in (",", "and")):
        return True
    return behind is not None and (behind.low in language.bases or behind.low in language.silent)
