"""Tells whether an answer stands in what calls returned: its numbers, its names and most of its other words.

It compares words and knows no meaning: that a grounded answer is right, it cannot tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_][\w.\-/:@$%']*")
_NAME = re.compile(r"[^\W\d_]*[A-Z\d_]|\w+[._/:@-]\w")
"""How a name or an identifier begins: with a capital letter or digit in it, or with parts."""
_ENDS = ".!?:;|>#-"
"""What stands before the first word of a sentence or of a list's entry."""
_MARK = re.compile(r"(?m)^[^\S\n]*\d+[.)]\s+")
"""The number of an entry of a list."""
LIGHT = 4
"""Letters of a word from which on it counts."""


def grounded(answer: str, task: str, seen: Sequence[tuple[str, str]], wholly: bool = False) -> bool:
    """Whether an answer to a task stands in the results of calls, given as pairs of call and result.

    What a call itself says grounds nothing, because a model wrote it, and neither does the task. Each number
    and name of the answer has to be in a result, a call or the task, and of what the answer adds to the task,
    at least half in results; `wholly`: all of it.
    """
    if _repeats(answer, task, seen):
        return True
    answer = _MARK.sub("", answer)
    said = _terms(task)
    shown = [_terms(result) - (_terms(call) - said) for call, result in seen]
    results: set[str] = set().union(*shown)
    calls: set[str] = set().union(*(_terms(call) for call, _ in seen)) - results
    adds = _terms(answer) - said - calls
    shares = len(adds & results) / len(adds) if adds else 0
    if shares < (1 if wholly else 0.5):
        return False
    return not _named(answer) - results - said - calls


def _repeats(answer: str, task: str, seen: Sequence[tuple[str, str]]) -> bool:
    """Whether each line of the answer is a line of a result that its call does not say."""
    said = " ".join(task.split())
    lines = {
        " ".join(line.split())
        for call, result in seen
        for line in result.splitlines() or [""]
        if (flat := " ".join(line.split())) in said or flat not in " ".join(call.replace("\\n", " ").split())
    }
    return all(" ".join(line.split()) in lines | {""} for line in answer.splitlines()) and bool(
        answer.strip() or any(not result.strip() for _, result in seen)
    )


def _terms(text: str) -> set[str]:
    """The numbers of a text, and its words of some length."""
    words = (_plain(hit[0]) for hit in _WORD.finditer(text))
    return numbers(text) | {part for word in words for part in _parts(word)}


def _named(text: str) -> set[str]:
    """The numbers, names and identifiers of a text."""
    found = numbers(text)
    for hit in _WORD.finditer(text):
        first = hit[0][1:].islower() and _begins(text, hit.start())
        if not first and _NAME.match(hit[0]):
            found |= _parts(_plain(hit[0]))
    return found


def _begins(text: str, at: int) -> bool:
    """Whether a sentence or an entry of a list begins at this place: a capital letter there says nothing."""
    while at and (text[at - 1].isspace() or text[at - 1] in "\"'`*_("):
        at -= 1
        if text[at] in "\n*":
            return True
    return not at or text[at - 1] in _ENDS or (text[at - 1] == ")" and text[max(0, at - 2)].isdecimal())


def _plain(word: str) -> str:
    return re.sub(r"'s$", "", word).rstrip(".:-/'").casefold()


def _parts(word: str) -> set[str]:
    """A word, and the words that it consists of, without short ones and numbers."""
    return {each for each in re.split(r"[./:@\-]", word) if len(each) >= LIGHT and not each.isdecimal()}


def numbers(text: str) -> set[str]:
    """The numbers of a text without grouping, such as `42000` and `2.5`."""
    found: set[str] = set()
    for each in re.findall(r"\d[\d.,'\u00a0\u202f]*\d|\d", text):
        plain = re.sub(r"[,'\u00a0\u202f](?=\d{3}\b)", "", each).rstrip(".,")
        plain = plain.replace(",", ".")
        if plain.count(".") == 1:
            plain = plain.rstrip("0").rstrip(".")
        found.add(plain.lstrip("0") or "0")
    return found


def ungrounded(text: str, sources: Sequence[str]) -> list[str]:
    """The numbers of a text that no source has. Single digits count as words."""
    known = {number for source in sources for number in numbers(source)}
    return sorted(number for number in numbers(text) - known if len(number) > 1)
