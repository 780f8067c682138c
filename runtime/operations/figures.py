"""Numbers as people write and read them: exact fractions from text, and a sensible text from a fraction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from kernel.errors import OperationFailed

DIGITS = 12
"""Significant digits of a result that has no end, such as 1/3."""
_LONGEST = 30
"""Digits up to which a decimal that ends is shown whole."""
_EXACT = Context(prec=25_000, Emax=99_999, Emin=-99_999)
"""Digits enough that sums of numbers of 400 digits and powers of four are exact."""
MOST_BITS = 14_000
"""Bits of the largest numerator or denominator: about 4,200 decimal digits, what Python converts quickly."""
_NUMBER = re.compile(
    r"(?P<sign>[-+−]?)\s*[$€£¥]?\s*"
    r"(?P<whole>\d{1,3}(?:[,_'’  ]\d{3})+|\d+)?(?P<part>\.\d*)?(?P<power>[eE][-+]?\d{1,4})?"
    r"\s*[$€£¥]?(?P<percent>%?)"
)


_PLAIN = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?")


def number(text: str) -> Decimal | None:
    """The number that a cell or a word holds ("1,234.50", "$12", "15%"), exactly; None when it holds none."""
    if _PLAIN.fullmatch(text):
        return Decimal(text)
    hit = _NUMBER.fullmatch(text.strip()) if len(text) <= 400 else None
    if hit is None or (hit["whole"] is None and hit["part"] in (None, ".")):
        return None
    sign = "-" if hit["sign"] in ("-", "−") else ""
    whole = re.sub(r"\D", "", hit["whole"] or "0")
    value = Decimal(f"{sign}{whole}{hit['part'] or ''}{hit['power'] or ''}")
    return value.scaleb(-2, _EXACT) if hit["percent"] else value


def total(numbers: Iterable[Decimal]) -> Fraction:
    """Their sum, exactly."""
    result = Decimal(0)
    for each in numbers:
        result = _EXACT.add(result, each)
    return Fraction(result)


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
