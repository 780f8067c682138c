"""A statement as claims: what has which value of which attribute, from when until when, and how surely.

Rules read the words of one sentence after another; the words are data of `memory/agreement.md`. What they do
not recognise is a claim without an attribute, not a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal

from dateutil.relativedelta import relativedelta

from runtime.memory.facts.language import Language
from runtime.memory.facts.records import moment, stamp
from runtime.memory.facts.terms import Term, pieces

Modality = Literal["is", "will", "wants", "may", "example", "asks"]
"""It holds; it is to hold; somebody wishes it; it is possible or hearsay; it is made up; it is a question."""
SENTENCES = 8
"""Sentences of one text that are read."""


@dataclass(frozen=True)
class Claim:
    """One thing that a text says. Words are in base form, in their order, with spaces between."""

    subject: str = ""  # who or what: `flat` of "the rent of the flat is 900 euros"
    attribute: str = ""  # the relation or verb: `rent`, `live`; `be` for a plain "is"
    value: str = ""  # as it is written, without what tells the time
    old: str = ""  # the value that it says no longer holds, as it is written
    since: str = ""  # stored time from which it holds; "" if the text does not say
    until: str = ""  # stored time until which it holds
    polarity: bool = True  # False: it denies this
    modality: Modality = "is"
    change: bool = False  # it says that something has changed
    temporary: bool = False  # an exception for a while, after which the earlier value holds again

    @property
    def asserted(self) -> bool:
        """Whether it says how things are or will be, and may end what was said before."""
        return self.modality in ("is", "will")


_BE = frozenset("is are was were am 's 're 'm been be".split())  # noqa: SIM905
_AUXILIARIES = frozenset("has have had will shall do does did can must would could may might".split())  # noqa: SIM905
_NO_VERB_AFTER = frozenset("the a an my our your his her its their this that these those of to".split())  # noqa: SIM905
_MANY = frozenset("i we you they".split())  # noqa: SIM905
_SENTENCE = re.compile(r"(?<!\bMr\.)(?<!\bDr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)(?<=[.!?;])[\"')\]]*\s+|\n+")
_CLAUSE = re.compile(
    r",?\s+(?:because|so that|although|whereas)\s+|,\s+(?:(?:and|but|so|since|as|while|which|who)\s+)?",
    re.IGNORECASE,
)
_OLD = re.compile(
    r"\b(?:from\s+(?P<from>[\w.:' -]+?)\s+(?:over\s+)?(?:to|onto|into)\b"
    r"|(?:instead of|in place of|rather than|no longer(?: at| in| on)?|replac\w+)\s+(?P<old>[\w.' -]+?)"
    r"(?=\s+(?:to|onto|into|with|by|for|but|on|in|at|any ?more|now)\b|[,.;!?]|$))",
    re.IGNORECASE,
)
_MAY = re.compile(r"(?<=\w )May\b")
_FROM = re.compile(r"\b(?:from|since|as of|starting(?: on)?|effective|beginning)\s+", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|till|up to and including|through)\s+", re.IGNORECASE)
_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
_WHEN = re.compile(
    rf"""(?:the\s+)?(?:
      (?P<iso>\d{{4}}-\d\d-\d\d)
    | (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<m1>{"|".join(_MONTHS)})(?:,?\s+(?P<y1>\d{{4}}))?
    | (?P<m2>{"|".join(_MONTHS)})\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y2>\d{{4}}))?
    | (?P<next>next|this|coming)?\s*(?P<day>{"|".join(_DAYS)})s?\b
    | (?P<m3>{"|".join(_MONTHS)})(?:\s+(?P<y3>\d{{4}}))?\b
    | (?P<fixed>today|tomorrow|now\ on|next\ week|next\ month|next\ year)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)


@lru_cache(4096)
def claims_of(text: str, at: str, language: Language) -> tuple[Claim, ...]:
    """The claims of a text that was said at a stored time ("" if unknown), one for each sentence."""
    found = (_claim(each, at, language) for each in _SENTENCE.split(text.strip())[:SENTENCES] if each.strip())
    return tuple(claim for claim in found if claim is not None)


