"""Regular expressions that anybody may have written: whether they are valid, fast, and say anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

NEUTRAL = ("", " ", "So is the ox.")
"""Texts that say nothing about a task: none, a blank, a sentence."""
NUMBERS = ("12", "47")
"""A pattern that matches both says only that something is a number."""
LONGER = "Jackdaws vex a sphinx, and the quartz is of it."
"""Another sentence, for patterns that are fast on any text."""
_CHOICES = re.compile(r"[*+?{|]|\\[1-9]")


def empty(criterion: Mapping[str, Any]) -> bool:
    """Whether a criterion that code states has a pattern that matches any text."""
    has = criterion.get("has")
    with suppress(ValueError):  # it is reported where the plan is read
        return bool(has) and neutral(str(has), numbers=True)
    return False


def neutral(has: str, *, numbers: bool) -> bool:
    """Whether a pattern says nothing: it matches a text of `NEUTRAL`, or any number.

    `numbers`: it may say that a text is a number, or that it has a word.
    """
    pattern = pattern_of(has, re.MULTILINE)
    none, blank, *sentences = (bool(pattern.search(text)) for text in NEUTRAL)
    number = all(pattern.search(text) for text in NUMBERS)
    sentences += [quick(has) and bool(pattern.search(LONGER))]
    if numbers:
        return none or blank or (number and any(sentences))
    return none or blank or number or any(sentences)


def quick(pattern: str) -> bool:
    """Whether a regular expression has at most one choice, so that it is fast on any text."""
    return len(_CHOICES.findall(pattern)) <= 1


def pattern_of(text: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a regular expression; raises `ValueError` with the reason if it is invalid."""
    try:
        return re.compile(text, flags)
    except Exception as error:  # not only `re.error`: nesting too deep, a number too large
        raise ValueError(f"{text[:80]!r} is not a regular expression: {error}") from None
