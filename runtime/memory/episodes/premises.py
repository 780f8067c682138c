"""Tells what a task says about the person's world from what it only supposes.

Premises are the sentences of an exercise, a hypothesis, an example, a story, a text to work on, and of what
is to be made. They are recognised by what the task asks for and by how a sentence relates to the person. The
words are in `system/memory/statements.md`. In doubt, a sentence is a premise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from runtime.memory.episodes.statements import (
    LONGEST,
    QUOTED,
    SHORTEST,
    Rules,
    asked_and_answered,
    facts,
    once,
    rules_of,
    sentences,
    words_of,
)
from runtime.text.tokens import tokens

QUESTION_CHARS = 120
AMOUNTS = 2
"""Clauses with amounts from which a question for an amount is an exercise."""

_CLAUSE = re.compile(r"[,;:.]\s|\b(?:and|but|while)\b")
_PATH = re.compile(r"(?<!\w)(?:[\w.~-]*/[\w./-]*|[\w-]+\.[a-z]\w{0,4})(?![\w/])")
_HEAD = re.compile(r"(?:[^:,;.–—-]|[.-](?=\w))*")
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w’'-]*")
_LINKING = "of|for|with|about|that|which|who|in|to|from|on|and"

Words = Mapping[str, re.Pattern[str]]
"""Patterns of the words by which premises are recognised."""


@cache
def _words(systems: tuple[Path, ...]) -> Words:
    words = words_of(systems)
    own, whose = words("A person who speaks of themselves"), words("Whose it is")
    leads = f"{words('Said before a fact')}|{words('Said before an order')}"
    begins = rf"(?:^[\W\d_]*|[,;:–—]\s+)(?:(?:{leads})(?![\w'’])[\s,]*)*"
    things, one, solve = (
        words(title)
        for title in ("Things that are made or worked on", "Introduces a thing", "Asks for a solution")
    )
    works, orders = words("Works on a text"), words("Words that begin an order after a fact")
    got = rf"(?:{own})(?:\s+|['’])(?:have|had|got|use|'ve|ve)(?:\s+got)?\s+(?:{one})"
    patterns = {
        "asks": rf"(?:.*\?\s*$|.*{begins}(?:{solve}|how|what)\b)",
        "remember": rf"[\W\d_]*(?:please\s+)?(?:{words('Asked to remember')})\b",
        "supposed": rf"{begins}(?:{words('Begins a hypothesis')})\b",
        "example": rf"(?<!\w)(?:{words('Begins an example')})(?!\w)",
        "order": rf"{begins}(?:{orders}|{words('Other words that begin an order')}|{solve}|{works})\b",
        "amount": rf"\b(?:{words('Asks for an amount')})\b",
        "works": rf"{begins}(?:{works})\b",
        "text": rf"\b(?:{words('Points to a text')})\b",
        "back": rf"(?:{words('Points back')})\b",
        "strange": rf"\b(?:{words('Made up')})s?\b",
        "made": rf"\b(?:{things})s?\b",
        "owned": rf"(?:(?:{whose})|{got})\s+(?:[\w’'-]+\s+){{0,2}}?(?:{things})s?\b",
        "wanted": rf"(?:{own})(?:\s+|(?=['’]))(?:{words('Wants')})\b",
        "introduced": rf"\b(?:{one})\s+((?:(?!(?:{_LINKING})\b)[\w’'-]+\s+){{0,3}}?[\w’'-]+)"
        rf"(?=\s+(?:{_LINKING})\b|\W*$|[^\w\s])",
        "verb": rf"\s(?:{words('Verbs of a fact after anything else')})\b",
    }
    person = re.compile(rf"\b(?!US\b)(?i:{own}|{whose})\b")
    return {"person": person} | {name: re.compile(text, re.IGNORECASE) for name, text in patterns.items()}


class _Task:
    """What a task asks for, as far as it decides which of its sentences are premises."""

    def __init__(self, text: str, words: Words) -> None:
        self.sentences = list(sentences(text))
        self.bare = [QUOTED.sub(lambda hit: " " * len(hit[0]), each) for each in self.sentences]
        self.orders = [bool(words["order"].search(each)) or each.rstrip().endswith("?") for each in self.bare]
        self.personal = any(words["person"].search(each) for each in self.bare)
        asked = [each for each, order in zip(self.bare, self.orders, strict=True) if order]
        self.strange = any(words["strange"].search(each) for each in asked)
        introduced = (hit[1] for each in asked for hit in words["introduced"].finditer(each))
        self.made = {_singular(word) for phrase in introduced for word in phrase.split()}
        self.exercise = self._is_exercise(words)
        self.supposed = any(words["supposed"].search(each) for each in self.bare)
        self.text_until, self.supposed_from = 0, (len(self.bare), 0)
        for at in reversed(range(len(self.bare))):
            self._read(at, words)

    def _is_exercise(self, words: Words) -> bool:
        """Whether it asks for what follows from its own sentences.

        Then nothing in it is related to the person, or it gives amounts and asks for one.
        """
        asks = [each for each in self.bare if words["asks"].match(each)]
        if not self.personal:
            return bool(asks)
        clauses = [part for each in self.bare for part in _CLAUSE.split(each)]
        amounts = sum(any(token.kind == "number" for token in tokens(part)) for part in clauses)
        return amounts >= AMOUNTS and any(words["amount"].search(each) for each in asks)

    def _read(self, at: int, words: Words) -> None:
        """Note where in a sentence begins what is supposed, and up to which one a text is worked on."""
        bare = self.bare[at]
        hits = [hit.start() for name in ("supposed", "example") if (hit := words[name].search(bare))]
        if hit := words["works"].search(bare):
            head = (_HEAD.match(bare, hit.end()) or hit)[0]
            if not (_PATH.search(head) or words["person"].search(head)):
                hits.append(hit.start())
        if self.orders[at]:
            if hit := words["text"].search(bare):
                hits.append(hit.end())
                self.text_until = max(self.text_until, at)
            if colon := re.search(r":\s" if words["strange"].search(bare) else r":\s*$", bare):
                hits.append(colon.start())
        if hits:
            self.supposed_from = (at, min(hits))


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def told(text: str, systems: Sequence[Path], about: str = "") -> list[str]:
    """The statements in a text that are about the person's world, in its words, each once.

    What a person asks to remember always is. `about` is the task that the text is an answer to.
    """
    rules, words = rules_of(tuple(systems)), _words(tuple(systems))
    here, task = _Task(text, words), _Task(about, words)
    premise = here.exercise or task.supposed
    world = _World(words, here, task)
    found: list[str] = []
    for at, sentence in enumerate(here.sentences):
        stated = list(facts(sentence, rules))
        if asked := words["remember"].match(sentence):
            found += [fact for _, fact in stated] or _after(asked, rules)
        else:
            skipped = premise or at < here.text_until
            stated = [] if skipped else [each for each in stated if (at, each[0]) < here.supposed_from]
            found += world.of_person(stated, here.bare[at], here.orders[at])
    return once(found)


def _after(asked: re.Match[str], rules: Rules) -> list[str]:
    """What a person asks to remember in words that are no statement: `remember that 15 marbles are Tom's`."""
    that = re.match(r"\s+that\s+", asked.string[asked.end() :])
    rest = rules.joined.split(asked.string[asked.end() + that.end() :])[0].strip(" .!,;:") if that else ""
    return [rest] if SHORTEST <= len(rest) <= LONGEST else []


class _World:
    """Which statements are about the person's world, read in their order."""

    def __init__(self, words: Words, here: _Task, task: _Task) -> None:
        self.words = words
        self.strict = here.strange or task.strange or task.exercise
        self.asks = any(here.orders) or any(task.orders)
        self.made = here.made | task.made
        self.names: set[str] = set()  # of what is related to the person
        self.follows = False  # the sentence before is about the person's world

    def of_person(self, stated: Sequence[tuple[int, str]], bare: str, order: bool) -> list[str]:
        """Those of the statements in a sentence that count."""
        colon = bare.find(":") if order else -1
        kept: list[str] = []
        for at, fact in stated:
            personal = bool(self.words["person"].search(fact))
            listed = 0 <= colon < at  # Sort these people: …
            if not self._wished(fact) if personal else not listed and self._asserted(fact):
                kept.append(fact)
                self.follows = True
                self.names.update(_NAME.findall(fact) if personal else ())
        self.follows = bool(kept)
        return kept

    def _wished(self, fact: str) -> bool:
        """Whether a statement of the person is a wish, or about what the task works on."""
        return bool(self.words["wanted"].match(fact) or (self.asks and self.words["owned"].match(fact)))

    def _asserted(self, fact: str) -> bool:
        """Whether a statement about something else than the person is about their world."""
        if self.words["back"].match(fact):
            return self.follows
        if self.strict:
            return fact.split()[0] in self.names
        verb = self.words["verb"].search(fact)
        subject = fact[: verb.start()] if verb else fact
        made = self.words["made"].search(subject) or not self.made.isdisjoint(map(_singular, subject.split()))
        return not (self.asks and made)


def answered(question: str, answer: str, systems: Sequence[Path], about: str = "") -> list[str]:
    """The facts in an answer; a short answer to a short question is stored with the question.

    Not if the question is about what is to be made, or the task, `about`, only supposes things.
    """
    if found := told(answer, systems, about):
        return found
    rules, words = rules_of(tuple(systems)), _words(tuple(systems))
    question, answer = " ".join(question.split()), " ".join(answer.split())
    task = _Task(about, words)
    if task.exercise or task.supposed or words["made"].search(question):
        return []
    short = 0 < len(answer) <= LONGEST - QUESTION_CHARS and not answer.endswith("?")
    single = (
        question.endswith("?") and not re.search(r"[.!?:]\s", question) and len(question) <= QUESTION_CHARS
    )
    if short and single and rules.asks.match(question):
        return [asked_and_answered(question, answer)]
    return []
