"""A stored procedure with a new task's values in it: each used where the stored one was used, one to one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from runtime.memory.procedural.alignment import Alignment, Refusal
from runtime.memory.procedural.leaves import Token

CALCULATING = frozenset({"calc"})
"""Tools for which names and nouns are labels: what is counted does not change how it is reckoned."""
COMMANDS = frozenset({"command", "run", "script"})
"""Arguments and criteria that a shell reads: only words that it takes as they stand are put there."""
_PLAIN = re.compile(r"(?!-)[\w./@%+=:,-]+")
_REFERENCE = re.compile(r"(\{\{.*?\}\})")
_NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+)(?![\w.])")

Steps = Sequence[Mapping[str, Any]]


def bind(steps: Steps, alignment: Alignment, *, used: Steps | None = None) -> list[dict[str, Any]] | Refusal:
    """The steps with what differs put in its place, or why that cannot be told.

    `used` are steps that the values have gone into already: then these need not use them.

    A stored value that stands for two new ones is ambiguous. A value that differs and is used nowhere may
    have gone into a step in another form, so it is refused as well.
    """
    binder = _Binder(alignment)
    try:
        bound = [{key: binder.bound(value, key) for key, value in step.items()} for step in steps]
    except _Ambiguous as error:
        return Refusal(str(error))
    if used is not None:
        return bound
    for old, new in alignment.leaves:
        if (old.value, old.unit) != (new.value, new.unit) and old.value not in binder.used:
            return Refusal(f"{old.text!r} differs, and no step uses it as it stands")
    calculates = all(step.get("tool") in CALCULATING for step in steps)
    for was, becomes in alignment.exchanged.items():
        if not calculates and was not in binder.used:
            return Refusal(f"{was!r} became {becomes!r}, and no step uses it")
    return bound


class _Ambiguous(Exception):
    """A stored value that two new ones could stand for."""


class _Binder:
    def __init__(self, alignment: Alignment) -> None:
        self.used: set[Fraction | str] = set()
        self._numbers: dict[Fraction, set[Fraction]] = {}
        self._percents: dict[Fraction, set[Fraction]] = {}
        self._texts: dict[str, str] = {}
        for old, new in alignment.leaves:
            if isinstance(old.value, Fraction) and isinstance(new.value, Fraction):
                into = self._percents if old.unit == "%" else self._numbers
                into.setdefault(old.value, set()).add(new.value)
            else:
                self._text(old, new)
        self._exchanged = alignment.exchanged

    def _text(self, old: Token, new: Token) -> None:
        if self._texts.setdefault(str(old.value), str(new.value)) != str(new.value):
            raise _Ambiguous(f"{old.text!r} stands for two values")

    def bound(self, value: Any, key: str = "") -> Any:
        if key == "tool":
            return value
        if isinstance(value, Mapping):
            return {name: self.bound(each, name) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.bound(each) for each in value]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return _plain_number(self._number(str(value)))
        before, self.used = self.used, set()
        made = "".join(
            part if part.startswith("{{") else self._in_text(part) for part in _REFERENCE.split(str(value))
        )
        if key in COMMANDS:
            self._refuse_unplain()
        self.used |= before
        return made

    def _refuse_unplain(self) -> None:
        for old in self.used:
            new = self._texts.get(str(old), "x")
            if not _PLAIN.fullmatch(new):
                raise _Ambiguous(f"{new!r} is no word that a shell takes as it stands")

    def _in_text(self, text: str) -> str:
        """All at once, so that what has been put in is not taken for what is to be replaced."""
        if text in self._texts:
            self.used.add(text)
            return self._texts[text]
        return self._places.sub(self._put, text)

    @cached_property
    def _places(self) -> re.Pattern[str]:
        texts = "|".join(re.escape(old) for old in sorted(self._texts, key=len, reverse=True) if old)
        words = "|".join(re.escape(was) for was in sorted(self._exchanged, key=len, reverse=True))
        found = [rf"(?P<text>(?<![\w/.-])(?:{texts})(?![\w/-]))"] if texts else []
        found += [rf"(?P<word>(?i:(?<!\w)(?:{words})(?!\w)))"] if words else []
        return re.compile("|".join([*found, f"(?P<number>{_NUMBER.pattern})"]))

    def _put(self, hit: re.Match[str]) -> str:
        old = hit[0]
        if hit.lastgroup == "number":
            return self._number(old)
        if hit.lastgroup == "text":
            self.used.add(old)
            return self._texts[old]
        self.used.add(old.lower())
        becomes = self._exchanged[old.lower()]
        return becomes.capitalize() if old[0].isupper() else becomes

    def _number(self, text: str) -> str:
        """A number of a step: what stands for it now, as it is written in plain digits."""
        value = Fraction(text)
        for table, scale in ((self._numbers, 1), (self._percents, 1), (self._percents, 100)):
            news = table.get(value * scale)
            if news is None:
                continue
            if len(news) > 1:
                raise _Ambiguous(f"{text} stands for {' and '.join(sorted(map(_written, news)))}")
            self.used.add(value * scale)
            new = next(iter(news)) / scale
            return text if new == value else _written(new)
        return text


def _written(value: Fraction) -> str:
    """A number in digits; one without an end as a fraction in brackets."""
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return json.dumps(float(value)) if rest == 1 and len(str(value.denominator)) < 12 else f"({value})"


def _plain_number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(Fraction(text.strip("()")))
