"""What memory offers for a question about the person's own world, which no model knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from kernel.asking.prompt import MEMORY
from kernel.document.model import Document
from runtime.memory.context.context import FILES
from runtime.memory.facts.terms import names_of
from runtime.models.micro.kinds import Kinds
from runtime.models.micro.task import Task
from runtime.text.tokens import words

MOST = 6
"""Lines of memory that a question has: each has about 25 tokens."""
_USED = " (used by run "
"""Marks the line of a file, which answers nothing."""
_PREMISE = re.compile(
    r"(?i)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)[.!;]\s+\S|\bif\b|\d\w*(?:\W+[a-z]+){2,}\W+\d"
)
"""A task that tells what it is to be answered from: further sentences, a condition, two numbers."""
_THE = re.compile(r"(?i)\b(?:the|this|that) ([\w-]+(?: [\w-]+)?)")


def offered(document: Document) -> list[str]:
    """The day, then the facts that §1 has from memory, the best first, each with its date."""
    notes = [note for note in document.section(1).notes if note.key == "context"]
    texts = [note.text for note in notes if note.source == f"{MEMORY}: {FILES}"]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("- ")]
    return [_dated(line) for line in lines if _USED not in line][:MOST]


def _dated(line: str) -> str:
    """The line without who said it: to a model, `you` is the model."""
    text, opened, source = line.rpartition(" (")
    return f"{text}{opened}{source.replace('said by you, ', '')}"


def told(lines: Sequence[str]) -> list[str]:
    """The lines as a part of a question; none if there are none."""
    return ["\n".join(["I told you:", *lines])] if lines else []


def about_own_world(task: Task, document: Document, kinds: Kinds) -> bool:
    """Whether only the person or memory can answer: of `our`, of `the project`, or of what a fact names."""
    text = task.text.rpartition(": ")[2]
    if task.text != document.task or kinds.says(text, "not own") or _PREMISE.search(text):
        return False
    if kinds.is_own(text):
        return True
    facts = "\n".join(_facts(offered(document))).casefold()
    spoken = [*names_of(text), *(word for hit in _THE.findall(text) for word in hit.split())]
    shared = any(re.search(rf"\b{re.escape(each.casefold())}\b", facts) for each in spoken)
    return bool(facts) and (shared or kinds.says(text, "own with others"))


def source_of(reply: str, task: Task, lines: Sequence[str]) -> str:
    """The fact that says all that a reply says, if that is what the task asks for; "" if there is none."""
    from runtime.memory.facts.language import language_of
    from runtime.memory.facts.retrieval.language import shipped
    from runtime.memory.facts.retrieval.questions import questions_of

    language, questions = language_of(shipped()), questions_of()

    def said(text: str) -> set[str]:
        bases = {language.base(word) for word in words(text) if word not in language.silent}
        return bases - questions.language.light

    asked = questions.read(task.text, date.today().toordinal())
    if not said(reply) or not questions.answers(asked, reply):
        return ""
    return next((fact for fact in _facts(lines) if said(reply) <= said(fact)), "")


def _facts(lines: Sequence[str]) -> list[str]:
    """The lines without that of the day."""
    return [line for line in lines if not line.endswith("(the clock)")]
