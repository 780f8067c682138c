"""Values and what is done with them: exact where it can be, bounded always."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from kernel.errors import OperationFailed
from runtime.operations.figures import MOST_BITS, checked, to_places

PRECISION = 50
"""Decimal digits of roots, of pi and of e; what is shown has twelve."""
PI = Fraction("3.14159265358979323846264338327950288419716939937510")
E = Fraction("2.71828182845904523536028747135266249775724709369995")
_LARGEST_FACTORIAL = 1_000


@dataclass(frozen=True)
class Value:
    """A number, whether it is exact, its unit (a pint unit), and whether it was written as a percentage."""

    number: Fraction
    exact: bool = True
    unit: Any = None
    percent: bool = False

    def plain(self, what: str) -> Fraction:
        """The number of a value that must have no unit."""
        if self.unit is not None:
            raise OperationFailed(f"{what} takes a plain number, not one with a unit")
        return self.number


def add(left: Value, right: Value, sign: int = 1) -> Value:
    """Sum or difference; a percentage is taken of what it is added to: 80 + 15% is 92."""
    if right.percent and not left.percent:
        changed = checked(left.number * (1 + sign * right.number))
        return replace(left, number=changed, exact=left.exact and right.exact)
    if left.unit is not None or right.unit is not None:
        from runtime.operations import units

        return units.add(left, right, sign)
    return Value(checked(left.number + sign * right.number), left.exact and right.exact)


def multiply(left: Value, right: Value) -> Value:
    """The product."""
    return _scaled(left, right, 1)


def divide(left: Value, right: Value) -> Value:
    """The quotient; raises on division by zero."""
    if right.number == 0:
        raise OperationFailed("division by zero")
    return _scaled(left, right, -1)


def _scaled(left: Value, right: Value, power: int) -> Value:
    exact = left.exact and right.exact
    number = checked(left.number * right.number**power)
    if left.unit is None and right.unit is None:
        return Value(number, exact)
    from runtime.operations import units

    return units.scale(left, right, power, exact)


def divide_whole(left: Value, right: Value) -> Value:
    """The quotient rounded down."""
    number, by = left.plain("//"), right.plain("//")
    if by == 0:
        raise OperationFailed("division by zero")
    return Value(Fraction(number // by), left.exact and right.exact)


def remainder(left: Value, right: Value) -> Value:
    """What is left after whole division; it has the sign of the divisor."""
    number, by = left.plain("mod"), right.plain("mod")
    if by == 0:
        raise OperationFailed("division by zero")
    return Value(number % by, left.exact and right.exact)


def power(base: Value, exponent: Value) -> Value:
    """A power, refused before it is computed when it would have more than 4,000 digits."""
    times = exponent.plain("an exponent")
    if base.unit is not None:
        from runtime.operations import units

        return units.power(base, times)
    number, exact = base.number, base.exact and exponent.exact
    if times.denominator == 1:
        return Value(_whole_power(number, times.numerator), exact)
    if number < 0:
        raise OperationFailed("a broken power of a negative number is not a real number")
    if number == 0:
        return Value(Fraction(0), exact) if times > 0 else divide(Value(Fraction(1)), Value(Fraction(0)))
    if exact and (root := _exact_root(number, times.denominator)) is not None:
        return Value(_whole_power(root, times.numerator), True)
    _refuse_large(number, abs(times))
    return Value(_approximate(lambda x: x ** _decimal(times), number), False)


def _whole_power(number: Fraction, times: int) -> Fraction:
    if number == 0 and times < 0:
        raise OperationFailed("division by zero")
    if number in (0, 1) or times == 0:
        return number**0 if times == 0 else number
    if number == -1:
        return Fraction(-1 if times % 2 else 1)
    _refuse_large(number, Fraction(abs(times)))
    return checked(number**times)


def _refuse_large(number: Fraction, times: Fraction) -> None:
    bits = max(number.numerator.bit_length(), number.denominator.bit_length()) - 1
    if times * max(bits, 1) > MOST_BITS:
        raise OperationFailed("the result has more than 4,000 digits")


def _exact_root(number: Fraction, degree: int) -> Fraction | None:
    if degree > 64:
        return None
    above, below = _integer_root(number.numerator, degree), _integer_root(number.denominator, degree)
    if above**degree == number.numerator and below**degree == number.denominator:
        return Fraction(above, below)
    return None


def _integer_root(number: int, degree: int) -> int:
    """The largest whole number whose power is not above; Newton's method."""
    if number < 2:
        return number
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _approximate(act: Callable[[Decimal], Decimal], number: Fraction) -> Fraction:
    with localcontext() as context:
        context.prec = PRECISION
        try:
            result = act(_decimal(number))
        except ArithmeticError:
            raise OperationFailed("the result is not a number that can be shown") from None
        if not result.is_finite() or abs(result.adjusted()) > 4_000:
            raise OperationFailed("the result has more than 4,000 digits")
        return Fraction(result)


def _decimal_function(act: Callable[[Decimal], Decimal], above: int | None = None) -> Callable[..., Value]:
    def function(name: str, args: Sequence[Value]) -> Value:
        number = args[0].plain(name)
        if above is not None and number <= above:
            raise OperationFailed(f"{name} is for numbers above {above}")
        return Value(_approximate(act, number), False)

    return function


def _float_function(act: Callable[[float], float], angle: bool = False) -> Callable[..., Value]:
    def function(name: str, args: Sequence[Value]) -> Value:
        value = args[0]
        if angle and value.unit is not None:
            from runtime.operations import units

            value = replace(units.convert(value, units.unit("radian")), unit=None)
        try:
            result = Fraction(act(float(value.plain(name)))).limit_denominator(10**15)
        except (ValueError, OverflowError):
            raise OperationFailed(f"{name} has no value there") from None
        return Value(result, False)

    return function


