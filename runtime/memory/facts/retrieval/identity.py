"""Whether a line is about what a question names: its names, numbers and identifiers, each beside its word.

`room 2` is not `room 3`, and `grandma's birthday` is not `grandpa's`, however near they are to an embedder.
Nor is the train to Bonn the one from Bonn: words that relate things count as well (`Relate` of `recall.md`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runtime.text.inflection import regular_stem as stem

_WORD = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W_]+(?:[-'’][^\W_]+)*")
_ASKED = ("what", "which", "many")
_OWNER = re.compile(r"['’]s$|(?<=s)['’]$")


@dataclass(frozen=True)
class _Word:
    key: str
    names: bool  # a number, a letter, or written as a name
    owns: bool  # it has 's
    relates: (
        bool  # a direction, a relation, or a unit of time: the key is the same for words that mean the same
    )

    @property
    def identifies(self) -> bool:
        return self.names or self.owns


def answers_literally(question: str, line: str, dull: Collection[str], relations: Mapping[str, str]) -> bool:
    """Whether a line is the question with one gap filled: it has all of its words, and the rest is one piece.

    Each name, number and identifier stands beside the word that it stands beside in the question.
    """
    asked, told = (_words(text, dull, relations) for text in (question, line))
    wanted = {each.key for each in asked}
    if not wanted or not wanted <= {each.key for each in told} or _owners(asked) - _owners(told):
        return False
    extra = [at for at, each in enumerate(told) if each.key not in wanted]
    if extra and extra[-1] - extra[0] >= len(extra):
        return False
    if relations.get("not") in {each.key for each in told} - wanted:
        return False
    after = {(one.key, other.key) for one, other in pairwise(told)}
    for one, other in pairwise(asked):
        moved = {second for first, second in after if first == one.key}
        if one.relates and moved and moved <= wanted - {other.key}:
            return False
    kept = [each.key for each in told if each.key in wanted]
    beside = set(pairwise(kept))
    for at, each in enumerate(asked):
        if each.names and at and not asked[at - 1].names and (asked[at - 1].key, each.key) not in beside:
            return False
    return not _turned(asked, told)


def is_of_another(question: str, line: str, dull: Collection[str], relations: Mapping[str, str]) -> bool:
    """Whether a line has another name, number, identifier or relation where the question has its own."""
    asked, told = (_words(text, dull, relations) for text in (question, line))
    wanted, known = ({each.key for each in words} for words in (asked, told))
    if _turned(asked, told):
        return True
    others = {each.key for each in told if each.identifies} - wanted
    pairs = {(one.key, other.key) for one, other in pairwise(told)}
    relating = {each.key for each in told if each.relates}
    for one, other in pairwise(asked):
        missing = other.key not in known or not other.key.isalpha()
        named = other.names and missing and not one.names and (one.key, other.key) not in pairs
        if named and any(first == one.key and second in others for first, second in pairs):
            return True  # room 3 for room 2
        owned = one.identifies and one.key not in known
        if owned and any(first in others and second == other.key for first, second in pairs):
            return True  # grandpa's birthday for grandma's birthday
        if one.relates and (one.key, other.key) not in pairs and relating & _before(other.key, told):
            return True  # the train from Bonn for the train to Bonn
        if other.relates and other.key not in known and relating & _after(one.key, told):
            return True  # euros per month for euros per year
    return False


def _before(key: str, words: Sequence[_Word]) -> set[str]:
    return {one.key for one, other in pairwise(words) if other.key == key}


def _after(key: str, words: Sequence[_Word]) -> set[str]:
    return {other.key for one, other in pairwise(words) if one.key == key}


def _words(text: str, dull: Collection[str], relations: Mapping[str, str]) -> Sequence[_Word]:
    """The words with meaning; a capital letter by itself is one, if it does not begin the text.

    A unit of time that only says what is asked for has none: `which day`, `how many weeks`.
    """
    found: list[_Word] = []
    before = ""
    for n, hit in enumerate(_WORD.finditer(text)):
        owns = bool(_OWNER.search(hit[0]))
        plain = _OWNER.sub("", hit[0])
        letter = len(plain) == 1 and plain.isupper() and n > 0 and plain != "I"
        numbered = any(each.isdigit() for each in plain)
        named = numbered or letter or (plain[0].isupper() and n > 0 and plain != "I")
        low = plain.casefold()
        relates = low in relations and before not in _ASKED
        if relates or named or low not in dull:
            found.append(_Word(relations[low] if relates else stem(low), named, owns, relates))
        before = low
    return found


def _owners(words: Sequence[_Word]) -> set[str]:
    return {each.key for each in words if each.owns}


def _turned(asked: Sequence[_Word], told: Sequence[_Word]) -> bool:
    """Whether names of the question stand in another order: somebody else does it to somebody else."""
    names = dict.fromkeys(each.key for each in asked if each.names and each.key.isalpha())
    order = dict.fromkeys(each.key for each in told if each.key in names)
    return list(order) != [name for name in names if name in order]
