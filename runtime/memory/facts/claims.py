"""A statement as claims: what has which value of which attribute, from when until when, and how surely.

Rules read the words of one sentence after another; the words are data of `memory/agreement.md`. What they do
not recognise is a claim without an attribute, not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Literal

from dateutil.relativedelta import relativedelta

from runtime.memory.facts.language import Language
from runtime.memory.facts.records import moment, stamp
from runtime.memory.facts.terms import Term, pieces

Modality = Literal["is", "will", "wants", "may", "example", "asks"]
"""It holds; it is to hold; somebody wishes it; it is possible or hearsay; it is made up; it is a question."""
AWHILE = timedelta(days=7)
"""How long something holds that is only for a while, and does not say until when."""
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
_SENTENCE = re.compile(
    r"(?<!\bMr\.)(?<!\bDr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bLtd\.)(?<!\bInc\.)(?<!\bProf\.)(?<!\bCo\.)"
    r"(?<=[.!?;])[\"')\]]*\s+|\n+"
)
_CLAUSE = re.compile(
    r",?\s+(?:because|so that|although|whereas|where|after)\s+|[,:]\s+(?:(?:and|but|so|since|as|while|which|who)\s+)?"
    r"|\s+and\s+|\s+(?:since|when|once)\s+(?=(?:we|i|they|he|she|it|the|my|our)\b)",
    re.IGNORECASE,
)
_WHO = frozenset("i we they he she".split())  # noqa: SIM905
_ADVERBS = frozenset("now also always never often still just only usually both all".split())  # noqa: SIM905
_FULLY = re.compile(r"\b(?:no longer|any ?more|any longer|enough|won't do)\b")
"""A denial with these is of the whole clause."""
_TOLD = re.compile(r"\b(?:was|were|has been|have been)\b|(?<!\bis )(?<!\bare )\b\w{3,}ed\b")
"""What happened: a day that it names is when."""
_SIDE = re.compile(r"(?<=\bthe )left\b|(?<=\bplays )left\b|(?<=\bplay )left\b|\bleft(?= (?:wing|side|hand|arm|leg|of)\b)")
"""Left that is no form of to leave."""
_MAY = re.compile(r"(?<=\w )May\b")
_FROM = re.compile(r"\b(?:from|since|as of|starting(?: on)?|effective|beginning)\s+", re.IGNORECASE)
_COMING = re.compile(r"\b(?=next |tomorrow\b)", re.IGNORECASE)
_TO = re.compile(r"\s+(?:over\s+)?(?:to|onto|into|until|till)\b", re.IGNORECASE)
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
    """The claims of a text that was said at a stored time ("" if unknown), one for each clause."""
    sentences = (each for each in _SENTENCE.split(text.strip())[:SENTENCES] if each.strip())
    return tuple(claim for each in sentences for claim in _claims(each, at, language))


def modality(text: str, at: str, language: Language) -> Modality | Literal["for a while"]:
    """How a whole text is meant: what any of its claims is besides `is`; what is to come is so, too."""
    claims = claims_of(text, at, language)
    if any(each.temporary for each in claims):
        return "for a while"
    return next((each.modality for each in claims if not each.asserted), "is")


def valid(text: str, at: str, language: Language) -> tuple[str, str]:
    """From when until when a text holds that was said at a stored time, by its first claim.

    Something for a while ends on the day that it names, else after a week.
    """
    claims = claims_of(text, at, language)
    if not claims or not claims[0].asserted:
        return at, ""
    first, later = claims[0], max((each.since for each in claims), default="")
    if first.temporary:
        return at, first.until or (stamp(moment(at) + AWHILE) if at else "")
    return later or at, first.until


def _claims(sentence: str, at: str, language: Language) -> Iterator[Claim]:
    low = _lower(sentence)
    shared = {
        "since": _time(_FROM, sentence, at) or _time(_COMING, sentence, at),
        "until": _time(_UNTIL, sentence, at),
        "modality": modality_of(low, language),
        "temporary": language.cue("for a while", low) or _passing(low, language),
        "change": language.cue("has changed", low),
    }
    for clause in _clauses(sentence, language):
        yield _claim(clause, language, shared)


def _passing(low: str, language: Language) -> bool:
    """Whether a sentence is about one day only: `from today on` and `not today` are not."""
    hit = language.cued("on a day", low)
    if not hit or _TOLD.search(low):
        return False
    return not re.search(rf"\b(?:from|as of|since|not|instead of|due|until) {hit}\b|\bfrom .+ until\b", low)


def _lower(sentence: str) -> str:
    """In lower case, without the name of a month that is a word."""
    low = _MAY.sub("", sentence).lower().replace("’", "'")
    return _SIDE.sub("side", low)


def _clauses(sentence: str, language: Language) -> list[str]:
    """The clauses of a sentence; what has no verb of its own belongs to the one before, unless it denies."""
    found: list[str] = []
    at = 0
    for hit in (*_CLAUSE.finditer(sentence), None):
        part = sentence[at : hit.start() if hit else len(sentence)]
        words = list(pieces(part, language))
        own = _verb([_NOBODY, *words], language) is not None or (words[:1] and words[0].key == "not")
        if not found or own:
            found.append(part)
        else:
            found[-1] += f", {part}"
        at = hit.end() if hit else len(sentence)
    return found


_NOBODY = Term("word", "", "", "")


def _claim(clause: str, language: Language, shared: Mapping[str, Any]) -> Claim:
    words = list(pieces(clause, language))
    verb = _verb(words, language)
    low = _lower(clause)
    gone = list(_gone(low, language))
    change = shared["change"] or bool(gone) or language.cue("becomes another", low)
    denied = any(each.key == "not" for each in words)
    subject, attribute, after = words, "", words
    if verb is not None:
        subject, after = words[:verb], words[verb + 1 :]
        helped = words[verb].low in _AUXILIARIES or words[verb].low in _BE
        while after and (after[0].low in _BE or after[0].low in _AUXILIARIES or after[0].key == "not"):
            after = after[1:]
        attribute = "be" if words[verb].low in _BE else words[verb].base or language.base(words[verb].low)
        if helped and after and after[0].low in language.bases and after[0].low.endswith(("ed", "en", "ing")):
            attribute, after = language.base(after[0].low), after[1:]
        elif attribute == "be":
            attribute, subject = _owned(subject, attribute)
    else:
        subject = []
    value = " ".join(each.text for each in after)
    if denied and (denial := re.search(r"\b(?:not|no|cannot)\b|n't\b", low)):
        told = low[denial.end() :]
        told, _, rest = told.partition(" but ")
        if _FULLY.search(low):
            told = low
        gone.append(told)
        value = rest
    return Claim(
        _keys(subject), attribute, value, old=" ".join(gone).strip(), polarity=not denied,
        **{**shared, "change": change},
    )


@lru_cache(8)
def _patterns(language: Language) -> tuple[re.Pattern[str], ...]:
    """What marks a part of a clause, in lower case, as no longer so."""
    takes, ends, over = (
        language.pattern(each) for each in ("takes the place of", "comes to an end", "is over")
    )
    renames = language.pattern("gets another name")
    stop = r"(?=$|[,.;]|\s(?:to|onto|with|by|for|in favour|but|and|because|after|as|into|on|in|at)\b)"
    be = r"(?:is|are|was|were|been|being|be|got|gets|get)"
    return tuple(
        map(
            re.compile,
            (
                r"\bfrom\s+(?P<old>(?:\S+\s+){1,5}?)(?:(?:over|up|down|back|out)\s+)?(?:to|onto|into|in favour of)\b",
                r"\b(?:instead of|in place of|the place of|rather than|in lieu of|as opposed to|other than"
                r"|formerly|away from|out of|out from|off|used to(?: be)?|up from|down from|went from|later than"
                r"|earlier than|since the move away from)\s+(?P<old>(?:\S+\s*){1,5})",
                r"(?P<old>(?:\S+\s+){1,4})used to\b",
                r"(?P<old>\S+(?:\s+\S+)?)['’]s?\s+(?:place|post|position|role|job|successor|replacement|seat)\b",
                rf"\b(?:{takes})\s+(?!(?:at|on|in|to|by|for|with|up|as|from|until)\b)(?P<old>.{{1,60}}?){stop}",
                *(
                    rf"\b(?:{verbs})\s+(?P<old>(?:\S+\s+){{1,4}}?){particle}\b"
                    for name in ("takes the place of", "becomes another")
                    for verbs, particle in language.around(name)
                    if name != "becomes another" or particle == "over"
                ),
                rf"^(?P<old>.+?)\s+{be}\s+(?:\w+ly\s+|all\s+|been\s+)*(?:{takes}|{over}|{renames})\b",
                rf"^(?P<old>.+?)['’](?:s|ve|re)\s+(?:been\s+)?(?:{takes}|{over})\b",
                rf"^(?P<old>.+?)\s+(?:has|have|had)\s+(?:{over}|{renames})\b",
                rf"^(?P<old>(?:\S+\s+){{1,8}}?)(?:{ends})\b",
                r"\b(?:taken?|took|acquired|bought|inherited|exported|removed|withdrew|withdrawn)\b.*?\bfrom\s+"
                r"(?P<old>(?:\S+\s*){1,4})",
                rf"^(?P<old>(?:\S+\s+){{1,8}}?)(?:{renames})\b",
                r"^(?P<old>.+?)\s+(?:has\s+|have\s+)?(?:handed|passed|gave|given|transferred|ceded|delegated)\b.*\bto\b",
                r"\b\w+\s+(?P<old>(?:\S+\s+){1,4}?)into\s+an?\b",
                r"\b(?:former|previous|old)\s+(?P<old>\S+)",
                rf"\b(?:{renames})\s+(?P<old>.{{1,40}}?)(?:\s+(?:to|into|as|onto|after)\b|$|,)",
            ),
        )
    )


def _gone(low: str, language: Language) -> Iterator[str]:
    """The parts of a clause, in lower case, that no longer hold."""
    for pattern in _patterns(language):
        for hit in pattern.finditer(low):
            yield hit["old"]


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
        if words[at - 1].low in _WHO and word.kind == "word" and word.key and word.key != "not" and word.low not in _ADVERBS:
            return at
        if word.low in _BE or word.low in _AUXILIARIES:
            return at
        if found is None and word.low in language.bases and not word.low.endswith("ing"):
            plain = word.low == language.base(word.low)
            if not plain or words[at - 1].low in _MANY or words[at - 1].low.endswith("s"):
                found = at
    return found if found is not None else _perhaps_verb(words)


def _perhaps_verb(words: list[Term]) -> int | None:
    """The place of an unknown word that looks like a verb: `grazes` after a noun."""
    for at, word in enumerate(words):
        known = at > 0 and word.kind == "word" and word.key and words[at - 1].key and word.key != "not"
        if known and words[at - 1].low not in _NO_VERB_AFTER and re.search(r"(?<![su])s$|ed$", word.low):
            return at
    return None


def _owned(before: list[Term], attribute: str) -> tuple[str, list[Term]]:
    """`rent` and `flat` of "the rent of the flat", and of "the flat's rent"."""
    for at, word in enumerate(before):
        if word.low == "of" and at:
            return _keys(before[:at]) or attribute, before[at + 1 :]
        if word.text.endswith(("'s", "’s")) and at + 1 < len(before):
            return _keys(before[at + 1 :]) or attribute, before[: at + 1]
    return attribute, before


def _time(cue: re.Pattern[str], sentence: str, at: str) -> str:
    """The start of the day named behind a cue such as "from" or "until"; "" if none is."""
    said = moment(at).date() if at else None
    for hit in cue.finditer(sentence):
        if (found := _WHEN.match(sentence, hit.end())) and not _TO.match(sentence, found.end()):
            with suppress(ValueError):  # 31 June
                day = _day(found, said)
                return stamp(moment(day.isoformat())) if day else ""
    return ""


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
