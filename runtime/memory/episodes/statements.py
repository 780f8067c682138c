"""What a person says explicitly to be kept: `remember that …`, `I prefer …`, an answer to a question.

No other sentence of a task becomes a fact: most tell a state that the task is to end, or what it supposes.
The words are in `system/memory/statements.md`. Quoted, fenced and pasted text is ignored. In doubt, nothing
is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runtime.text.patterns import any_of
from runtime.text.sections import having, sections

FILE = "statements.md"
"""The file with the words of a system folder."""
LONGEST_TEXT = 4_000
"""Characters from which a text counts as pasted."""
LONGEST, SHORTEST = 300, 8
"""Limits of one fact, in characters."""
MOST = 12
"""Facts per text."""
SUBJECT_WORDS = 8
"""Words between `my` or `the` and the verb."""
QUESTION_CHARS = 120

_FENCED = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)")
QUOTED = re.compile(r"(?m)^[ \t]*>.*$|“[^”]*”|\"[^\"\n]*\"|«[^»]*»|`[^`\n]*`")
_BREAK = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+(?=[^a-z\s])|(?<=[!?])\s+|\s*[;\n]\s*|\s+[–—]\s+")
_ABBREVIATED = re.compile(r"(?i)(?:^|[\s(])(?:e\.g|i\.e|etc|mr|mrs|ms|dr|prof|st|no|vs|approx)\.$")
_NAME = r"[A-ZÀ-ÖØ-Þ][\w’'-]*(?:\s+[A-ZÀ-ÖØ-Þ][\w’'-]*){0,3}"


@dataclass(frozen=True)
class Rules:
    """Patterns of how facts are worded."""

    lead: re.Pattern[str]
    fact: re.Pattern[str]
    clause: re.Pattern[str]
    wish: re.Pattern[str]
    order: re.Pattern[str]
    asks: re.Pattern[str]
    then: re.Pattern[str]
    joined: re.Pattern[str]
    limited: re.Pattern[str]
    remember: re.Pattern[str]
    habit: re.Pattern[str]
    aside: re.Pattern[str]
    fault: re.Pattern[str]
    supposed: re.Pattern[str]


def statements(text: str, systems: Sequence[Path]) -> list[str]:
    """The statements in a text, in its words, each once; none if the text is pasted."""
    rules = rules_of(systems)
    return once(fact for sentence in sentences(text) for _, fact in facts(sentence, rules))


def once(found: Iterable[str]) -> list[str]:
    """Statements without repetitions, not too many."""
    return list({fact.casefold(): fact for fact in reversed([*found])}.values())[::-1][:MOST]


def ordered(fact: str, systems: Sequence[Path]) -> bool:
    """Whether an order or a limit may be joined to a fact, so that a model must read it."""
    rules = rules_of(systems)
    return bool(rules.joined.search(fact) or rules.limited.search(fact))


def asked_and_answered(question: str, answer: str) -> str:
    """What a person answered to a question, as one line."""
    return f"asked “{' '.join(question.split())}”, answered: {' '.join(answer.split())}"


def sentences(text: str) -> Iterator[str]:
    """The sentences and lines of a text, without what is fenced; none if it is pasted."""
    if len(text) > LONGEST_TEXT:
        return
    text = QUOTED.sub(lambda hit: "“…”" if _BREAK.search(hit[0]) else hit[0], _FENCED.sub("\n", text))
    start = 0
    for hit in _BREAK.finditer(text):
        if not _ABBREVIATED.search(text[start : hit.start()]):
            yield text[start : hit.start()]
            start = hit.end()
    yield text[start:]


def facts(sentence: str, rules: Rules) -> Iterator[tuple[int, str]]:
    """The statements in a sentence, and where the clause of each begins.

    A comma or `because` may begin a clause with its own subject.
    """
    start = 0
    for hit in rules.clause.finditer(sentence):
        if rules.fact.match(sentence, hit.end()):
            yield from _fact(sentence, start, hit.start(), rules)
            start = hit.end()
    yield from _fact(sentence, start, len(sentence), rules)


def _fact(sentence: str, start: int, end: int, rules: Rules) -> Iterator[tuple[int, str]]:
    fact = " ".join(sentence[start:end].split()).strip(" \t,;:-•*–—")
    is_question = fact.endswith("?")
    while hit := rules.lead.match(fact):
        fact = fact[hit.end() :].strip(" ,:;-–—")
    if hit := rules.then.search(fact):
        fact = fact[: hit.start()]
    fact = fact.rstrip(" .!,;:…")
    if is_question or not SHORTEST <= len(fact) <= LONGEST:
        return
    if rules.wish.match(fact) or not rules.fact.match(fact):
        return
    bare = QUOTED.sub(" ", fact)
    if not rules.order.search(bare) and rules.fact.match(bare):
        yield start, fact


def told(text: str, systems: Sequence[Path], about: str = "") -> list[str]:
    """What a person asks to remember, and the habits they tell, in their words; each once.

    `about` is the task that the text is an answer to. Nothing is a habit where something is supposed, worked
    on, or reported as a fault.
    """
    rules = rules_of(systems)
    found: list[str] = []
    plain = not any(rules.supposed.search(each) for each in (text, about))
    plain = plain and not any(rules.fault.search(QUOTED.sub(" ", each)) for each in (text, about))
    for sentence in sentences(text):
        stated = [fact for _, fact in facts(sentence, rules)]
        if asked := rules.remember.match(sentence):
            found += stated or _after(asked, rules)
        elif plain:
            found += [fact for fact in stated if rules.habit.match(fact) and not rules.aside.search(fact)]
    return once(found)


def _after(asked: re.Match[str], rules: Rules) -> list[str]:
    """What a person asks to remember in words that are no statement: `remember that 15 marbles are Tom's`."""
    rest = rules.joined.split(asked.string[asked.end() :])[0].strip(" .!,;:") if asked["that"] else ""
    return [rest] if SHORTEST <= len(rest) <= LONGEST else []


def answered(question: str, answer: str, systems: Sequence[Path], about: str = "") -> list[str]:
    """The facts in an answer; a short answer to a short question is stored with the question.

    Not if the task, `about`, only supposes things.
    """
    if found := told(answer, systems, about):
        return found
    rules = rules_of(systems)
    question, answer = " ".join(question.split()), " ".join(answer.split())
    short = 0 < len(answer) <= LONGEST - QUESTION_CHARS and not answer.endswith("?")
    single = (
        question.endswith("?") and not re.search(r"[.!?:]\s", question) and len(question) <= QUESTION_CHARS
    )
    if short and single and rules.asks.match(question) and not rules.supposed.search(about):
        return [asked_and_answered(question, answer)]
    return []


def rules_of(systems: Sequence[Path]) -> Rules:
    """The combined rules of these system folders."""
    return _rules_of(having(tuple(systems), FILE))


@cache
def _rules_of(systems: tuple[Path, ...]) -> Rules:
    words = words_of(systems)
    own = words("A person who speaks of themselves")
    whose = words("Whose it is")
    things = words("Things that a fact is about")
    orders = words("Words that begin an order after a fact")
    first = words("Verbs of a fact after I and we")
    other = words("Verbs of a fact after anything else")
    remember, happens = words("Asked to remember"), words("Tells what happens")
    between = rf"(?:\s+(?!(?:{other})\b)[\w’'./@&%+-]+){{0,{SUBJECT_WORDS}}}?"
    of = rf"(?:{whose}|{things})\b{between}"
    fact = (
        rf"(?:(?i:{own})(?:\s+|(?=['’]))(?i:{first})\b|(?i:{of})\s+(?i:{other})\b|{_NAME}\s+(?i:{other})\b)"
    )
    return Rules(
        re.compile(rf"(?i)(?:{words('Said before a fact')})(?![\w'’])\s*"),
        re.compile(fact),
        re.compile(r"(?i)\s*,\s*(?:and|but|because|since|as|so|for)?\s+|\s+(?:because|since|but)\s+"),
        re.compile(rf"(?i)(?:{words('Wishes that are no facts')})\b"),
        re.compile(rf"(?i)\b(?:{words('Words that make a sentence an order or a question')})\b"),
        re.compile(rf"(?i)(?:{words('Words that begin a question whose answer tells a fact')})\b"),
        re.compile(rf"(?i)[,:]\s+(?:(?:and|so|then|now|please)\s+)*(?:{orders})\b"),
        re.compile(
            rf"(?i)(?:\b(?:and|then|but|so|or)|[,:;])\s+(?:(?:and|so|then|now|please|also)\s+)*(?:{orders})\b"
        ),
        re.compile(rf"(?i)\b(?:{words('Words that may limit an order to keep a fact')})\b"),
        re.compile(rf"(?i)[\W\d_]*(?:please\s+)?(?:{remember})\b(?P<that>\s+that\s+|:\s*)?"),
        re.compile(rf"(?i)(?:{own})\s+(?:{words('Tells a habit')})\b(?!\s+(?:{happens})\b)"),
        re.compile(rf"(?i)(?<![\w'’])(?:{words('Joins another clause')})(?![\w'’])"),
        re.compile(rf"(?i)(?<![\w'’])(?:{words('Tells a fault')})(?![\w'’])"),
        re.compile(
            rf"(?i)(?<![\w'’])(?:{words('Begins a hypothesis')}|{words('Begins an example')}"
            rf"|{words('Points to a text')}|{words('Asks for a solution')}|{words('Asks for an amount')}"
            rf"|(?:{words('Made up')})s?|(?:{words('Works on a text')})[^.!?\n]*:)(?!\w)"
        ),
    )


def words_of(systems: tuple[Path, ...]) -> Callable[[str], str]:
    """A pattern for the entries under a title, in all of these system folders."""
    lists: dict[str, list[str]] = {}
    for title, body in sections(systems, FILE):
        lists.setdefault(title, []).extend(filter(None, map(str.strip, re.split(r"[,\n]", body))))
    return lambda title: any_of(lists.get(title.casefold(), ())).replace(r"\ ", r"\s+")
