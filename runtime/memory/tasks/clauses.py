"""Compares two calculations clause by clause: a task whose clauses stand in another order is the same task.

Each clause of one task must be one clause of the other, with the same words around its numbers, at most begun
at another place: `a baker made 120 rolls`, `120 rolls a baker made`. The questions must be the same. Where a
clause depends on what was before (`half of them`), the order counts. In doubt it is another task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.reading import LONGEST, Reading, may_be_name
from runtime.text.inflection import stem
from runtime.text.tokens import Token

_NUMBER, _NAME = "#", "@"
_SPLITS = frozenset("and but if when while because so that which who given assuming , ; : . ? !".split())  # noqa: SIM905
_RELATIVE = frozenset({"that", "which", "who"})
"""The noun before one of these belongs to both clauses."""
_ENDS_QUESTION = frozenset("if when while given assuming because ? .".split())  # noqa: SIM905
_ASKS = frozenset({"how", "what"})
_PRONOUNS = frozenset("he she it they him them his her their its".split())  # noqa: SIM905
_DROPPED = _PRONOUNS | frozenset(
    "a an and the of in there is are was were be been do does did has have had this these those".split()  # noqa: SIM905
)
"""Words that a clause in another order may have or lack."""
_DEPENDS = frozenset(
    "half third thirds quarter quarters fourth fifth tenth percent twice thrice double doubled doubles triple"  # noqa: SIM905
    " tripled triples rest remaining remainder left leftover another other others more less fewer times again"
    " then after before later next first second last finally until same".split()
)
"""Words by which a clause may depend on the one before it."""

Key = tuple[str, ...]
"""The stems of a clause, with `#` for a number and `@` for the only name."""


@dataclass(frozen=True)
class _Clause:
    key: Key
    numbers: tuple[Token, ...]


class _Task:
    """The clauses of one task; `names` are the words that are names in it or in the other one."""

    def __init__(self, reading: Reading, names: frozenset[str]) -> None:
        self.reading, self.tokens = reading, reading.tokens
        mine = names & {token.low.removesuffix("'s") for token in self.tokens}
        self.name = next(iter(mine)) if len(mine) == 1 else ""
        lows = [token.low for token in self.tokens]
        asks = [at for at, low in enumerate(lows) if low in _ASKS]
        begin = asks[0] if len(asks) == 1 else len(lows)
        end = next((at for at in range(begin, len(lows)) if lows[at] in _ENDS_QUESTION), len(lows))
        self.said = [*self.tokens[:begin], *self.tokens[end:]]
        self.asked = lows[begin:end]
        self.question = self._clause(self.tokens[begin:end])
        self.people = {_NAME if self.name else stem(each) for each in mine}
        self.statements = [*self._split(self.tokens[:begin]), *self._split(self.tokens[end:])]

    def _split(self, found: Sequence[Token]) -> Iterator[_Clause]:
        part: list[Token] = []
        for token in found:
            if token.low not in _SPLITS:
                part.append(token)
                continue
            if part:
                yield self._clause(part)
            part = part[-1:] if token.low in _RELATIVE and part and not part[-1].leaf else []
        if part:
            yield self._clause(part)

    def _clause(self, found: Sequence[Token]) -> _Clause:
        kept = [token for token in found if token.kind != "mark" and token.low not in _DROPPED]
        key = tuple(self._key(token) for token in kept)
        return _Clause(key, tuple(token for token in kept if token.leaf))

    def _key(self, token: Token) -> str:
        if token.leaf:
            return f"{_NUMBER}{token.unit}"
        low = token.low.removesuffix("'s")
        return _NAME if low == self.name else stem(low)

    @cached_property
    def counts(self) -> Counter[str]:
        """In how many clauses each stem is."""
        return Counter(each for clause in (*self.statements, self.question) for each in {*clause.key})

    @cached_property
    def persons(self) -> int:
        """How many words may be names."""
        words = self.reading.words
        return len({token.low.removesuffix("'s") for token in self.tokens if may_be_name(token, words)})

    @cached_property
    def ordered(self) -> bool:
        """Whether the order of its statements counts."""
        depends = any(t.low in _DEPENDS or t.unit == "%" or t.parts for t in self.said)
        return depends or (self.persons > 1 and any(t.low in _PRONOUNS for t in self.tokens))


def compare(old: Reading, new: Reading) -> Alignment | Refusal:
    """The alignment of two tasks, word by word or else, for calculations, clause by clause."""
    found = align(old, new)
    if isinstance(found, Refusal) and isinstance(other := align_clauses(old, new), Alignment):
        return other
    return found


def align_clauses(old: Reading, new: Reading) -> Alignment | Refusal:
    """The alignment of a stored task with one whose clauses stand in another order, or why there is none."""
    if len(old.tokens) > LONGEST or len(new.tokens) > LONGEST:
        return Refusal(f"longer than {LONGEST} words")
    if sorted(old.leaves) != sorted(new.leaves) or any(kind != "number" for kind, _ in old.leaves):
        return Refusal("it has values of other kinds")
    if _exchanged(old.tokens, new.tokens):
        return Refusal("two of its words are exchanged")
    names = old.names | new.names
    was, becomes = _Task(old, names), _Task(new, names)
    if not was.question.key or not _same_question(was, becomes):
        return Refusal("it asks for something else")
    if was.counts.keys() != becomes.counts.keys():
        return Refusal("it has other words")
    pairs = _paired(was, becomes)
    if pairs is None:
        return Refusal("its clauses are others")
    if (was.ordered or becomes.ordered) and pairs != sorted(pairs, key=lambda pair: pair[1]):
        return Refusal("the order of its clauses counts")
    return _alignment(was, becomes, pairs)


def _exchanged(old: Sequence[Token], new: Sequence[Token]) -> bool:
    """Whether only two words stand in each other's place, so that something else may be meant."""
    others = [(x.low, y.low) for x, y in zip(old, new, strict=False) if not x.leaf and x.low != y.low]
    return len(old) == len(new) and len(others) == 2 and others[0] == others[1][::-1]


