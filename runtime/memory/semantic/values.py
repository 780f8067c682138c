"""Whether two texts agree in their values: numbers, dates, names, negation, opposites; not only in vectors.

A merge needs agreement: two texts that an embedder holds to be the same may contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runtime.memory.procedural.leaves import tokens

Verdict = Literal["same", "open", "differ", "contrary"]
"""Every word agrees; no value differs, the wording does; a value differs; one denies the other."""


@dataclass(frozen=True)
class Agreement:
    """How two texts stand to each other in their values, and why."""

    verdict: Verdict
    why: str = ""

    @property
    def mergeable(self) -> bool:
        """Whether nothing speaks against one memory for both."""
        return self.verdict in ("same", "open")


@dataclass(frozen=True)
class Said:
    """A text, who said it (`I` is this one) and when."""

    text: str
    who: str = ""
    at: str = ""


def canonical(text: str) -> str:
    """The same for texts that differ in case, spaces, signs and how their numbers are written."""
    found = tokens(text)
    return " ".join(
        f"{each.value}{each.unit}" if each.kind == "number" else each.low
        for each in found
        if each.kind != "mark" or each.text not in ".,;:!?"
    )


def agreement(a: Said, b: Said) -> Agreement:
    """Whether two sayings agree in their values."""
    if canonical(a.text) == canonical(b.text):
        return Agreement("same")
    one = sorted((each.value, each.unit) for each in tokens(a.text) if each.kind == "number")
    other = sorted((each.value, each.unit) for each in tokens(b.text) if each.kind == "number")
    if one != other:
        return Agreement("differ", "their numbers differ")
    return Agreement("open")
