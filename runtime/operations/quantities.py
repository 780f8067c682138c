"""Exact numbers and values with units: arithmetic, functions, conversion, and how a person reads them.

pint knows the units; it is imported when the first unit is met.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from typing import Any, cast

from kernel.errors import OperationFailed

DIGITS = 12
"""Significant digits of a result that is no finite decimal, such as 1/3."""
_LONGEST = 30
"""Characters up to which a finite decimal is shown whole."""
MOST_BITS = 14_000
"""Bits of the largest numerator or denominator, about 4,200 decimal digits, which Python converts quickly."""


def checked(value: Fraction) -> Fraction:
    """The value; raises if it has too many digits."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise OperationFailed("the result has more than 4,000 digits")
    return value


def shown(value: Fraction, exact: bool = True) -> str:
    """A number as a person reads it: whole, as a finite decimal, or rounded to 12 significant digits."""
    if value.denominator == 1 and (exact or abs(value) < 10**DIGITS):
        return str(value.numerator)
    if exact:
        with suppress(Inexact):
            finite = Context(prec=_LONGEST, traps=[Inexact])
            text = f"{finite.divide(Decimal(value.numerator), Decimal(value.denominator)):f}"
            if len(text) <= _LONGEST:
                return text
    return rounded(value, DIGITS)


def rounded(value: Fraction, digits: int) -> str:
    """The number to `digits` significant digits, half to even, without trailing zeros."""
    with localcontext() as context:
        context.prec = digits
        context.Emax, context.Emin = 10_000, -10_000
        result = (Decimal(value.numerator) / Decimal(value.denominator)).normalize()
    exponent = result.adjusted()
    if -7 <= exponent < 21:
        return f"{result:f}"
    return f"{result:e}".replace("e+", "e")


def to_places(value: Fraction, places: int) -> Fraction:
    """The value rounded half away from zero to `places` after the point."""
    scaled = abs(value) * Fraction(10) ** places
    whole = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    result = Fraction(whole) / Fraction(10) ** places
    return -result if value < 0 else result


PRECISION = 50
"""Decimal digits of roots; results show twelve."""
_LARGEST_FACTORIAL = 1_000


@dataclass(frozen=True)
class Value:
    """A number, whether it is exact, its unit (a pint unit), and whether it was written as a percentage."""

    number: Fraction
    exact: bool = True
    unit: Any = None
    percent: bool = False

    def plain(self, what: str) -> Fraction:
        """The number; raises if it has a unit."""
        if self.unit is not None:
            raise OperationFailed(f"{what} takes a plain number, not one with a unit")
        return self.number


def add(left: Value, right: Value, sign: int = 1) -> Value:
    """Sum or difference; a percentage is taken of what it is added to: 80 + 15% is 92."""
    if right.percent and not left.percent:
        changed = checked(left.number * (1 + sign * right.number))
        return replace(left, number=changed, exact=left.exact and right.exact)
    exact = left.exact and right.exact
    if left.unit is None and right.unit is None:
        return Value(checked(left.number + sign * right.number), exact)
    if left.unit is None or right.unit is None:
        named = left.unit if left.unit is not None else right.unit
        raise OperationFailed(f"{unit_name(named)} and a plain number cannot be added; give both a unit")
    act = operator.add if sign > 0 else operator.sub
    return _value(_guarded(act, _quantity(left), _quantity(right)), exact)


def subtract(left: Value, right: Value) -> Value:
    """The difference."""
    return add(left, right, -1)


def multiply(left: Value, right: Value, power: int = 1) -> Value:
    """The product, or with power -1 the quotient, with units reduced."""
    exact = left.exact and right.exact
    number = checked(left.number * right.number**power)
    if left.unit is None and right.unit is None:
        return Value(number, exact)
    act = operator.mul if power > 0 else operator.truediv
    result = _guarded(act, _quantity(left), _quantity(right))
    if left.unit is not None and right.unit is not None:
        result = _guarded(_reduced, result)
    return _value(result, exact)


def divide(left: Value, right: Value) -> Value:
    """The quotient; raises on division by zero."""
    if right.number == 0:
        raise OperationFailed("division by zero")
    return multiply(left, right, -1)


