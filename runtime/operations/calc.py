"""The operation calc: an expression's value, exactly, in the unit or to the places that are asked for."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, operation
from runtime.operations import figures
from runtime.operations.calculator import Calculator
from runtime.operations.mathematics import Value

_PREFACE = re.compile(r"(?i)^(?:what\s+is|what's|calculate|compute|convert|how\s+much\s+is)\s+")
_PLACES = re.compile(r"(\d{1,2})\s*(?:decimals?|decimal places?|places?)", re.IGNORECASE)
_MOST_EXACT_BITS = 400
"""Fractions above are not shown in the evidence; the result is."""


@operation()
def calc(ctx: OperationContext, expression: str, to: str = "") -> Result:
    """The value of an expression; `to` names a unit, `%`, or places ("2 decimals")."""
    text = _PREFACE.sub("", expression.strip()).rstrip("?= ")
    value, target = Calculator(text).whole()
    if to.strip() and target and to.strip() != target:
        raise OperationFailed(f"the expression asks for {target} and the argument `to` for {to}; give one")
    return _result(*_converted(value, target or to.strip()))


def _converted(value: Value, target: str) -> tuple[Value, str]:
    """The value as it is asked for, and what stands after its number."""
    if not target:
        return value, ""
    if hit := _PLACES.fullmatch(target):
        return Value(figures.to_places(value.number, int(hit[1])), True, value.unit), ""
    if target.lower() in ("%", "percent"):
        return Value(value.plain("%") * 100, value.exact), "%"
    from runtime.operations import units

    wanted, further = Calculator(target).whole()
    if further or wanted.unit is None or wanted.number != Fraction(1):
        raise OperationFailed(f"{target}: not a unit; write such as km/h")
    return units.convert(value, wanted.unit), ""


def _result(value: Value, suffix: str) -> Result:
    text = figures.shown(value.number, value.exact)
    evidence: dict[str, Any] = {"rounded": not value.exact or figures.is_rounded(value.number, text)}
    bits = max(value.number.numerator.bit_length(), value.number.denominator.bit_length())
    if value.exact and bits <= _MOST_EXACT_BITS:
        evidence["exact"] = str(value.number)
    if value.unit is not None:
        from runtime.operations import units

        suffix = f" {units.shown(value.unit, plural=value.number != 1)}"
        evidence |= {"value": text, "unit": suffix.strip()}
    return Result(f"{text}{suffix}", evidence=evidence)
