"""Binds a stored procedure to a new task: each new value replaces the stored value that it aligns with."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import Any

from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import Alignment
from runtime.memory.tasks.exemplar import CALCULATING, COMMANDS

_PLAIN = re.compile(r"(?!-)[\w./@%+=:,-]+")
MOST_ORDERS = 24
"""Assignments of equal numbers to places that are tried."""
_REFERENCE = re.compile(r"(\{\{.*?\}\})")
_RESULT = re.compile(r"\{\{\s*steps\[(\d+)\]\.result\s*\}\}")
NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+)(?![\w.])")
_NEVER = frozenset({"tool", "needs", "step"})
"""Keys whose values are never bound."""
_FREE = frozenset({Fraction(0), Fraction(1)})
"""Numbers that a step may have without an origin in the task."""

Steps = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Witness:
    """Another solved task of the same kind: shows which number of a step is which value of the task."""

    steps: Steps
    alignment: Alignment  # of the stored task with the witness's task


def bind(
    steps: Steps,
    alignment: Alignment,
    *,
    used: Steps | None = None,
    witness: Witness | None = None,
    either: bool = False,
) -> list[dict[str, Any]] | Refusal:
    """The steps with the new task's values, or why they are ambiguous.

    A stored value that aligns with two new ones is ambiguous, unless a witness tells them apart or, with
    `either`, the calculation has the same result both ways. A value that differs and is in no step may be in
    a step in another form, so it is refused, unless other steps already `used` the values.
    """
    found = _Binder(steps, alignment, witness, rest=used is not None).bound()
    if isinstance(found, Refusal) and either:
        ways = [_Binder(steps, alignment, order=each).bound() for each in _orders(steps, alignment)]
        done = [way for way in ways if not isinstance(way, Refusal)]
        deeds = {deed(way) for way in done}
        if len(done) == len(ways) and len(deeds) == 1 and deeds.pop().startswith("="):
            return done[0]
    return found


def _orders(steps: Steps, alignment: Alignment) -> list[dict[int, int]]:
    """The assignments of equal numbers of the task to the places of the steps, one to one."""
    numbers = [Fraction(text) for text in _numbers(steps)[1]]
    values = [old.value for old, _ in alignment.leaves]
    orders: list[dict[int, int]] = [{}]
    for value in {each for each in values if isinstance(each, Fraction) and values.count(each) > 1}:
        leaves = [at for at, each in enumerate(values) if each == value]
        places = [at for at, each in enumerate(numbers) if each == value]
        if len(places) != len(leaves) or len(orders) * factorial(len(leaves)) > MOST_ORDERS:
            return []
        ways = [dict(zip(places, way, strict=True)) for way in permutations(leaves)]
        orders = [{**order, **way} for order in orders for way in ways]
    return orders if len(orders) > 1 else []


class _Unclear(Exception):
    """A value of a step is ambiguous or of unknown origin."""


class _Binder:
    def __init__(
        self,
        steps: Steps,
        alignment: Alignment,
        witness: Witness | None = None,
        *,
        rest: bool = False,
        order: Mapping[int, int] | None = None,
    ) -> None:
        self._steps = steps
        self._order = order or {}  # the leaf of a number of the steps, if it is decided
        self._alignment = alignment
        self._leaves = alignment.leaves
        self._rest = rest
        self._calculates = False
        self._used: set[str] = set()  # texts and words in the steps
        self._took: set[int] = set()  # leaves in the steps
        self._own: set[Fraction] = set()  # numbers with no origin in the task
        self._fits: dict[Fraction, list[tuple[int, int]]] = {}  # leaves and scales by number
        self._texts: dict[str, str] = {}
        self._clash = ""
        for at, (old, new) in enumerate(self._leaves):
            if isinstance(old.value, Fraction) and isinstance(new.value, Fraction):
                for scale in {1, old.scale} if old.scale == new.scale else {1}:
                    self._fits.setdefault(old.value / scale, []).append((at, scale))
            elif self._texts.setdefault(str(old.value), str(new.value)) != str(new.value):
                self._clash = f"{old.text!r} stands for two values"
        self._times = Counter(Fraction(text) for text in _numbers(steps)[1])
        self._seen, self._others = self._heard(witness)
        self._at = 0  # numbers bound so far

    def bound(self) -> list[dict[str, Any]] | Refusal:
        if self._clash:
            return Refusal(self._clash)
        try:
            steps = [self._step(step) for step in self._steps]
        except _Unclear as error:
            return Refusal(str(error))
        why = "" if self._rest else self._left() or self._mislabelled()
        return Refusal(why) if why else steps

    def _heard(self, witness: Witness | None) -> tuple[list[str], dict[int, Any]]:
        """The witness's number for each number of the steps, and its value for each leaf."""
        if witness is None or self._texts:
            return [], {}
        (mine, _), (yours, numbers) = _numbers(self._steps), _numbers(witness.steps)
        places = {old.start: new.value for old, new in witness.alignment.leaves}
        values = {at: places[old.start] for at, (old, _) in enumerate(self._leaves) if old.start in places}
        return (numbers, values) if mine == yours else ([], {})

    def _left(self) -> str:
        """A value that differs and is in no step, or that the steps may have left out by choice."""
        for at, (old, new) in enumerate(self._leaves):
            same = (old.value, old.unit) == (new.value, new.unit)
            same = same and (self._only_calculates or self._alignment.exact)
            # where it also differed for the witness, whose steps are the same, it may differ here
            witnessed = bool(self._seen) and self._others.get(at, old.value) != old.value
            if not (same or witnessed or at in self._took or str(old.value) in self._used):
                return f"{old.text!r} is in no step"
        for one, other in self._alignment.beside if not self._only_calculates else ():
            if one in self._used and other not in self._words:
                return f"{one!r} may have been chosen, for {other!r} is in no step"
        return ""

    @cached_property
    def _only_calculates(self) -> bool:
        return all(step.get("tool") in CALCULATING for step in self._steps)

    @cached_property
    def _words(self) -> frozenset[str]:
        """All words of the stored steps."""
        return frozenset(re.findall(r"[^\W\d_]+", json.dumps(self._steps, ensure_ascii=False).lower()))

    def _mislabelled(self) -> str:
        """Why names and nouns that differ could be more than labels."""
        for was, becomes in self._alignment.exchanged.items():
            if was in self._used:
                continue
            if not self._only_calculates:
                return f"{was!r} became {becomes!r} and is in no step"
            if was in self._alignment.asked and not self._redressed:
                return f"{was!r} became {becomes!r} only in the question"
            if was in self._alignment.counted and self._own:
                return f"{was!r} became {becomes!r}, and {written(min(self._own))} may depend on it"
        return ""

    @property
    def _redressed(self) -> bool:
        """Whether the question asks for the same thing by another name.

        Something that the rest of the task counts has another name, too; all numbers of the steps are the
        task's; and the question does not ask for a more general thing.
        """
        alignment = self._alignment
        counted = alignment.counted - alignment.asked
        return bool(counted) and not alignment.widened and not self._own

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self._calculates = step.get("tool") in CALCULATING
        return _walked(step, lambda number: plain_number(self._number(number)), self._text)

    def _text(self, text: str, key: str) -> str:
        before, self._used = self._used, set[str]()
        parts = _REFERENCE.split(text)
        made = "".join(part if part.startswith("{{") else self._in_text(part) for part in parts)
        for old in self._used if key in COMMANDS else ():
            if not _PLAIN.fullmatch(new := self._texts.get(old, "x")):
                raise _Unclear(f"{new!r} needs quotes in a shell")
        self._used |= before
        return made

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """All values at once, so that no replacement is replaced again."""
        texts = sorted((re.escape(text) for text in self._texts if text), key=len, reverse=True)
        words = (re.escape(word) for word in self._alignment.exchanged)
        over = (
            rf"{old.parts[0]}\s*/\s*{old.parts[1]}" for old, new in self._leaves if old.parts and new.parts
        )
        kinds = {
            "text": (r"(?<![\w/.-])(?:", texts, r")(?![\w/-])"),
            "word": (r"(?<!\w)(?i:", words, r")(?!\w)"),
            "over": (r"(?<![\w./])(?:", over, r")(?![\w.])"),
            "number": ("(?:", [NUMBER.pattern], ")"),
        }
        made = [
            f"(?P<{kind}>{before}{'|'.join(each)}{behind})"
            for kind, (before, alternatives, behind) in kinds.items()
            if (each := list(alternatives))
        ]
        return re.compile("|".join(made))

    def _in_text(self, text: str) -> str:
        if text in self._texts:
            self._used.add(text)
            return self._texts[text]
        return self._pattern.sub(self._put, text)

    def _put(self, hit: re.Match[str]) -> str:
        kind, text = hit.lastgroup, hit[0]
        if kind == "number":
            return self._number(text)
        if kind == "over":
            return self._fraction(text)
        if kind == "text":
            self._used.add(text)
            return self._texts[text]
        was = text.lower()
        self._used.add(was)
        becomes = self._alignment.exchanged[was]
        return becomes.capitalize() if text[0].isupper() else becomes

    def _fraction(self, text: str) -> str:
        self._at += 2
        over, _, under = text.partition("/")
        parts = (int(over), int(under))
        fits = {at: new.parts for at, (old, new) in enumerate(self._leaves) if old.parts == parts}
        if len(set(fits.values())) > 1:
            raise _Unclear(f"{text} stands for several values")
        self._took |= fits.keys()
        new = next(iter(fits.values()))
        return f"{new[0]}/{new[1]}" if new else text

    def _number(self, text: str) -> str:
        value = Fraction(text)
        seen = Fraction(self._seen[self._at]) if self._at < len(self._seen) else None
        fits = self._fits.get(value, [])
        if (leaf := self._order.get(self._at)) is not None:
            fits = [(leaf, 1)]
        self._at += 1
        if seen is not None:
            fits = [(at, scale) for at, scale in fits if self._others.get(at) == seen * scale]
            if not fits and seen != value:
                raise _Unclear(f"{text} in the steps has no known origin")
        news = {self._leaves[at][1].value / scale for at, scale in fits}  # type: ignore[operator]
        if not fits:
            self._of_its_own(value)
            return text
        if len(news) > 1:
            raise _Unclear(f"{text} stands for {' and '.join(sorted(map(written, news)))}")
        new = next(iter(news))
        if new != value and (seen is None or seen == value) and self._may_be_of_a_word(value):
            raise _Unclear(f"{text} may come from a word")
        self._took |= {at for at, _ in fits}
        return text if new == value else written(new)

    @cached_property
    def _results(self) -> frozenset[str]:
        """The results of the stored steps, which a later step may hold."""
        return frozenset(calculated(self._steps) or ())

    def _may_be_of_a_word(self, value: Fraction) -> bool:
        """Whether a number may come from a word: the steps have it more often than the task."""
        leaves = {at for at, _ in self._fits[value]}
        return not self._rest and value in self._alignment.meant and self._times[value] > len(leaves)

    def _of_its_own(self, value: Fraction) -> None:
        if self._rest or value in self._alignment.implied or value in _FREE:
            return
        self._own.add(value)
        if not self._calculates or self._seen:
            return
        unsure = value not in self._alignment.constants or written(value) in self._results
        if unsure and any(old.value != new.value for old, new in self._leaves):
            raise _Unclear(f"{written(value)} in the steps has no known origin")


