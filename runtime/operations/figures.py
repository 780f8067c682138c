"""Numbers as people read them: a sensible text from an exact fraction."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

from kernel.errors import OperationFailed

DIGITS = 12
"""Significant digits of a result that has no end, such as 1/3."""
_LONGEST = 30
"""Digits up to which a decimal that ends is shown whole."""
MOST_BITS = 14_000
"""Bits of the largest numerator or denominator: about 4,200 decimal digits, what Python converts quickly."""


def checked(value: Fraction) -> Fraction:
    """The value, or a refusal when it has too many digits to be of use."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise OperationFailed("the result has more than 4,000 digits")
    return value


def shown(value: Fraction, exact: bool = True) -> str:
    """A number as a person reads it: whole, as a decimal that ends, or rounded to 12 significant digits."""
    if value.denominator == 1 and (exact or abs(value) < 10**DIGITS):
        return str(value.numerator)
    if exact and (places := _ends_after(value)) is not None:
        text = _fixed(value, places)
        if len(text) <= _LONGEST:
            return text
    return rounded(value, DIGITS)


def rounded(value: Fraction, digits: int) -> str:
    """The number to so many significant digits, half to even, without trailing zeros."""
    with localcontext() as context:
        context.prec = digits
        context.Emax, context.Emin = 10_000, -10_000
        result = (Decimal(value.numerator) / Decimal(value.denominator)).normalize()
    exponent = result.adjusted()
    if -7 <= exponent < 21:
        return f"{result:f}"
    return f"{result:e}".replace("e+", "e")


def is_rounded(value: Fraction, text: str) -> bool:
    """Whether the text that is shown is not the whole truth."""
    return Fraction(text) != value


def to_places(value: Fraction, places: int) -> Fraction:
    """Rounded half away from zero, as people do, to so many places after the point."""
    scaled = abs(value) * Fraction(10) ** places
    whole = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    result = Fraction(whole) / Fraction(10) ** places
    return -result if value < 0 else result


def _ends_after(value: Fraction) -> int | None:
    """Decimals after which the number ends; None when it never does."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def _fixed(value: Fraction, places: int) -> str:
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"
