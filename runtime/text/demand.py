"""Tells whether a task orders a change or only asks to be told something, by the words of `system/demand.md`.

It reads words and knows no tools: what it cannot tell is `open`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from runtime.text.inflection import verb_forms
from runtime.text.patterns import any_of
from runtime.text.sections import having, sections

Demand = Literal["look", "change", "open"]
NAME = "demand.md"
LONGEST = 4_000
"""Characters of a task that are read; the rest is material that the task is about."""
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|(?<![\w)])'[^'\n]*'(?!\w)", re.S
)
_PATH = re.compile(
    r"(?<!\w)(?:[\w~*.-]*/[\w./*-]*|[\w*-]*\.[A-Za-z]\w{0,6}(?!\w)|(?!(?:CSV|TSV|JSON|YAML|XML|HTML|PDF)\b)[A-Z]{3,}[\w-]*)"
)
_CLAUSE = re.compile(r"[.!?;:,\n()]+(?:\s|$)|\s[-–—]\s|\s(?:and|then|but)\s|\n")
_FILE = "FILE"
_INTO = re.compile(
    r"\b(?:into|onto|as|to|under|called|named|over)\s+(?:(?:a|an|the|my|its|one|new|own|single|file|folder)\s+)*FILE"
    r"|\b(?:in|into|to|as|under)\s+(?:a|an|its|their)\s+(?:\w+\s+){0,2}(?:file|folder|directory)\b"
    r"|\bin\s+(?:place|FILE\s+itself)\b|\bback\s+(?:in)?to\b|\bto\s+disk\b|\binto\s+(?:my|the|our)\s+(?:\w+\s+)?(?:file|folder|notes|list)\b"
)
_COMPARED = re.compile(
    r"^(?:compare|diff|link|relate|difference)\b"
    r"|^(?:find|locate|look\s+for|search\s+for)\b(?:(?!\b(?:in|into|to|as)\b).)*\b(?:called|named)\s+FILE$"
)
_LACKS = re.compile(
    r"\b(?:needs|need|lacks|lack|should|must|shall|has\s+to|have\s+to|ought\s+to|is\s+missing|are\s+missing|wants)\b"
)
_DESIRE = re.compile(
    r"^(?:(?:i\s+(?:want|need|would\s+like|wish)|i'd\s+(?:like|love|prefer)|we\s+(?:want|need|would\s+like)|we'd\s+like)"
    r"(?!\s+to\b)|"
    r"(?:can|could|may)\s+(?:i|we)\s+(?:have|get)|let\s+me\s+have|have|get|see\s+that|see\s+to\s+it|make\s+sure|ensure)\b"
)
_NEGATED = re.compile(r"^(?:don't|do not|never|without|no need to|not)\b")
_PERSON = r"(?:i|you|we|they|he|she|it|any|anything|anyone|somebody)"
_NUMBER = r"[-+]?[\d$€£]"


@dataclass(frozen=True)
class Demands:
    """The words of `demand.md`, as patterns of a clause."""

    courtesies: re.Pattern[str]
    questions: re.Pattern[str]
    looks: re.Pattern[str]
    composes: re.Pattern[str]
    changes: re.Pattern[str]
    had_done: re.Pattern[str]  # `have the old branches removed`
    later: re.Pattern[str]  # a change in another place than at the beginning of a clause
    changed: re.Pattern[str]  # the participles of changes
    arithmetic: re.Pattern[str]
    nouns_after: re.Pattern[str]

    def of(self, task: str) -> Demand:
        """`change` if a clause of the task orders one, `look` if every clause only asks to be told."""
        found: list[Demand] = []
        for clause in _clauses(task):
            demand = self._of_clause(clause)
            if demand == "open" and found[-1:] == ["look"] and _goes_on(clause):
                continue  # `search for reviews and prices`
            if demand:
                found.append(demand)
        if "change" in found:
            return "change"
        return "look" if set(found) == {"look"} else "open"

    def _of_clause(self, clause: str) -> Demand | None:
        """What one clause demands; None for one that demands nothing."""
        wished = bool(_DESIRE.match(clause))
        rest = self._without_courtesies(clause)
        if not rest:
            return None
        if _NEGATED.match(rest):
            return None
        if self.later.search(rest) or self.had_done.match(rest):
            return "change"
        if self.questions.match(rest):
            return "look"
        if _INTO.search(rest) and not _COMPARED.match(rest):
            return "change"
        if self._orders(rest):
            return "change"
        if self.looks.match(rest):
            return "look"
        if self.composes.match(rest):
            return "open"
        if (self.changed if wished else _LACKS).search(rest):
            return "change"
        return self._after_a_place(rest)

    def _without_courtesies(self, clause: str) -> str:
        rest = clause
        while hit := self.courtesies.match(rest):
            rest = rest[hit.end() :]
        return rest

    def _orders(self, text: str) -> bool:
        hit, looks = self.changes.match(text), self.looks.match(text)
        if hit is None or (looks and looks.end() >= hit.end()):  # `add up` only looks, `add` does not
            return False
        after = text[hit.end() :].strip()
        if self.nouns_after.match(after):
            return False
        return not (self.arithmetic.fullmatch(hit[0].strip()) and re.match(_NUMBER, after))

    def _after_a_place(self, text: str) -> Demand:
        """What is said after a place: `in src/a.py rename foo to bar`."""
        for hit in re.finditer(r"\bFILE\b\s*", text):
            after = text[hit.end() :]
            if self.questions.match(after):
                return "look"
            if self._orders(after):
                return "change"
        return "open"


def _goes_on(clause: str) -> bool:
    """Whether a clause is one more thing that the clause before asks for: a single word, and no file."""
    return clause.isalpha() and clause != _FILE


def _clauses(task: str) -> list[str]:
    text = task[:LONGEST].replace("’", "'")
    text = _PATH.sub(_FILE, _QUOTED.sub(" TEXT ", text))
    text = re.sub(r"\b(?!FILE\b|TEXT\b)\w+", lambda word: word[0].lower(), text)
    return [clause for each in _CLAUSE.split(text) if (clause := each.strip(" -*#>\"'"))]


@lru_cache(maxsize=8)
def demands_in(systems: tuple[Path, ...]) -> Demands:
    """The words of `demand.md` in these system folders together. Raises `ConfigurationError` for no text."""
    phrases: dict[str, list[str]] = {}
    for heading, body in sections(systems, NAME, room=""):
        lines = [line for line in body.splitlines() if "|" in line]
        phrases.setdefault(heading, []).extend(each.strip() for line in lines for each in line.split("|"))
    said = {name: phrases.get(name, []) for name in phrases}

    def words(name: str) -> list[str]:
        return [re.sub(r"\s*\(.*?\)", "", each) for each in said.get(name, [])]

    forms = [verb_forms(each) for each in said.get("changes", [])]
    done = any_of(" ".join(each[3]) for each in forms if each)
    ings = [" ".join(each[4]) for each in forms if each]
    changes = words("changes")
    return Demands(
        courtesies=_starting(words("courtesies"), r"[\s,]*"),
        questions=_starting(words("questions")),
        looks=_starting(words("looks")),
        composes=_starting(words("composes")),
        changes=_starting([*changes, *ings]),
        later=re.compile(rf"\b(?:before|after|while|by|when)\s+(?:you\s+)?(?:{any_of(ings)})\b"),
        had_done=re.compile(
            rf"(?:have|get|see)\s+(?!{_PERSON}\b).*\b(?:{done})(?:\s+(?:now|today|again|first))?$"
        ),
        changed=re.compile(rf"\b(?:{done})\b"),
        arithmetic=re.compile(rf"(?:{any_of(words('arithmetic'))})"),
        nouns_after=_starting(words("nouns after")),
    )


def demand(task: str, systems: Sequence[Path]) -> Demand:
    """What a task demands, by the words of these system folders."""
    return demands_in(having(tuple(systems), NAME, room="")).of(task)


def _starting(phrases: Iterable[str], after: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?:{any_of(phrases)})(?![\w'-]){after}")