def divide_whole(left: Value, right: Value) -> Value:
    """The quotient rounded down."""
    return _divided(left, right, "//", operator.floordiv)


def remainder(left: Value, right: Value) -> Value:
    """The remainder, with the sign of the divisor."""
    return _divided(left, right, "mod", operator.mod)


def _divided(left: Value, right: Value, name: str, act: Callable[[Fraction, Fraction], Any]) -> Value:
    number, by = left.plain(name), right.plain(name)
    if by == 0:
        raise OperationFailed("division by zero")
    return Value(Fraction(act(number, by)), left.exact and right.exact)


def power(base: Value, exponent: Value) -> Value:
    """A power; raises before computing one with more than 4,000 digits."""
    times = exponent.plain("an exponent")
    if base.unit is not None:
        return unit_power(base, times)
    number, exact = base.number, base.exact and exponent.exact
    if times.denominator == 1:
        return Value(_whole_power(number, times.numerator), exact)
    if number < 0:
        raise OperationFailed("a broken power of a negative number is not a real number")
    if exact and (root := _exact_root(number, times.denominator)) is not None:
        return Value(_whole_power(root, times.numerator), True)
    _refuse_large(number, abs(times))
    return Value(_approximate_power(number, times), False)


def _whole_power(number: Fraction, times: int) -> Fraction:
    if number == 0 and times < 0:
        raise OperationFailed("division by zero")
    _refuse_large(number, Fraction(abs(times)))
    return checked(number**times)


def _refuse_large(number: Fraction, times: Fraction) -> None:
    bits = max(number.numerator.bit_length(), number.denominator.bit_length()) - 1
    if times * bits > MOST_BITS:
        raise OperationFailed("the result has more than 4,000 digits")


def _exact_root(number: Fraction, degree: int) -> Fraction | None:
    if degree > 64:
        return None
    root = Fraction(_nearest_root(number.numerator, degree), _nearest_root(number.denominator, degree))
    return root if root**degree == number else None