def _same_question(was: _Task, becomes: _Task) -> bool:
    """Whether both ask for the same; one may say `she` for the only name, or `they` for all names."""
    if was.question.key == becomes.question.key:
        return True
    bare = [tuple(each for each in task.question.key if each not in task.people) for task in (was, becomes)]
    everybody = any(
        "they" in task.asked and other.people <= {*other.question.key}
        for task, other in ((was, becomes), (becomes, was))
    )
    return bare[0] == bare[1] and (was.persons < 2 or everybody)


def _paired(was: _Task, becomes: _Task) -> list[tuple[int, int]] | None:
    """The place of each clause in both tasks, if that is clear, in the order of the stored one.

    A clause without numbers that only repeats words has none.
    """
    pairs = [
        (at, to)
        for at, clause in enumerate(was.statements)
        for to, other in enumerate(becomes.statements)
        if _turned(clause.key, other.key)
    ]
    paired = [{at for at, _ in pairs}, {to for _, to in pairs}]
    pairs += [
        (at, to)
        for at, clause in enumerate(was.statements)
        for to, other in enumerate(becomes.statements)
        if at not in paired[0] and to not in paired[1] and _shortened(clause.key, other.key, was, becomes)
    ]
    for task, found in ((was, [at for at, _ in pairs]), (becomes, [to for _, to in pairs])):
        if len({*found}) < len(found):
            return None  # a clause could be two of the others
        rest = [each for place, each in enumerate(task.statements) if place not in found]
        if any(each.numbers or not _repeats(each.key, task) for each in rest):
            return None
    return sorted(pairs)


def _turned(one: Key, other: Key) -> bool:
    """Whether a clause is another, begun at another place."""
    return len(one) == len(other) and any(one[n:] + one[:n] == other for n in range(max(len(one), 1)))


def _shortened(one: Key, other: Key, was: _Task, becomes: _Task) -> bool:
    """Whether one clause is the other without words that are said elsewhere, too."""
    if len(one) < len(other):
        one, other, was, becomes = other, one, becomes, was
    left = tuple(each for each in one if each in other)
    missing = {*one} - {*other}
    return (
        _turned(left, other)
        and _NUMBER not in {each[:1] for each in missing}
        and all(each == _NAME or (was.counts[each] > 1 and becomes.counts[each]) for each in missing)
    )


def _repeats(key: Key, task: _Task) -> bool:
    """Whether a clause only repeats what other clauses say."""
    return all(task.counts[each] > 1 for each in key)


def _alignment(was: _Task, becomes: _Task, pairs: Sequence[tuple[int, int]]) -> Alignment | Refusal:
    found = Alignment(reordered=True, constants=was.reading.words.constants)
    clauses = [(was.statements[at], becomes.statements[to]) for at, to in pairs]
    for one, other in (*clauses, (was.question, becomes.question)):
        turned = _turn(one.key, other.key)
        numbers = other.numbers
        if len(one.numbers) != len(numbers):
            return Refusal("its clauses are others")
        for place, token in enumerate(one.numbers):
            found.leaves.append((token, numbers[(place + turned) % len(numbers)]))
    if any(old.unit != new.unit for old, new in found.leaves):
        return Refusal("it has values of other kinds")
    if was.name != becomes.name:
        found.exchanged[was.name] = becomes.name
    words = was.reading.words
    for low in (*was.reading.lows, *(token.unit for token, _ in found.leaves)):
        found.implied |= words.implied.get(low, set())
        found.meant |= words.means.get(low, set())
    return found


def _turn(one: Key, other: Key) -> int:
    """By how many of its numbers a clause is turned."""
    shared = {*one} & {*other}
    first, second = (tuple(each for each in key if each in shared) for key in (one, other))
    at = next((n for n in range(len(first)) if first[n:] + first[:n] == second), 0)
    passed = sum(each.startswith(_NUMBER) for each in first[:at])
    count = max(sum(each.startswith(_NUMBER) for each in first), 1)
    return (count - passed) % count