def _claim(sentence: str, at: str, language: Language) -> Claim | None:
    low = _MAY.sub("", sentence).lower().replace("’", "'")
    since, until = _time(_FROM, sentence, at), _time(_UNTIL, sentence, at)
    modality = modality_of(low, language)
    temporary = language.cue("for a while", low)
    main = next((each for each in _CLAUSE.split(sentence) if each.strip()), "")
    words = list(pieces(main, language))
    if not words:
        return None
    verb = _verb(words, language)
    shared = {
        "since": since,
        "until": until,
        "modality": modality,
        "temporary": temporary,
        "change": language.cue("has changed", low) or _has_change_verb(words, language),
        "polarity": sum(each.key == "not" for each in words) % 2 == 0,
        "old": (old["from"] or old["old"]).strip() if (old := _OLD.search(sentence)) else "",
    }
    if verb is None:
        return Claim(value=" ".join(each.text for each in words), **shared)
    before, after = words[:verb], words[verb + 1 :]
    while after and (after[0].low in _BE or after[0].low in _AUXILIARIES or after[0].key == "not"):
        after.pop(0)
    is_copula = words[verb].low in _BE
    attribute = "be" if is_copula else language.base(words[verb].low)
    helped = words[verb].low in _AUXILIARIES or words[verb].low in _BE
    if helped and after and after[0].low in language.bases and after[0].low.endswith(("ed", "en", "ing")):
        attribute = language.base(after.pop(0).low)
    subject = before
    if is_copula:
        attribute, subject = _owned(before, attribute)
    value = " ".join(each.text for each in after)
    return Claim(_keys(subject), attribute, value, **shared)


def modality_of(low: str, language: Language) -> Modality:
    """How a sentence in lower case is meant."""
    if low.rstrip().endswith("?"):
        return "asks"
    for modality in ("example", "wants", "may"):
        if language.cue(modality, low):
            return modality
    return "will" if re.search(r"\b(?:will|shall|going to)\b|'ll\b", low) else "is"


def _keys(words: list[Term]) -> str:
    return " ".join(each.key for each in words if each.key)


def _verb(words: list[Term], language: Language) -> int | None:
    """The place of the main verb: the first form of a verb, or a later `is` or `has` (the dog's bed is)."""
    found: int | None = None
    for at, word in enumerate(words):
        if at == 0 or word.kind not in ("word", "name") or words[at - 1].low in _NO_VERB_AFTER:
            continue
        if word.low in _BE or word.low in _AUXILIARIES:
            return at
        if found is None and word.low in language.bases and not word.low.endswith("ing"):
            plain = word.low == language.base(word.low)
            if not plain or words[at - 1].low in _MANY or words[at - 1].low.endswith("s"):
                found = at
    return found


def _owned(before: list[Term], attribute: str) -> tuple[str, list[Term]]:
    """`rent` and `flat` of "the rent of the flat", and of "the flat's rent"."""
    for at, word in enumerate(before):
        if word.low == "of" and at:
            return _keys(before[:at]) or attribute, before[at + 1 :]
        if word.text.endswith(("'s", "’s")) and at + 1 < len(before):
            return _keys(before[at + 1 :]) or attribute, before[: at + 1]
    return attribute, before


def _has_change_verb(words: list[Term], language: Language) -> bool:
    return any(word.base in language.begins | language.ends for word in words)


def _time(cue: re.Pattern[str], sentence: str, at: str) -> str:
    """The time named behind a cue such as "from" or "until"; "" if none is."""
    for hit in cue.finditer(sentence):
        if found := _WHEN.match(sentence, hit.end()):
            return when(found, at)
    return ""


def when(hit: re.Match[str], at: str) -> str:
    """The start of the day that is named, seen from a stored time; "" if it cannot be told."""
    said = moment(at).date() if at else None
    try:
        day = _day(hit, said)
    except ValueError:  # 31 June
        return ""
    return stamp(moment(day.isoformat())) if day else ""


def _day(hit: re.Match[str], said: date | None) -> date | None:
    if hit["iso"]:
        return date.fromisoformat(hit["iso"])
    for n in "123":
        if hit[f"m{n}"]:
            month = _MONTHS.index(hit[f"m{n}"].lower()) + 1
            number = int(hit[f"d{n}"]) if n != "3" else 1
            if hit[f"y{n}"]:
                return date(int(hit[f"y{n}"]), month, number)
            return _nearest(month, number, said) if said else None
    if said is None:
        return None
    if hit["day"]:
        ahead = (_DAYS.index(hit["day"].lower()) - said.weekday()) % 7 or 7
        return said + timedelta(ahead)
    fixed = hit["fixed"].lower()
    if fixed in ("today", "now on"):
        return said
    if fixed == "tomorrow":
        return said + timedelta(1)
    if fixed == "next week":
        return said + timedelta(7 - said.weekday())
    month = said.replace(day=1)
    return (
        month + relativedelta(months=1)
        if fixed == "next month"
        else month.replace(month=1) + relativedelta(years=1)
    )


def _nearest(month: int, day: int, said: date) -> date:
    """The day of a month that is nearest to the day on which it was said."""
    years = (date(said.year + by, month, day) for by in (-1, 0, 1))
    return min(years, key=lambda each: abs((each - said).days))