def _nearest_root(number: int, degree: int) -> int:
    with localcontext(prec=number.bit_length() // (3 * degree) + 20):
        return round(Decimal(number) ** (1 / Decimal(degree)))


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _approximate_power(number: Fraction, times: Fraction) -> Fraction:
    with localcontext(prec=PRECISION):
        try:
            result = _decimal(number) ** _decimal(times)
        except ArithmeticError:
            raise OperationFailed("the result is not a number that can be shown") from None
        if not result.is_finite() or abs(result.adjusted()) > 4_000:
            raise OperationFailed("the result has more than 4,000 digits")
        return Fraction(result)


def _real(name: str, args: Sequence[Value]) -> Value:
    """A function of the module math, in the precision of floats; `ln x` and `log x` are the same."""
    if args[0].unit is not None and name in ("sin", "cos", "tan"):
        args = [replace(convert(args[0], parse_unit("radian")), unit=None)]
    numbers = [each.plain(name) for each in args]
    if name in ("ln", "log", "log2", "log10") and (min(numbers) <= 0 or 1 in numbers[1:]):
        raise OperationFailed(f"{name} needs a number above 0, and a base above 0 that is not 1")
    act = getattr(math, "log" if name == "ln" else name)
    try:
        result = act(*(each.numerator if each.denominator == 1 else float(each) for each in numbers))
    except (ValueError, OverflowError):
        raise OperationFailed(f"{name} has no value there") from None
    return Value(Fraction(round(result, 15) if "sin" in name or "cos" in name else result), False)


def _sqrt(name: str, args: Sequence[Value]) -> Value:
    if args[0].number < 0:
        raise OperationFailed("the square root of a negative number is not a real number")
    return power(args[0], Value(Fraction(1, 2)))


def _round(name: str, args: Sequence[Value]) -> Value:
    places = args[1].plain(name) if len(args) > 1 else Fraction(0)
    if places.denominator != 1 or abs(places) > 100:
        raise OperationFailed("round takes places as a whole number")
    return replace(args[0], number=to_places(args[0].number, places.numerator), exact=True, percent=False)


def _whole(name: str, args: Sequence[Value]) -> Value:
    return replace(args[0], number=Fraction(getattr(math, name)(args[0].number)), percent=False)


def _sum(name: str, args: Sequence[Value]) -> Value:
    total = replace(args[0], percent=False)
    for each in args[1:]:
        total = add(total, replace(each, percent=False))
    return total


def _mean(name: str, args: Sequence[Value]) -> Value:
    return divide(_sum(name, args), Value(Fraction(len(args))))


def _ranked(args: Sequence[Value]) -> list[Value]:
    """The values in ascending order, compared by their differences to the first because of units."""
    return sorted(args, key=lambda each: subtract(replace(each, percent=False), args[0]).number)


def _median(name: str, args: Sequence[Value]) -> Value:
    ranked = _ranked(args)
    half = len(ranked) // 2
    return ranked[half] if len(ranked) % 2 else _mean(name, ranked[half - 1 : half + 1])


def _of_whole_numbers(name: str, args: Sequence[Value]) -> Value:
    numbers = [each.plain(name) for each in args]
    if any(number.denominator != 1 for number in numbers):
        raise OperationFailed(f"{name} is for whole numbers")
    if name == "factorial" and not 0 <= numbers[0] <= _LARGEST_FACTORIAL:
        raise OperationFailed(f"factorial is for whole numbers from 0 to {_LARGEST_FACTORIAL:,}")
    result = getattr(math, name)(*(number.numerator for number in numbers))
    return Value(checked(Fraction(result)), all(each.exact for each in args))


MANY = 1_000
FUNCTIONS: Mapping[str, tuple[Callable[..., Value], int, int]] = {
    "abs": (lambda name, args: replace(args[0], number=abs(args[0].number)), 1, 1),
    "round": (_round, 1, 2),
    "sqrt": (_sqrt, 1, 1),
    "min": (lambda name, args: _ranked(args)[0], 1, MANY),
    "max": (lambda name, args: _ranked(args)[-1], 1, MANY),
    "sum": (_sum, 1, MANY),
    "median": (_median, 1, MANY),
    "mod": (lambda name, args: remainder(*args), 2, 2),
    "pow": (lambda name, args: power(*args), 2, 2),
    "factorial": (_of_whole_numbers, 1, 1),
    "log": (_real, 1, 2),
    **dict.fromkeys(("floor", "ceil"), (_whole, 1, 1)),
    **dict.fromkeys(("mean", "average"), (_mean, 1, MANY)),
    **dict.fromkeys(("gcd", "lcm"), (_of_whole_numbers, 1, MANY)),
    **dict.fromkeys(
        ("exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan"), (_real, 1, 1)
    ),
}
"""Name: function, least and most arguments."""


def call(name: str, args: Sequence[Value]) -> Value:
    """The value of a function; raises for an unknown function or wrong arguments."""
    if name not in FUNCTIONS:
        raise OperationFailed(f"there is no function {name}; there are {', '.join(sorted(FUNCTIONS))}")
    act, least, most = FUNCTIONS[name]
    if not least <= len(args) <= most:
        count = f"{least}" if least == most else f"{least} to {most}" if most < MANY else f"at least {least}"
        raise OperationFailed(f"{name} takes {count} argument{'s' if count != '1' else ''}, not {len(args)}")
    return act(name, args)


_HIGHEST_POWER = 12
ALIASES: dict[str, str] = dict(
    re.findall(
        r"(\S+) (\S+?)(?:, |$)",
        "C degC, F degF, °C degC, °F degF, ° degree, KB kB, kb kB, mb MB, gb GB, tb TB, bits bit, KG kg, "
        "Km km, KM km, sqm m**2, sqft ft**2, mpg mile/gallon, hrs hour, secs second, mins minute, lbs pound",
    )
)
"""Common spellings that pint does not know. C and F are temperatures here; write out coulomb and farad."""
_SHORT = {
    "degree_Celsius": "°C",
    "degree_Fahrenheit": "°F",
    "kilometer_per_hour": "km/h",
    "mile_per_hour": "mph",
}
_NO_PLURAL = ("s", "z", "x", "kelvin", "celsius")


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(non_int_type=cast(Any, Fraction), cache_folder=None)


def parse_unit(name: str) -> Any:
    """The pint unit of that name; raises with a hint when there is none."""
    import pint

    for spelling, exactly in ((ALIASES.get(name, name), True), (name, False)):
        with suppress(pint.PintError, AttributeError, ValueError, TypeError):
            return _registry().parse_units(spelling, case_sensitive=exactly)
    raise OperationFailed(f"{name}: no such unit, function or constant; write it out, such as kilometer")


def _quantity(value: Value) -> Any:
    return _registry().Quantity(value.number, value.unit if value.unit is not None else "")


def _value(quantity: Any, exact: bool) -> Value:
    magnitude = quantity.magnitude
    exact = exact and not isinstance(magnitude, float)
    number = checked(Fraction(magnitude))
    return Value(number, exact, None if quantity.unitless else quantity.units)


def _guarded(act: Any, *args: Any) -> Any:
    """Call `act`, with errors of pint as sentences."""
    import pint

    try:
        return act(*args)
    except pint.DimensionalityError as error:
        raise OperationFailed(
            f"{_named(error.units1)} and {_named(error.units2)} do not measure the same thing"
        ) from None
    except pint.OffsetUnitCalculusError:
        raise OperationFailed(
            "temperatures can be converted but not added or multiplied; use kelvin"
        ) from None
    except (pint.PintError, ArithmeticError, ValueError, TypeError) as error:
        raise OperationFailed(f"these units cannot be combined: {error}") from None


def _named(units: Any) -> str:
    """The name of units from an error of pint, which may be a text or lack a registry."""
    if isinstance(units, str):
        return units
    parts = dict(getattr(units, "_units", units))
    return unit_name(_registry().Unit(units)) if parts else "a plain number"


def _reduced(quantity: Any) -> Any:
    if quantity.dimensionless:
        return quantity.to_root_units() if not quantity.unitless else quantity
    return quantity.to_reduced_units()


def unit_power(base: Value, times: Fraction) -> Value:
    """A power or root of a value with a unit."""
    if abs(times) > _HIGHEST_POWER:
        raise OperationFailed(f"a unit to a power above {_HIGHEST_POWER}")
    if times.denominator == 1 and (base.number or times > 0):
        exponent: Any = times.numerator
        return _value(_guarded(operator.pow, _quantity(base), exponent), base.exact)
    number = power(Value(base.number, base.exact), Value(times))
    return Value(number.number, number.exact, _guarded(operator.pow, base.unit, times))


def convert(value: Value, target: Any) -> Value:
    """The value in another unit."""
    if value.unit is None:
        raise OperationFailed(f"a plain number cannot be converted to {unit_name(target)}; give it a unit")
    converted = _guarded(lambda: _quantity(value).to(target))
    angles = {"radian", "degree", "arcminute", "arcsecond"} & {*value.unit._units, *target._units}
    return _value(converted, value.exact and (not angles or value.unit == target))


_SUPERSCRIPTS = str.maketrans("0123456789-/", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᐟ")


def _compound(parts: Mapping[str, Any]) -> str:
    """A compound unit in symbols; the format of pint does not support fractional exponents."""
    registry = _registry()
    above: list[str] = []
    below: list[str] = []
    for name, exponent in sorted(parts.items()):
        times = abs(Fraction(exponent))
        symbol = registry.get_symbol(name) + ("" if times == 1 else str(times).translate(_SUPERSCRIPTS))
        (above if exponent > 0 else below).append(symbol)
    return "/".join(["·".join(above) or "1", *below])


def unit_name(named: Any, plural: bool = False) -> str:
    """A unit as people write it: miles, km/h, m²."""
    parts = dict(named._units)
    name, exponent = next(iter(parts.items()))
    if len(parts) > 1 or exponent != 1:
        return _compound(parts)
    if name in _SHORT:
        return _SHORT[name]
    name = name.replace("_", " ")
    if not plural or name.endswith(_NO_PLURAL):
        return name
    if " per " in name:
        return name.replace(" per ", "s per ", 1)
    return {"foot": "feet", "inch": "inches"}.get(name, f"{name}s")
