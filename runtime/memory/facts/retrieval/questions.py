"""What a question wants: the kind of its answer, what it is about, and the time that it asks about.

The words are data (`memory/recall.md`). A question that no word gives away wants any kind of answer, now.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from runtime.memory.facts.retrieval.language import LONGEST, Language, language_of, words
from runtime.memory.facts.retrieval.times import Span, Times
from runtime.text.patterns import any_of

YES_NO = "yes or no"
SOME_DAY = 730_000
"""For a text of which only matters whether it names days."""
_BEFORE = r"(?:and|but|so|on|at|in|from|since|until|till|by|for|to|with|of|under|after|up to)"
_TRUE = r"is it (?:true|right|correct|so) that"
_HOURS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_CLOCK = re.compile(
    rf"\b(?:half past|quarter (?:past|to)) \w+|\b\d{{1,2}}:\d\d\b|\b(?:\d{{1,2}}|{_HOURS}) o['’]clock\b"
    rf"|\bnoon\b|\bmidnight\b|\b\d{{1,2}} ?[ap]\.?m\b"
    rf"|\b(?:at|till|until|by) (?:\d{{1,2}}|{_HOURS})\b(?! \w+s\b)|\b(?:morning|afternoon|evening|night)s?\b",
    re.IGNORECASE,
)
"""A time of day."""
_NAME = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|Miss)\b\.? [A-ZÀ-ÖØ-Þ][\w’'-]+|(?<![.!?] )(?<!^)\b[A-ZÀ-ÖØ-Þ][\w’'-]+"
    r"|^[A-ZÀ-ÖØ-Þ][\w-]+(?= [A-Z]|['’]s |,? (?:and|is|was|has|will|had|may|can|[a-z]+(?:s|ed)) )"
)
_OWNED = re.compile(r"\w['’]s? +[a-z]|s['’] +[a-z]")
_CURRENCIES = "euros?|dollars?|pounds?|cents?|francs?|kroner|crowns?"
_MONEY = re.compile(
    rf"[$€£] ?\d|\d[\d,.]* ?(?:[$€£]|(?:{_CURRENCIES})\b)|\bfree of charge\b|\bfor free\b"
    r"|\b\d[\d,]*(?:\.\d+)?(?= (?:each|apiece|a|an|per|for|from|until|in|as|of|at|instead|more|less)\b"
    r"|[,;:]? and\b|[.,;!?]*(?:$|[.!?] ))",
    re.IGNORECASE,
)
"""A sum of money, or a number that counts no things."""


@dataclass(frozen=True)
class Wanted:
    """What a question asks for."""

    kind: str = ""  # of its answer: person, time, place, amount, …; "" if any will do
    about: tuple[str, ...] = ()  # its words in lower case, without those that only ask
    names: frozenset[str] = frozenset()  # those of them that are names
    spans: tuple[Span, ...] = ()  # the days that it asks about; none for now
    past: bool = False  # what no longer holds is asked for
    event: bool = False  # what was said or done in those days is asked for, not what held
    pays: bool = False  # it asks who pays
    asks: bool = False  # it is a question, not only words to look for

    @property
    def last(self) -> int:
        """The last day that it asks about, 0 for now."""
        return max((span.last for span in self.spans), default=0)

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
        self._weekdays = re.compile(
            rf"\b(?:on |every )?(?:{any_of(day.casefold() for day in calendar.day_name)})s?\b", re.IGNORECASE
        )
        self._number = re.compile(
            rf"\d|\b(?:{any_of(word for word, n in language.numbers.items() if n > 1)})\b", re.IGNORECASE
        )

    @cached_property
    def empty(self) -> frozenset[str]:
        """Words that only ask, or say nothing."""
        language = self.language
        asking = (word for phrase in self._kinds for word in phrase.split())
        return frozenset({*language.dull, *language.question_words, *language.auxiliaries, *asking})

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
        if kind in ("", "amount") and any_word and not self.language.prices.isdisjoint(low):
            kind = "price" if not hit or hit["phrase"].casefold() == "how much" else kind
        elif not kind and any_word and not self.language.amounts.isdisjoint(low):
            kind = "amount"
        rest = text[hit.end() :] if hit else text
        dull = self.language.dull | self.language.question_words
        if yes_no := self._yes_no.match(text):
            rest = text[yes_no.end() :]
        told = (
            {word for word in low if word in self.times.tells_words or word.isdecimal()}
            if spans
            else set[str]()
        )
        about = tuple(dict.fromkeys(word for word in words(rest) if word not in dull and word not in told))
        names = {word for each in _NAME.findall(text) for word in words(each) if word in about}
        ago = bool(spans) and max(span.last for span in spans) < today
        return Wanted(
            kind=kind,
            about=about,
            names=frozenset(names),
            spans=spans,
            past=ago or bool(self._past.search(text)),
            pays=kind == "person" and not self.language.prices.isdisjoint(about),
            event=not self.language.happened.isdisjoint(low),
            asks=bool(hit or any_word or kind) or text.endswith("?"),
        )

    def asks(self, text: str) -> bool:
        """Whether a text is worded as a question."""
        text = " ".join(text[:LONGEST].replace("’", "'").split())
        return bool(self._asks.search(text) or self._any.search(text) or self._yes_no.search(text))

    def answers(self, wanted: Wanted, text: str, names: Collection[str] = ()) -> bool:
        """Whether a text may answer: it shows the kind, and is about money if a question who pays is."""
        paid = not wanted.pays or not self.language.prices.isdisjoint(words(text))
        return paid and self.shows(wanted.kind, text, wanted.names, names)

    def shows(
        self, kind: str, text: str, but: frozenset[str] = frozenset(), names: Collection[str] = ()
    ) -> bool:
        """Whether a text may answer a question that wants this kind.

        `but` are names that the question has; `names` those that the text is known to mention.
        """
        if kind == "name":
            return self._names_another(text, but)
        if kind == "person":
            first = next((each for each in names if text.startswith(each)), "")
            known = bool(first) and but.isdisjoint(words(first))
            return known or self._names_another(text, but) or bool(self._shown["person"].search(text))
        if kind == "time":
            dated = self.times.tells(text) or self.times.spans(text, SOME_DAY)
            return bool(dated or _CLOCK.search(text) or self._weekdays.search(text))
        if kind in ("amount", "price", "place"):
            text = self._weekdays.sub(" ", _CLOCK.sub(" ", self.times.without(text)))
            pattern = {"amount": self._number, "price": _MONEY, "place": self._shown["place"]}[kind]
            return bool(pattern.search(text))
        return kind not in self._shown or bool(self._shown[kind].search(text))

    def _names_another(self, text: str, but: frozenset[str]) -> bool:
        """Whether a text names somebody whom the question does not."""
        for hit in _NAME.finditer(text):
            told = set(words(hit[0].removesuffix("'s").removesuffix("’s")))
            if not told & but and not _OWNED.match(text, hit.end() - 3) and not told & self.times.tells_words:
                return True
        return False


@cache
def questions_of(systems: tuple[Path, ...] = ()) -> Questions:
    """The reader of questions by the words of these system folders; the shipped ones if none is given."""
    language = language_of(systems)
    return Questions(language, Times(language))
