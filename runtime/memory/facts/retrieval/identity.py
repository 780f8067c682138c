"""Whether a line is about what a question names: its names, numbers and identifiers, each beside its word.

`room 2` is not `room 3`, and `grandma's birthday` is not `grandpa's`, however near they are to an embedder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runtime.text.inflection import regular_stem as stem

_WORD = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W_]+(?:[-'’][^\W_]+)*")
_OWNER = re.compile(r"['’]s$|(?<=s)['’]$")


@dataclass(frozen=True)
class _Word:
    key: str
    names: bool  # a number, a letter, or written as a name
    owns: bool  # it has 's

    @property
    def identifies(self) -> bool:
        return self.names or self.owns


def answers_literally(question: str, line: str, dull: Collection[str]) -> bool:
    """Whether a line is the question with one gap filled: it has all of its words, and the rest is one piece.

    Each name, number and identifier stands beside the word that it stands beside in the question.
    """
    asked, told = _words(question, dull), _words(line, dull)
    wanted = {each.key for each in asked}
    if not wanted or not wanted <= {each.key for each in told} or _owners(asked) - _owners(told):
        return False
    extra = [at for at, each in enumerate(told) if each.key not in wanted]
    if extra and extra[-1] - extra[0] >= len(extra):
        return False
    kept = [each.key for each in told if each.key in wanted]
    beside = set(pairwise(kept))
    for at, each in enumerate(asked):
        if each.names and at and not asked[at - 1].names and (asked[at - 1].key, each.key) not in beside:
            return False
    return not _turned(asked, told)


def is_of_another(question: str, line: str, dull: Collection[str]) -> bool:
    """Whether a line has another name, number or identifier where the question has its own."""
    asked, told = _words(question, dull), _words(line, dull)
    wanted, known = ({each.key for each in words} for words in (asked, told))
    if _turned(asked, told):
        return True
    others = {each.key for each in told if each.identifies} - wanted
    pairs = {(one.key, other.key) for one, other in pairwise(told)}
    for one, other in pairwise(asked):
        missing = other.key not in known or not other.key.isalpha()
        named = other.names and missing and not one.names and (one.key, other.key) not in pairs
        if named and any(first == one.key and second in others for first, second in pairs):
            return True  # room 3 for room 2
        owned = one.identifies and one.key not in known
        if owned and any(first in others and second == other.key for first, second in pairs):
            return True  # grandpa's birthday for grandma's birthday
    return False


def _words(text: str, dull: Collection[str]) -> Sequence[_Word]:
    """The words with meaning; a capital letter by itself is one, if it does not begin the text."""
    found: list[_Word] = []
    for n, hit in enumerate(_WORD.finditer(text)):
        owns = bool(_OWNER.search(hit[0]))
        plain = _OWNER.sub("", hit[0])
        letter = len(plain) == 1 and plain.isupper() and n > 0 and plain != "I"
        named = plain[0].isdigit() or letter or (plain[0].isupper() and n > 0 and plain != "I")
        if named or plain.casefold() not in dull:
            found.append(_Word(stem(plain.casefold()), named, owns))
    return found


def _owners(words: Sequence[_Word]) -> set[str]:
    return {each.key for each in words if each.owns}


def _turned(asked: Sequence[_Word], told: Sequence[_Word]) -> bool:
    """Whether names of the question stand in another order: somebody else does it to somebody else."""
    names = dict.fromkeys(each.key for each in asked if each.names and each.key.isalpha())
    order = dict.fromkeys(each.key for each in told if each.key in names)
    return list(order) != [name for name in names if name in order]