def _sqrt(name: str, args: Sequence[Value]) -> Value:
    if args[0].number < 0:
        raise OperationFailed("the square root of a negative number is not a real number")
    return power(args[0], Value(Fraction(1, 2)))


def _log(name: str, args: Sequence[Value]) -> Value:
    if len(args) == 1:
        return _decimal_function(Decimal.ln, 0)(name, args)
    base, number = args[1].plain(name), args[0].plain(name)
    if base <= 0 or base == 1 or number <= 0:
        raise OperationFailed("log needs a number above 0 and a base above 0 that is not 1")
    quotient = _approximate(Decimal.ln, number) / _approximate(Decimal.ln, base)
    nearest = round(quotient)
    if abs(nearest) < MOST_BITS and abs(quotient - nearest) < Fraction(1, 10**30) and base**nearest == number:
        return Value(Fraction(nearest), args[0].exact and args[1].exact)
    return Value(quotient, False)


def _log_of(base: int) -> Callable[..., Value]:
    return lambda name, args: _log(name, (args[0], Value(Fraction(base))))


def _factorial(name: str, args: Sequence[Value]) -> Value:
    number = args[0].plain(name)
    if number.denominator != 1 or not 0 <= number <= _LARGEST_FACTORIAL:
        raise OperationFailed(f"{name} is for whole numbers from 0 to {_LARGEST_FACTORIAL:,}")
    return Value(Fraction(math.factorial(number.numerator)), args[0].exact)


def _round(name: str, args: Sequence[Value]) -> Value:
    places = args[1].plain(name) if len(args) > 1 else Fraction(0)
    if places.denominator != 1 or abs(places) > 100:
        raise OperationFailed("round takes places as a whole number")
    return replace(args[0], number=to_places(args[0].number, places.numerator), exact=True, percent=False)


def _whole(act: Callable[[Fraction], int]) -> Callable[..., Value]:
    return lambda name, args: replace(args[0], number=Fraction(act(args[0].number)), percent=False)


def _sum(name: str, args: Sequence[Value]) -> Value:
    total = replace(args[0], percent=False)
    for each in args[1:]:
        total = add(total, replace(each, percent=False))
    return total


def _mean(name: str, args: Sequence[Value]) -> Value:
    return divide(_sum(name, args), Value(Fraction(len(args))))


def _ranked(args: Sequence[Value]) -> list[Value]:
    """In ascending order; values with units are compared by their differences to the first."""
    return sorted(args, key=lambda each: add(replace(each, percent=False), args[0], -1).number)


def _median(name: str, args: Sequence[Value]) -> Value:
    ranked = _ranked(args)
    half = len(ranked) // 2
    return ranked[half] if len(ranked) % 2 else _mean(name, ranked[half - 1 : half + 1])


def _common(act: Callable[..., int]) -> Callable[..., Value]:
    def function(name: str, args: Sequence[Value]) -> Value:
        numbers = [each.plain(name) for each in args]
        if any(number.denominator != 1 for number in numbers):
            raise OperationFailed(f"{name} is for whole numbers")
        return Value(checked(Fraction(act(*(number.numerator for number in numbers)))))

    return function


MANY = 1_000
FUNCTIONS: Mapping[str, tuple[Callable[..., Value], int, int]] = {
    "abs": (lambda name, args: replace(args[0], number=abs(args[0].number)), 1, 1),
    "round": (_round, 1, 2),
    "floor": (_whole(math.floor), 1, 1),
    "ceil": (_whole(math.ceil), 1, 1),
    "sqrt": (_sqrt, 1, 1),
    "min": (lambda name, args: _ranked(args)[0], 1, MANY),
    "max": (lambda name, args: _ranked(args)[-1], 1, MANY),
    "sum": (_sum, 1, MANY),
    "mean": (_mean, 1, MANY),
    "average": (_mean, 1, MANY),
    "median": (_median, 1, MANY),
    "gcd": (_common(math.gcd), 1, MANY),
    "lcm": (_common(math.lcm), 1, MANY),
    "mod": (lambda name, args: remainder(*args), 2, 2),
    "pow": (lambda name, args: power(*args), 2, 2),
    "factorial": (_factorial, 1, 1),
    "exp": (_decimal_function(Decimal.exp), 1, 1),
    "ln": (_decimal_function(Decimal.ln, 0), 1, 1),
    "log": (_log, 1, 2),
    "log10": (_log_of(10), 1, 1),
    "log2": (_log_of(2), 1, 1),
    "sin": (_float_function(math.sin, angle=True), 1, 1),
    "cos": (_float_function(math.cos, angle=True), 1, 1),
    "tan": (_float_function(math.tan, angle=True), 1, 1),
    "asin": (_float_function(math.asin), 1, 1),
    "acos": (_float_function(math.acos), 1, 1),
    "atan": (_float_function(math.atan), 1, 1),
}
"""Name, what it does, the fewest and the most arguments; `log` of one argument is the natural one."""


def call(name: str, args: Sequence[Value]) -> Value:
    """A function's value; raises when there is no such function, or for other arguments."""
    if name not in FUNCTIONS:
        raise OperationFailed(f"there is no function {name}; there are {', '.join(sorted(FUNCTIONS))}")
    act, least, most = FUNCTIONS[name]
    if not least <= len(args) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}" if most < MANY else f"at least {least}"
        raise OperationFailed(
            f"{name} takes {wanted} argument{'s' if wanted != '1' else ''}, not {len(args)}"
        )
    return act(name, args)
