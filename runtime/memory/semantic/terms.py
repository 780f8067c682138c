"""A saying as the terms that carry its meaning: words in base form, numbers, dates, names, denials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from runtime.memory.procedural.leaves import Token, tokens
from runtime.memory.semantic.language import Language
from runtime.memory.semantic.names import first_word

Kind = Literal["word", "name", "number", "date", "time", "leaf"]
STATEMENT = 14
"""Terms of a plain statement."""
LONGEST = 240
"""Terms of a saying; of a longer one nobody can tell whether it agrees with another."""
_MONTHS = {name: n for n, name in enumerate(re.findall("...", "janfebmaraprmayjunjulaugsepoctnovdec"), 1)}
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_DATES = re.compile(
    rf"""\b(?:
      (?P<iso>\d{{4}}-\d\d(?:-\d\d)?)(?!\d)
    | (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<m1>{_MONTH})\b\.?(?:,?\s+(?P<y1>\d{{4}}))?
    | (?P<m2>{_MONTH})\b\.?\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d)(?:,?\s+(?P<y2>\d{{4}}))?
    | (?P<m3>january|february|march|april|june|july|august|september|october|november|december|May)\b
      (?:\s+(?P<y3>\d{{4}}))?
    | (?P<day>monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?\b
    | (?P<year>(?<=in\s)(?:19|20)\d\d|(?<=since\s)(?:19|20)\d\d|(?<=of\s)(?:19|20)\d\d)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?:(?P<h>\d{1,2})(?::(?P<m>\d\d))?\s*(?P<half>[ap])\.?m\b\.?|(?P<h24>[01]?\d|2[0-3]):(?P<m24>\d\d)\b)",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_HALF = re.compile(r"\b(?:an?|one)\s+(\w+)\s+and\s+a\s+half\b", re.IGNORECASE)
_HALF_OF = re.compile(r"\bhalf\s+(?:of\b|the\b)", re.IGNORECASE)
_HALF_UNIT = re.compile(r"\bhalf\s+an?\s+(?=\w)", re.IGNORECASE)
_NOT = re.compile(r"\b(ca|wo|sha|\w+)n['’]t\b", re.IGNORECASE)
_TITLE = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs)\.")
_EQUATED = re.compile(r"\b(?:is|are|was|were)\s+(?:the|my|our|his|her|their)\b", re.IGNORECASE)
_SEVERAL = re.compile(r"[.!?…][\"')\]]*\s+\S|\?|\n\s*\S")
_ME = frozenset("i me my mine myself".split())  # noqa: SIM905
_US = frozenset("we us our ours ourselves".split())  # noqa: SIM905
_THIRD = {"he": "he", "him": "he", "himself": "he", "she": "she", "herself": "she"}
_LEADS = frozenset("the a an my your his her its our their this that these those".split())  # noqa: SIM905
_BE = frozenset("is are was were be 's".split())  # noqa: SIM905


class Term(NamedTuple):
    """A piece of meaning: `key` is what it is compared by."""

    kind: Kind
    key: str
    at: int  # its place among the terms
    value: Fraction | None = None
    unit: str = ""  # of a number: its dimension
    parts: tuple[int, int, int] = (0, 0, 0)  # year, month, day of a date; 0 for what is not told
    text: str = ""
    low: str = ""
    amount: Fraction | None = None  # of a number: without its unit
    led: bool = False  # it stands behind an article or possessive
    base: str = ""  # of a word or a name


@dataclass(frozen=True)
class Terms:
    """A saying taken apart."""

    terms: tuple[Term, ...] = ()
    denials: int = 0
    ended: bool = False  # it says `no longer`
    copula: bool = False  # its verb is a form of `be`
    passive: bool = False
    lows: frozenset[str] = field(default_factory=frozenset[str])  # all of its words, as written
    equated: bool = False  # it says who or what is the one: Kim is the lead
    past: bool = False  # its verb tells of the past
    plain: bool = False  # one statement, short enough to be held against another
    long: bool = False


def terms_of(text: str, language: Language, who: str = "") -> Terms:
    """The terms of what somebody said; `I` and `we` are that person where one is named."""
    found = list(_pieces(text[:4000], language, who))
    terms: list[Term] = []
    denials = ended = 0
    at = 0
    while at < len(found):
        piece = found[at]
        phrase, took = _phrase(found, at, language)
        if phrase == "nolonger":
            ended += 1
        elif phrase:
            terms.append(Term("word", phrase, len(terms), text=phrase, low=phrase, base=phrase))
        elif piece.key == "not":
            denials += 1
        elif piece.key:
            base = language.base(piece.key) if piece.kind in ("word", "name") else ""
            terms.append(piece._replace(at=len(terms), base=base))
        at += took
    lows = [piece.low for piece in found if piece.kind in ("word", "name")]
    plain = len(terms) <= STATEMENT and not _SEVERAL.search(_TITLE.sub("", text.strip()))
    return Terms(
        tuple(terms),
        denials + ended,
        bool(ended),
        bool(_BE & set(lows)),
        "by" in lows and bool(_BE & set(lows)),
        frozenset(lows),
        bool(_EQUATED.search(text)),
        any(low in ("was", "were", "had", "did") or _past(low, language) for low in lows),
        plain and bool(lows) and lows[0] not in language.greetings,
        len(text) > 4000 or len(terms) > LONGEST,
    )


def _past(low: str, language: Language) -> bool:
    base = language.base(low)
    return low != base and (low.endswith("ed") or (low in language.bases and not low.endswith(("s", "ing"))))


