"""What a question wants: the kind of its answer, what it is about, and the time that it asks about.

The words are data (`memory/recall.md`). A question that no word gives away wants any kind of answer, now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from runtime.memory.facts.retrieval.language import LONGEST, Language, any_of, words
from runtime.memory.facts.retrieval.times import Span, Times

YES_NO = "yes or no"
_BEFORE = r"(?:and|but|so|on|at|in|from|since|until|till|by|for|to|with|of|under|after|up to)"
_TRUE = r"is it (?:true|right|correct|so) that"
_CLOCK = re.compile(
    r"\b\d{1,2}[:.]\d\d\b|\bo['’]clock\b|\bhalf past\b|\bquarter (?:past|to)\b|\bnoon\b|\bmidnight\b"
    r"|\b\d{1,2} ?[ap]\.?m\b|\b(?:at|till|until|by|before|after|from) (?:\d{1,2}|one|two|three|four|five|six"
    r"|seven|eight|nine|ten|eleven|twelve)\b(?! (?:euros?|percent|per|stations?))|\b(?:morning|afternoon|evening"
    r"|night)s?\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,;:)’'\"] )[A-ZÀ-ÖØ-Þ][\w’'-]+|^[A-ZÀ-ÖØ-Þ][\w-]+(?=['’]s |,? (?:and|is|was|has|will) )")


@dataclass(frozen=True)
class Wanted:
    """What a question asks for."""

    kind: str = ""  # of its answer: person, time, place, amount, …; "" if any will do
    about: tuple[str, ...] = ()  # its words in lower case, without those that only ask
    names: frozenset[str] = frozenset()  # those of them that are names
    spans: tuple[Span, ...] = ()  # the days that it asks about; none for now
    past: bool = False  # what no longer holds is asked for
    event: bool = False  # what was said or done in those days is asked for, not what held
    asks: bool = False  # it is a question, not only words to look for

    def covers(self, first: int, last: int) -> bool:
        """Whether one of the days asked about is among these (ordinals, both included)."""
        return any(first <= span.last and span.first <= last for span in self.spans)


class Questions:
    """Reads questions by the words of a language."""

    def __init__(self, language: Language, times: Times) -> None:
        self.language, self.times = language, times
        kinds = {phrase: kind for kind, phrases in language.asks.items() for phrase in phrases}
        self._kinds = kinds
        begin = rf"^(?:(?:please )?(?:can you |could you )?(?:tell me |do you know |say )|{_BEFORE} )*"
        self._asks = re.compile(rf"{begin}(?P<phrase>{any_of(kinds)})\b", re.IGNORECASE)
        self._any = re.compile(rf"{begin}(?:{any_of(language.question_words)})\b", re.IGNORECASE)
        self._yes_no = re.compile(rf"^(?:{_TRUE}|(?:{any_of(language.auxiliaries)}|am)\b)", re.IGNORECASE)
        self._past = re.compile(rf"\b(?:{any_of(language.past)})\b", re.IGNORECASE)
        self._shown = {
            kind: re.compile(rf"\b(?:{any_of(phrases)})\b", re.IGNORECASE)
            for kind, phrases in language.shows.items()
        }
        self._number = re.compile(rf"\d|\b(?:{any_of(word for word, n in language.numbers.items() if n > 1)})\b", re.IGNORECASE)

    @lru_cache(maxsize=256)  # noqa: B019  (one of these lives as long as its index)
    def read(self, text: str, today: int) -> Wanted:
        """What a text asks for on a day (its ordinal)."""
        text = " ".join(text[:LONGEST].replace("’", "'").split())
        spans = self.times.spans(text, today)
        hit = self._asks.search(text)
        kind = self._kinds[hit["phrase"].casefold()] if hit else ""
        any_word = self._any.search(text)
        if not hit and self._yes_no.search(text):
            kind = YES_NO
        low = words(text)
        if kind in ("", "place") and any_word and not self.language.amounts.isdisjoint(low):
            kind = "amount"
        rest = text[hit.end() :] if hit else text
        dull = self.language.dull | self.language.question_words
        told = {word for word in low if word in self.times.tells_words or word.isdecimal()} if spans else set[str]()
        about = tuple(dict.fromkeys(word for word in words(rest) if word not in dull and word not in told))
        names = {word for each in _NAME.findall(text) for word in words(each) if word in about}
        ago = bool(spans) and max(span.last for span in spans) < today
        return Wanted(
            kind=kind,
            about=about,
            names=frozenset(names),
            spans=spans,
            past=ago or bool(self._past.search(text)),
            event=not self.language.happened.isdisjoint(low),
            asks=bool(hit or any_word or kind) or text.endswith("?"),
        )

    def shows(self, kind: str, text: str) -> bool:
        """Whether a text may answer a question that wants this kind."""
        if kind == "person":
            return bool(_NAME.search(text) or self._shown["person"].search(text))
        if kind == "time":
            return self.times.tells(text) or bool(_CLOCK.search(text)) or bool(self.times.spans(text, 1_000))
        if kind == "amount":
            return bool(self._number.search(text))
        return kind not in self._shown or bool(self._shown[kind].search(text))