def _walked(value: Any, number: Callable[[str], Any], text: Callable[[str, str], str], key: str = "") -> Any:
    """A value with its numbers and texts replaced, in the order in which they are bound."""
    if isinstance(value, Mapping):
        return {k: each if k in _NEVER else _walked(each, number, text, k) for k, each in value.items()}
    if isinstance(value, list | tuple):
        return [_walked(each, number, text) for each in value]
    if isinstance(value, bool) or value is None:
        return value
    return number(str(value)) if isinstance(value, int | float) else text(str(value), key)


def _numbers(value: Any) -> tuple[Any, list[str]]:
    """A value with each number replaced by `#`, and the numbers."""
    found: list[str] = []

    def mark(number: str) -> str:
        found.append(number)
        return "#"

    def within(text: str, _: str) -> str:
        parts = _REFERENCE.split(text)
        return "".join(p if p.startswith("{{") else NUMBER.sub(lambda hit: mark(hit[0]), p) for p in parts)

    return _walked(value, mark, within), found


def written(value: Fraction) -> str:
    """A number in digits; an infinite decimal as a fraction in parentheses."""
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return json.dumps(float(value)) if rest == 1 and len(str(value.denominator)) < 12 else f"({value})"


def plain_number(text: str) -> int | float:
    """The inverse of `written`."""
    return int(text) if text.lstrip("-").isdigit() else float(Fraction(text.strip("()")))


def deed(steps: Steps) -> str:
    """What steps do, for comparison: the last value if all of them calculate, else a hash of their calls."""
    if results := calculated(steps):
        return f"= {results[-1]}"
    calls = [(step.get("tool"), step.get("args")) for step in steps]
    return hashlib.sha256(json.dumps(calls, sort_keys=True, default=str).encode()).hexdigest()[:24]


def calculated(steps: Steps) -> list[str] | None:
    """The result of each `calc` step; None if there is another step or an unknown result."""
    from runtime.operations.calc import Calculator
    from runtime.operations.quantities import shown

    results: list[str] = []
    for step in steps:
        args = step.get("args")
        if step.get("tool") != "calc" or not isinstance(args, Mapping) or set(args) != {"expression"}:
            return None
        try:
            filled = _RESULT.sub(lambda hit: results[int(hit[1]) - 1], str(args["expression"]))
            value, target = Calculator(filled).whole()
        except Exception:
            return None
        if target or value.unit is not None:
            return None
        results.append(shown(value.number, value.exact))
    return results or None
