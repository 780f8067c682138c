"""UNDERSTAND: what a task wants, by the words of `language.md`, else by the model's choice; and its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from kernel.asking.responder import Interview, Question, ReplyForm
from runtime.models.micro.task import Task
from runtime.reflexes.procedure import Shelf
from runtime.reflexes.slots import Words

Kind = Literal["answer", "write", "change", "arrange"]
OPTIONS: Mapping[str, Kind] = {"A": "answer", "B": "write", "C": "change", "D": "arrange"}
"""The letters of `phases/micro/kind.md`."""
_BEGIN = r"(?:^|[.!?:;,]\s+|\n)"


class Kinds:
    """Finds what a task wants by the words that reflexes read: joins, courtesies, and `kinds`."""

    def __init__(self, shelf: Shelf) -> None:
        self._kinds = shelf.language.kinds
        self._polite = _pattern(shelf.before)
        self._link = _pattern([*shelf.joins, *self._kinds.get("link", ())])

    def _phrases(self, *names: str) -> str:
        return _pattern(phrase for name in names for phrase in self._kinds.get(name, ()))

    def _courtesies(self, order: str) -> str:
        """A pattern of courtesies before an order. It never gives one back: that takes exponential time.

        Python before 3.11.5 matches `(…)*+` wrongly, so a look-ahead does it.
        """
        return rf"(?=(?P<polite>(?:(?!{order}){self._polite}(?:,?\s+|$))*))(?P=polite)"

    def says(self, text: str, *names: str) -> bool:
        """Whether the text has a phrase of one of these classes."""
        return bool(re.search(self._phrases(*names), text, re.I))

    def asks(self, text: str) -> bool:
        """Whether the text asks something, with or without a question mark."""
        word = self._phrases("question")
        before = rf"(?:{_BEGIN}|{self._phrases('before a question')}[^.?!]{{0,40}}?){word}"
        return "?" in text or bool(re.search(before, text, re.I)) or self.says(text, "request")

    def orders_change(self, text: str) -> bool:
        """Whether a sentence of the text begins with the order to change something."""
        order = self._phrases("change", "order to change")
        return bool(re.search(rf"(?:{_BEGIN}|\band\s+){self._courtesies(order)}{order}", text, re.I))

    def arranges(self, text: str) -> bool:
        """Whether the text speaks of moving, renaming or removing files."""
        verb, noun = self._phrases("arrange"), self._phrases("arranged")
        after = (re.split(verb, line, maxsplit=1, flags=re.I)[1:] for line in text.splitlines())
        return any(re.search(noun, rest[0], re.I) for rest in after if rest)

    def derives(self, text: str) -> bool:
        """Whether a new file takes over parts of others, which a program does better than a text."""
        verb = self._phrases("compose")
        after = (re.split(verb, line, flags=re.I)[-1] for line in text.splitlines())
        return any(re.search(self._phrases("derive"), rest, re.I) for rest in after)

    def is_own(self, text: str) -> bool:
        """Whether the text speaks of what is the person's: `my sister`, `the project`."""
        rest = re.sub(self._phrases("request"), " ", text, flags=re.I)
        theirs = rf"\b(?:the|this|that) (?:[\w-]+ )??{self._phrases('shared')}(?! of (?-i:[A-Z]))"
        return self.says(rest, "own") or bool(re.search(theirs, rest, re.I))

    def parts(self, text: str) -> list[str]:
        """The orders of a task, each as a task of its own; a sentence without an order stays with one."""
        order = self._phrases("write", "arrange", "change", "order")
        ends = rf"(?<=[.!?;])\s+|,?\s+(?:and )?then\s+|,\s+(?:and )?(?={order})|\s+and\s+(?={order})"
        parts: list[str] = []
        before = ""
        for clause in re.split(ends, text, flags=re.I):
            clause = re.sub(rf"^(?:{self._link},?\s*)+", "", clause.strip(" ,;\n"), flags=re.I).strip()
            clause = re.sub(rf"^{self._courtesies(order)}(?={order}|$)", "", clause, flags=re.I)
            if not clause:
                continue
            if re.match(order, clause, re.I):
                parts.append(f"{before}{clause[0].upper()}{clause[1:]}")
                before = ""
            elif parts:
                before_it = parts[-1].rstrip(".")
                parts[-1] = f"{before_it}. {clause}" if clause[0].isupper() else f"{before_it}, {clause}"
            else:
                before += f"{clause.rstrip('.')}. "
        return parts


def _pattern(phrases: Iterable[Words]) -> str:
    """A pattern of any of these phrases that are words, the longest first."""
    texts = {" ".join(words) for words in phrases if words[0][0].isalpha()}
    listed = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    return rf"\b(?:{listed})\b" if listed else r"(?!)"


async def kind_of(interview: Interview, task: Task, kinds: Kinds) -> Kind:
    """What the task wants: by its words, else by a choice of the model."""
    words = task.words
    if task.tests and kinds.says(words, "repair"):
        return "change"
    if task.new and kinds.says(words, "write", "weak write"):
        return "write"
    if kinds.asks(words) and not (task.named and kinds.orders_change(words)):
        return "answer"
    if (not task.named or task.folders) and kinds.arranges(words):
        return "arrange"
    if task.named and kinds.says(words, "change", "weak change"):
        return "change"
    about = [task.text, f"Files: {', '.join(task.files[:20]) or 'none'}"]
    form = ReplyForm("choice", tuple(OPTIONS))
    reply = await interview.put(Question(about, interview.instructions("kind"), form, 4))
    return OPTIONS.get(reply.text, "answer")
