"""A stored procedure with a new task's values in it: each used where the stored one was used, one to one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from runtime.memory.procedural.alignment import Alignment, Refusal
from runtime.memory.procedural.leaves import Token

CALCULATING = frozenset({"calc"})
"""Tools for which names and nouns are labels: what is counted does not change how it is reckoned."""
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
        return "".join(
            part if part.startswith("{{") else self._in_text(part) for part in _REFERENCE.split(str(value))
        )

    def _in_text(self, text: str) -> str:
        if text in self._texts:
            self.used.add(text)
            return self._texts[text]
        for old in sorted(self._texts, key=len, reverse=True):
            whole = re.compile(rf"(?<![\w/.-]){re.escape(old)}(?![\w/-])")
            if old and whole.search(text):
                self.used.add(old)
                text = whole.sub(lambda _: self._texts[old], text)  # noqa: B023 (used at once)
        for was, becomes in self._exchanged.items():
            text = self._word(text, was, becomes)
        return _NUMBER.sub(lambda hit: self._number(hit[0]), text)

    def _word(self, text: str, was: str, becomes: str) -> str:
        def put(hit: re.Match[str]) -> str:
            self.used.add(was)
            return becomes.capitalize() if hit[0][0].isupper() else becomes

        return re.sub(rf"(?i)(?<!\w){re.escape(was)}(?!\w)", put, text)

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
