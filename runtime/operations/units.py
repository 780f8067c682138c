"""Values with units; pint knows the units and is imported when the first one is met."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

from kernel.errors import OperationFailed
from runtime.operations.figures import checked
from runtime.operations.mathematics import Value

_HIGHEST_POWER = 12
ALIASES = {
    "C": "degC",
    "F": "degF",
    "°C": "degC",
    "°F": "degF",
    "°": "degree",
    "KB": "kB",
    "kb": "kB",
    "mb": "MB",
    "gb": "GB",
    "tb": "TB",
    "bits": "bit",
    "sqm": "m**2",
    "sqft": "ft**2",
    "mpg": "mile/gallon",
    "KG": "kg",
    "Km": "km",
    "KM": "km",
    "hrs": "hour",
    "secs": "second",
    "mins": "minute",
    "lbs": "pound",
}
"""How people write what pint calls otherwise; C and F are temperatures here (write coulomb, farad)."""
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


def unit(name: str) -> Any:
    """The pint unit of that name; raises with a hint when there is none."""
    import pint

    registry = _registry()
    try:
        return registry.parse_units(ALIASES.get(name, name))
    except (pint.UndefinedUnitError, AttributeError):
        pass
    try:
        return registry.parse_units(name, case_sensitive=False)
    except (pint.PintError, AttributeError, ValueError, TypeError):
        raise OperationFailed(
            f"{name}: no such unit, function or constant; write it out, such as kilometer"
        ) from None


def _quantity(value: Value) -> Any:
    return _registry().Quantity(value.number, value.unit if value.unit is not None else "")


def _value(quantity: Any, exact: bool) -> Value:
    magnitude = quantity.magnitude
    exact = exact and not isinstance(magnitude, float)
    number = checked(Fraction(magnitude))
    return Value(number, exact, None if quantity.unitless else quantity.units)


def _guarded(act: Any, *args: Any) -> Any:
    """Pint's own complaints as sentences."""
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
    """Units as an error has them, which may be without their registry, or a text."""
    if isinstance(units, str):
        return units
    parts = dict(getattr(units, "_units", units))
    return shown(_registry().Unit(units)) if parts else "a plain number"


def add(left: Value, right: Value, sign: int) -> Value:
    """Sum or difference, in the unit of the left value."""
    act = operator.add if sign > 0 else operator.sub
    if left.unit is None or right.unit is None:
        named = left.unit if left.unit is not None else right.unit
        raise OperationFailed(f"{shown(named)} and a plain number cannot be added; give both a unit")
    return _value(_guarded(act, _quantity(left), _quantity(right)), left.exact and right.exact)


def scale(left: Value, right: Value, power: int, exact: bool) -> Value:
    """Product (power 1) or quotient (power -1); units that cancel are gone."""
    act = operator.mul if power > 0 else operator.truediv
    result = _guarded(act, _quantity(left), _quantity(right))
    if left.unit is not None and right.unit is not None:
        result = _guarded(_reduced, result)
    return _value(result, exact)


def _reduced(quantity: Any) -> Any:
    if quantity.dimensionless:
        return quantity.to_root_units() if not quantity.unitless else quantity
    return quantity.to_reduced_units()


def power(base: Value, times: Fraction) -> Value:
    """A power of a value with a unit, or its root where the unit has one."""
    if abs(times) > _HIGHEST_POWER:
        raise OperationFailed(f"a unit to a power above {_HIGHEST_POWER}")
    if times.denominator == 1 and (base.number or times > 0):
        exponent: Any = times.numerator
        return _value(_guarded(operator.pow, _quantity(base), exponent), base.exact)
    from runtime.operations import mathematics

    number = mathematics.power(Value(base.number, base.exact), Value(times))
    return Value(number.number, number.exact, _guarded(operator.pow, base.unit, times))


def convert(value: Value, target: Any) -> Value:
    """The value in another unit."""
    if value.unit is None:
        raise OperationFailed(f"a plain number cannot be converted to {shown(target)}; give it a unit")
    wanted = _guarded(lambda: _quantity(value).to(target))
    angles = {"radian", "degree", "arcminute", "arcsecond"} & {*value.unit._units, *target._units}
    return _value(wanted, value.exact and (not angles or value.unit == target))


_SUPERSCRIPTS = str.maketrans("0123456789-/", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᐟ")


def _compound(parts: Mapping[str, Any]) -> str:
    """A unit of several, in symbols; pint's own form does not take exponents that are fractions."""
    registry = _registry()
    above: list[str] = []
    below: list[str] = []
    for name, exponent in sorted(parts.items()):
        times = abs(Fraction(exponent))
        symbol = registry.get_symbol(name) + ("" if times == 1 else str(times).translate(_SUPERSCRIPTS))
        (above if exponent > 0 else below).append(symbol)
    return "/".join(["·".join(above) or "1", *below])


def shown(named: Any, plural: bool = False) -> str:
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