def _phrase(found: list[Term], at: int, language: Language) -> tuple[str, int]:
    """A phrase of several words that one stands for, and how many it takes."""
    if found[at].kind != "word" or not language.begins_phrase(found[at].low):
        return "", 1
    for length in (4, 3, 2):
        words = found[at : at + length]
        if len(words) == length and all(word.kind == "word" for word in words):
            for form in (tuple(word.low for word in words), tuple(language.base(word.low) for word in words)):
                if form in language.phrases:
                    return language.phrases[form], length
    return "", 1


def _pieces(text: str, language: Language, who: str) -> Iterator[Term]:
    """Every token, those that say nothing with an empty key."""
    text = _NOT.sub(
        lambda hit: ({"ca": "can", "wo": "will", "sha": "shall"}.get(hit[1].lower(), hit[1])) + " not", text
    )
    text = _HALF.sub(r"1.5 \1s", text)
    text = _HALF_OF.sub("50% ", text)
    text = _HALF_UNIT.sub("0.5 ", text)
    dated: list[tuple[int, Term]] = []
    for pattern, read in ((_DATES, _date), (_CLOCK, _clock), (_ORDINAL, _ordinal)):
        for hit in pattern.finditer(text):
            if (term := read(hit)) is not None:
                dated.append((hit.start(), term))
                text = text[: hit.start()] + " " * len(hit[0]) + text[hit.end() :]
    plain = list(_plain(text, language, who))
    yield from (term for _, term in sorted([*dated, *plain], key=lambda each: each[0]))


def _date(hit: re.Match[str]) -> Term | None:
    told = hit.groupdict()
    if told["iso"]:
        parts = [int(part) for part in told["iso"].split("-")]
        return _dated(parts[0], parts[1], parts[2] if len(parts) > 2 else 0, hit[0])
    if told["day"]:
        return Term("date", f"day {_DAYS.index(told['day'].lower())}", 0, text=hit[0], low=hit[0].lower())
    if told["year"]:
        return _dated(int(told["year"]), 0, 0, hit[0])
    for n in ("1", "2", "3"):
        if told[f"m{n}"]:
            month = _MONTHS[told[f"m{n}"][:3].lower()]
            return _dated(int(told[f"y{n}"] or 0), month, int(told.get(f"d{n}") or 0), hit[0])
    return None


def _dated(year: int, month: int, day: int, text: str) -> Term:
    return Term("date", f"{year}-{month}-{day}", 0, parts=(year, month, day), text=text, low=text.lower())


def _clock(hit: re.Match[str]) -> Term | None:
    if hit["h24"]:
        hour, minute = int(hit["h24"]), int(hit["m24"])
    else:
        hour, minute = int(hit["h"]) % 12 + 12 * (hit["half"].lower() == "p"), int(hit["m"] or 0)
    return Term("time", f"{hour}:{minute:02}", 0, Fraction(hour * 60 + minute), text=hit[0], low=hit[0])


def _ordinal(hit: re.Match[str]) -> Term:
    return Term("number", f"#{int(hit[1])}", 0, Fraction(int(hit[1])), "#", text=hit[0], low=hit[0].lower())


def _plain(text: str, language: Language, who: str) -> Iterator[tuple[int, Term]]:
    found = tokens(text)
    skip = -1
    for n, token in enumerate(found):
        if n == skip or token.kind == "mark":
            continue
        behind = found[n + 1] if n + 1 < len(found) else None
        if token.kind == "number":
            term, took = _number(token, behind, language)
            skip = n + 1 if took else -1
            yield token.start, term
        elif token.kind == "word":
            before = found[n - 1] if n else None
            term = _word(token, before, language, who)
            last = behind is None or behind.kind == "mark"
            if not term.key and last and language.polar(token.low):
                term = term._replace(key=token.low)  # the light is on
            yield token.start, term._replace(led=before is not None and before.low in _LEADS)
        else:
            yield token.start, Term("leaf", str(token.value), 0, text=token.text, low=token.low)


def _number(token: Token, behind: Token | None, language: Language) -> tuple[Term, bool]:
    value = Fraction(token.value)
    unit, took = token.unit, False
    if not unit and behind is not None and behind.kind == "word" and behind.low in language.units:
        unit, size = language.units[behind.low]
        value, took = value * size, True
    key = f"{value} {unit}".strip()
    if "." in token.text and token.text.endswith("0") and not unit:
        key = token.text  # a version: 3.10 is not 3.1
    amount = Fraction(token.value)
    return Term("number", key, 0, value, unit, text=token.text, low=token.low, amount=amount), took


def _word(token: Token, before: Token | None, language: Language, who: str) -> Term:
    low = token.low.removesuffix("'s").removesuffix("'m").removesuffix("'ve").removesuffix("'re")
    low = low.removesuffix("'d").removesuffix("'ll")
    if who and (low in _ME or low in _US):
        return Term("name", who.casefold(), 0, text=who, low=low)
    if low in _ME:
        return Term("name", "i", 0, text=token.text, low=low)
    if low in _US:
        return Term("name", "we", 0, text=token.text, low=low)
    if low in _THIRD:
        return Term("name", _THIRD[low], 0, text=token.text, low=low)
    if low in language.negators:
        return Term("word", "not", 0, text=token.text, low=low)
    if low in language.silent or len(low) == 1:
        return Term("word", "", 0, text=token.text, low=low)
    ordinal = low in _ORDINALS and not (before is not None and before.kind == "number")
    if ordinal:
        number = _ORDINALS.index(low) + 1
        return Term("number", f"#{number}", 0, Fraction(number), "#", text=token.text, low=low)
    base = language.base(low)
    named = token.text[:1].isupper() and (not token.first or first_word(low, language))
    return Term("name" if named else "word", low if named else base, 0, text=token.text, low=low)
